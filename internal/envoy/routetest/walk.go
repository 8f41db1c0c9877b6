package routetest

import (
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	mutatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	taggingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ip_tagging/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	"google.golang.org/protobuf/proto"
)

// walk finds where a request is tried, in order: its host, that in lower case, the
// wildcard one label up, and the catch-all. In a listener with wildcards of any depth,
// those go before the last that the index of wildcards names; of what comes behind the
// index three are tried. Only the first is found without the code of the walk.
func (s *Proxy) walk(m *hcmv3.HttpConnectionManager, host string) iter.Seq[*routev3.RouteConfiguration] {
	header := s.scopeHeader(m)
	from := m.GetScopedRoutes().ScopeKeyBuilder.Fragments[0].GetHeaderValueExtractor()
	deep, steps := s.walkers(m)
	if header.GetKey() != from.Name || from.ElementSeparator != ":" || from.GetIndex() != 0 || steps != stepsOf[deep]+stepsApart[s.tellsApart(m)] {
		s.Fail("the model does not know %v", m)
	}
	if s.scope(walk) == nil {
		s.Missing("nobody walks on without a scope %s", walk)
	}
	table := tableIn(header)
	host, _, _ = strings.Cut(host, ":")
	lower := strings.ToLower(host)
	tried := []string{host, lower, "*." + Parent(lower)}
	rest := []string{"*"}
	if deep {
		rest = append(s.indexed(table, lower), "*")
		rest = rest[:min(3, len(rest))]
	}
	return func(yield func(*routev3.RouteConfiguration) bool) {
		for _, name := range append(tried, rest...) {
			if name == index {
				continue // no virtual host of it is for that
			}
			if rc := s.scope(table + name); rc != nil && !yield(rc) {
				return
			}
		}
	}
}

// scopeHeader is what a listener makes of a request to find its host.
func (s *Proxy) scopeHeader(m *hcmv3.HttpConnectionManager) *corev3.HeaderValue {
	var early earlyv3.HeaderMutation
	s.unpack(m.EarlyHeaderMutationExtensions[0].TypedConfig.Value, &early)
	return early.Mutations[len(early.Mutations)-1].GetAppend().GetHeader()
}

func tableIn(header *corev3.HeaderValue) string {
	return strings.TrimSuffix(elsewhere.ReplaceAllString(header.GetValue(), ""), "%REQ(:authority)%")
}

// elsewhere begins the walk of a request at once, where its host is not the name of the
// handshake. Requests that it takes for others without need come to the same end.
var elsewhere = regexp.MustCompile(`^%CEL\(request\.host == connection\.requested_server_name( \|\|[^?]*)? \? "" : "\?:"\)%`)

func (s *Proxy) tellsApart(m *hcmv3.HttpConnectionManager) bool {
	return elsewhere.MatchString(s.scopeHeader(m).GetValue())
}

// Steps that a walk may need, by whether there are wildcards of any depth, and how many
// more where connections are told apart.
var (
	stepsOf    = map[bool]int{false: 2, true: 5}
	stepsApart = map[bool]int{true: 2}
)

// walkers are the filters of the walk: what brings a request there, and one without
// code of its own for each step.
func (s *Proxy) walkers(m *hcmv3.HttpConnectionManager) (deep bool, steps int) {
	at := slices.IndexFunc(m.HttpFilters, func(f *hcmv3.HttpFilter) bool { return f.Name == "walk" })
	var begin mutatev3.HeaderMutation
	s.unpack(m.HttpFilters[at].GetTypedConfig().Value, &begin)
	var anew taggingv3.IPTagging
	s.unpack(m.HttpFilters[at+1].GetTypedConfig().Value, &anew)
	to := begin.Mutations.RequestMutations[0].GetAppend().GetHeader()
	deep = to.Value == "?:d:%REQ("+to.Key+")%"
	if !everybody(&anew, to.Key) || to.Key != s.scopeHeader(m).Key || !deep && to.Value != "?::%REQ("+to.Key+")%" {
		s.Fail("the model does not know %v", m)
	}
	for _, f := range m.HttpFilters[at+2:] {
		var code luav3.Lua
		if f.Name != "walk" {
			break
		}
		if s.unpack(f.GetTypedConfig().Value, &code); !proto.Equal(&code, &luav3.Lua{}) {
			s.Fail("the model does not know %v", m)
		}
		steps++
	}
	return deep, steps
}

