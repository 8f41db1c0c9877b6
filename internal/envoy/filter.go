package envoy

import (
	"hash/crc32"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// way is a part of a rule's traffic for which the same is done.
type way struct {
	to      []weighted
	share   *corev3.RuntimeFractionalPercent // of what no way before it took; nil: the rest
	filters model.Filters
}

// ways are one, or one for each backend if something is done for any: the filters
// of a cluster in a route can't rewrite paths, and come before those of the route.
// A request has one random number, which all of its routes look at, so that shares
// add up. So does the choice of a cluster, so no way chooses between backends.
func ways(to []weighted) []way {
	if !slices.ContainsFunc(to, func(w weighted) bool { return w.filters != to[0].filters }) {
		return []way{{to: to, filters: to[0].filters}}
	}
	var out []way
	var total, passed float64
	for i := 0; i < len(to); i += int(to[i].of) {
		total += float64(to[i].weight) * float64(to[i].of)
	}
	for i := 0; i < len(to); {
		next := i + int(to[i].of)
		one := way{to: evenly(to[i:next]), filters: to[i].filters}
		passed += float64(to[i].weight) * float64(to[i].of)
		if next < len(to) {
			one.share = fraction(passed, total)
		}
		out, i = append(out, one), next
	}
	return out
}

// evenly gives the parts of a backend the same small weight.
func evenly(to []weighted) []weighted {
	out := slices.Clone(to)
	for i := range out {
		out[i].weight = 1
	}
	return out
}

const million = 1_000_000

// fraction is the finest that Envoy knows.
func fraction(part, of float64) *corev3.RuntimeFractionalPercent {
	return &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{
		Numerator: uint32(part/of*million + 0.5), Denominator: typev3.FractionalPercent_MILLION,
	}}
}

// mirror is a cluster that gets copies.
type mirror struct {
	cluster string
	of      model.Mirror
}

// mirrorsOf finds the clusters of a target's mirrors. Copies of a host's requests
// go to one part of a backend in parts: which of them get one, the same random
// number decides for each.
func (d *derivation) mirrorsOf(r *inc.Reader, t fleet.Target, host model.Host, dial model.Dial, f *fragment) []mirror {
	if len(t.Mirrors()) == 0 {
		return nil
	}
	var out []mirror
	for _, m := range t.Filters.Mirrors() {
		n, ok := d.clusterNames.Get(r, m.Backend)
		if !ok || n.tls.Broken() || m.Part == 0 || m.Of == 0 {
			continue
		}
		n.dial(dial)
		entries := n.entries()
		to := entries[crc32.ChecksumIEEE([]byte(host))%uint32(len(entries))]
		out = append(out, mirror{to, m})
		f.clusters = append(f.clusters, to)
	}
	return out
}

func shadows(to []mirror) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	for _, m := range to {
		p := &routev3.RouteAction_RequestMirrorPolicy{Cluster: m.cluster, DisableShadowHostSuffixAppend: true}
		if m.of.Part < m.of.Of {
			p.RuntimeFraction = fraction(float64(m.of.Part), float64(m.of.Of))
		}
		out = append(out, p)
	}
	return out
}

// filtered makes a route that leads to backends do what its rule says besides,
// but for retries.
func filtered(route *routev3.Route, m model.Match, k model.FiltersKey, mirrors []mirror) {
	action := route.GetRoute()
	route.RequestHeadersToAdd, route.RequestHeadersToRemove = changed(k.Request)
	respond(route, k)
	if k.Rewrite.Host != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: k.Rewrite.Host}
	}
	switch to := k.Rewrite; {
	case to.Path == "":
	case !to.Prefix:
		action.RegexRewrite = replaced("^.*", to.Path)
	default:
		action.PrefixRewrite, action.RegexRewrite = rewritten(m, to.Path)
	}
	action.RequestMirrorPolicies = shadows(mirrors)
	if k.CORS.Origins != "" {
		route.TypedPerFilterConfig = cors(k.CORS)
	}
	if t := k.Timeouts.Request; t > 0 {
		action.Timeout = millis(t)
	}
	if t := k.Timeouts.Backend; t > 0 {
		action.RetryPolicy = &routev3.RetryPolicy{PerTryTimeout: millis(t)}
	}
}

// respond changes the headers of what a client sees, of Envoy's own answers too.
func respond(route *routev3.Route, k model.FiltersKey) {
	route.ResponseHeadersToAdd, route.ResponseHeadersToRemove = changed(k.Response)
}

// changed is what a route has of changes. Envoy removes first.
func changed(c model.HeaderChanges) (add []*corev3.HeaderValueOption, remove []string) {
	for _, of := range []struct {
		list model.Packed[model.Header]
		how  corev3.HeaderValueOption_HeaderAppendAction
	}{
		{c.Set, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD},
		{c.Add, corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD},
	} {
		for _, h := range of.list.List() {
			if changeable(h.Name) {
				add = append(add, setting(h, of.how))
			}
		}
	}
	return add, slices.DeleteFunc(c.Remove.List(), func(name string) bool { return !changeable(name) })
}