// everybody reports whether a filter marks the requests of all clients in a header, and so
// has the route looked for again.
func everybody(f *taggingv3.IPTagging, header string) bool {
	var all []string
	for _, tag := range f.IpTags {
		for _, r := range tag.IpList {
			all = append(all, r.AddressPrefix+"/"+strconv.Itoa(int(r.PrefixLen.GetValue())))
		}
	}
	return f.RequestType == taggingv3.IPTagging_BOTH && slices.Equal(all, []string{"0.0.0.0/0", "::/0"}) &&
		f.IpTagHeader.GetHeader() == header && f.IpTagHeader.GetAction() == taggingv3.IPTagging_IpTagHeader_APPEND_IF_EXISTS_OR_ADD
}

// elsewhere reports whether a request is for another listener than its connection, as
// the walk finds out: by an index of virtual hosts for listeners, of which
// the first route for the name of the handshake has a name, if it is of the same.
func (s *Proxy) elsewhere(m *hcmv3.HttpConnectionManager, q Request, host string) bool {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	sni := strings.ToLower(q.SNI)
	if host == sni || !s.tellsApart(m) {
		return false
	}
	rc := s.scope(tableIn(s.scopeHeader(m)) + names)
	if rc == nil {
		return true
	}
	of := Request{Header: http.Header{"X-Spillway-Sni": {sni}}}
	for _, route := range s.closest(rc, host).GetRoutes() {
		if !slices.ContainsFunc(route.Match.Headers, func(h *routev3.HeaderMatcher) bool { return !s.hasHeader(h, of) }) {
			return route.Name == ""
		}
	}
	return true
}

// closest is the virtual host for a host: of its name, or the longest wildcard.
func (s *Proxy) closest(rc *routev3.RouteConfiguration, host string) *routev3.VirtualHost {
	var best *routev3.VirtualHost
	for _, vh := range rc.VirtualHosts {
		suffix, wild := strings.CutPrefix(vh.Domains[0], "*")
		switch {
		case len(vh.Domains) != 1:
			s.Fail("the model does not know the index %v", vh)
		case vh.Domains[0] == host:
			return vh
		case wild && strings.HasSuffix(host, suffix) && (best == nil || len(vh.Domains[0]) > len(best.Domains[0])):
			best = vh
		}
	}
	return best
}

// Scopes that are for no host: the index of the wildcards of any depth, that of the
// names of listeners, and that of the walk, which is no table's.
const (
	index = "**"
	names = ","
	walk  = "?"
)

// indexed are the wildcards of any depth that the index of a table names for a host.
func (s *Proxy) indexed(table, host string) []string {
	rc := s.scope(table + index)
	if rc == nil {
		return nil
	}
	longest, tried := "", ""
	for _, vh := range rc.VirtualHosts {
		base, wild := strings.CutPrefix(vh.Domains[0], "*")
		if len(vh.Domains) != 1 || !wild || len(vh.Routes) != 1 {
			s.Fail("the model does not know the index %v", vh)
		}
		if strings.HasSuffix(host, base) && len(base) > len(longest) {
			longest, tried = base, vh.Routes[0].Name
		}
	}
	if tried == "" {
		return nil
	}
	return strings.Split(tried, ":")
}

// scope is what a scope's key leads to; nil: there is none.
func (s *Proxy) scope(key string) *routev3.RouteConfiguration {
	for _, scope := range s.scopes {
		if scope.Key.Fragments[0].GetStringKey() != key {
			continue
		}
		rc, ok := s.routes[scope.RouteConfigurationName]
		if !ok {
			s.Missing("no RouteConfiguration %s", scope.RouteConfigurationName)
		}
		return rc
	}
	return nil
}