// changeable leaves out what makes Envoy refuse all routes of a host.
func changeable(name string) bool {
	return !strings.HasPrefix(name, ":") && !strings.EqualFold(name, "host")
}

// setting writes a value as it is: "%" begins a command of Envoy's.
func setting(h model.Header, how corev3.HeaderValueOption_HeaderAppendAction) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: h.Name, Value: strings.ReplaceAll(h.Value, "%", "%%")}, AppendAction: how}
}

// rewritten replaces the prefix of a path. Envoy's own way is as with text, which
// is by elements unless one of the prefixes is "/".
func rewritten(m model.Match, to string) (prefix string, pattern *matcherv3.RegexMatchAndSubstitute) {
	to = strings.TrimRight(to, "/")
	if to != "" && !m.AllPaths() {
		return to, nil
	}
	return "", replaced("^"+regexp.QuoteMeta(strings.TrimRight(m.Path, "/"))+"/*", to+"/")
}

// replaced puts text in place of what a pattern finds in a path.
func replaced(pattern, text string) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{
		Pattern: &matcherv3.RegexMatcher{Regex: pattern}, Substitution: strings.ReplaceAll(text, `\`, `\\`),
	}
}

// corsFilter does what a route says of CORS. It is in every listener, since a
// request may come to another host on its way through the filters before it. See
// walkers.
const corsFilter = "cors"

func routeFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: corsFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&corsv3.Cors{})}}
}

// cors has Envoy answer preflights. Of "*" it makes what was asked for: where
// requests may have credentials, browsers take "*" for a name.
func cors(c model.CORS) map[string]*anypb.Any {
	policy := &corsv3.CorsPolicy{
		AllowMethods: strings.Join(c.Methods.List(), ","), AllowHeaders: strings.Join(c.Headers.List(), ","), ExposeHeaders: strings.Join(c.Expose.List(), ","),
		ForwardNotMatchingPreflights: wrapperspb.Bool(false),
	}
	if c.Credentials {
		policy.AllowCredentials = wrapperspb.Bool(true)
	}
	if c.MaxAge > 0 {
		policy.MaxAge = strconv.FormatInt(c.MaxAge, 10)
	}
	for _, origin := range c.Origins.List() {
		policy.AllowOriginStringMatch = append(policy.AllowOriginStringMatch, originMatcher(origin))
	}
	return map[string]*anypb.Any{corsFilter: brief(policy)}
}

// preflights are the routes of what the filter would answer otherwise than the
// standards have it: to other origins it would tell all but that they are allowed,
// and of "*" it would make an empty header where no header is asked for.
func preflights(m model.Match, c model.CORS, to []weighted, lost lost) []*routev3.Route {
	if method := m.When.Key().Method; c.Origins == "" || method != "" && method != "OPTIONS" {
		return nil
	}
	others := preflight(m)
	for _, origin := range c.Origins.List() {
		others.Headers = append(others.Headers, &routev3.HeaderMatcher{
			Name: "origin", InvertMatch: true, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: originMatcher(origin)},
		})
	}
	out := []*routev3.Route{{Match: others, Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 204}}}}
	if c.Headers != model.PackedOf("*") {
		return out
	}
	bare := preflight(m)
	asks := present("access-control-request-headers")
	asks.InvertMatch = true
	bare.Headers, c.Headers = append(bare.Headers, asks), ""
	return append(out, &routev3.Route{Match: bare, Action: &routev3.Route_Route{Route: forward(to, lost)}, TypedPerFilterConfig: cors(c)})
}

// preflight matches the preflights of what m matches.
func preflight(m model.Match) *routev3.RouteMatch {
	out := match(m)
	out.Headers = append(out.Headers, header(model.ValueMatch{Name: ":method", Value: "OPTIONS"}), present("access-control-request-method"), present("origin"))
	return out
}

func present(name string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
}

// originMatcher compares an origin as browsers write it: in lower case, without the
// port that its scheme has anyway.
func originMatcher(origin string) *matcherv3.StringMatcher {
	if origin == "*" {
		return text(model.ValueMatch{Value: ".*", Regex: true})
	}
	origin = strings.ToLower(origin)
	if scheme, rest, ok := strings.Cut(origin, "://"); ok {
		origin = scheme + "://" + strings.TrimSuffix(rest, ":"+strconv.Itoa(int(usualPorts[scheme])))
	}
	if !strings.Contains(origin, "*") {
		return text(model.ValueMatch{Value: origin})
	}
	return text(model.ValueMatch{Value: strings.ReplaceAll(regexp.QuoteMeta(origin), `\*`, "[^/:]*"), Regex: true})
}
