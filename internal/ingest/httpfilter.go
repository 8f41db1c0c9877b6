package ingest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// failed is the status of requests for which something is asked that is not done: who
// relies on a filter is not to be served without it (HTTPRouteRule.filters).
const failed = 500

// filters reads what a rule does with requests besides choosing a backend.
func (in *httpRoute) filters(field model.Field, r *gatewayv1.HTTPRouteRule, out *model.Rule) {
	var k model.FiltersKey
	refused := false
	for i := range r.Filters {
		at, f := (field + ".filters").Index(i), &r.Filters[i]
		switch {
		case in.common(at, f, &k):
		case f.Type == gatewayv1.HTTPRouteFilterRequestRedirect && f.RequestRedirect != nil:
			out.Reply = in.redirect(at+".requestRedirect", f.RequestRedirect)
		case f.Type == gatewayv1.HTTPRouteFilterRequestMirror && f.RequestMirror != nil:
			in.mirror(at+".requestMirror", f.RequestMirror, &k)
		case f.Type == gatewayv1.HTTPRouteFilterCORS && f.CORS != nil:
			k.CORS = in.cors(f.CORS)
		case f.Type == gatewayv1.HTTPRouteFilterExternalAuth && f.ExternalAuth != nil:
			refused = !in.auth(at+".externalAuth", f.ExternalAuth, &k) || refused
		default:
			in.refuse(at, "filter %q is not supported: requests are answered %d", f.Type, failed)
			refused = true
		}
	}
	if refused && !in.leaf {
		out.Reply = &model.Reply{Status: failed}
	}
	in.timeouts(field+".timeouts", r.Timeouts, &k)
	in.retry(field+".retry", r.Retry, &k)
	out.Filters = k.Filters()
}

// common reads a filter that rules and backends have, and reports whether it is one.
func (in *httpRoute) common(field model.Field, f *gatewayv1.HTTPRouteFilter, k *model.FiltersKey) bool {
	switch {
	case f.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.RequestHeaderModifier != nil:
		k.Request = in.headers(field+".requestHeaderModifier", f.RequestHeaderModifier)
	case f.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && f.ResponseHeaderModifier != nil:
		k.Response = in.headers(field+".responseHeaderModifier", f.ResponseHeaderModifier)
	case f.Type == gatewayv1.HTTPRouteFilterURLRewrite && f.URLRewrite != nil:
		k.Rewrite = in.rewrite(field+".urlRewrite", f.URLRewrite)
	default:
		return false
	}
	return true
}

// ofBackend reads what is done for one backend. If something of it is not, its part
// of requests is answered as that of a backend which is not there.
func (in *httpRoute) ofBackend(field model.Field, filters []gatewayv1.HTTPRouteFilter, out *model.WeightedBackend) {
	var k model.FiltersKey
	for i := range filters {
		if at := (field + ".filters").Index(i); !in.common(at, &filters[i], &k) && !in.leaf {
			in.unsupported(at, "filter %q of a backend is not supported: its part of requests is answered as if it were not there", filters[i].Type)
			out.Backend = model.Backend{}
			return
		}
	}
	out.Filters = k.Filters()
}

// headers reads changes of headers.
func (in *httpRoute) headers(field model.Field, f *gatewayv1.HTTPHeaderFilter) model.HeaderChanges {
	list := func(all []gatewayv1.HTTPHeader) model.Packed[model.Header] {
		var out []model.Header
		for _, h := range all {
			if err := header(string(h.Name), h.Value); err != nil {
				in.invalid(field, "%v", err)
				continue
			}
			out = append(out, model.Header{Name: string(h.Name), Value: h.Value})
		}
		return model.PackedOf(out...)
	}
	var remove []string
	for _, name := range f.Remove {
		if err := header(name, ""); err != nil {
			in.invalid(field, "%v", err)
			continue
		}
		remove = append(remove, name)
	}
	return model.HeaderChanges{Set: list(f.Set), Add: list(f.Add), Remove: model.PackedOf(remove...)}
}

// kept are the headers by which edges work, or what their names begin with: whoever
// changes them would end what protects the edges, such as the count of how many of
// them a request has passed.
var kept = []string{"cdn-loop", "x-envoy-", "x-spillway-"}

// header checks a change of a header, which one rule that Envoy refuses would make it
// do for all rules of the host (RFC 9110, 5.1 and 5.5). The error says what to do.
func header(name, value string) error {
	lower := strings.ToLower(name)
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	switch {
	case lower == "host" || strings.HasPrefix(name, ":"):
		return fmt.Errorf("header %q can't be changed here: use a filter of type URLRewrite for the host", name)
	case !token.MatchString(name):
		return fmt.Errorf("%q is no name of a header", name)
	case slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(lower, prefix) }):
		return fmt.Errorf("header %q is the edges' own: leave it as it is", name)
	case strings.ContainsFunc(value, control) || !utf8.ValidString(value):
		return fmt.Errorf("the value of header %q has a character that no header can have", name)
	}
	return nil
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (in *httpRoute) rewrite(field model.Field, f *gatewayv1.HTTPURLRewriteFilter) model.Rewrite {
	out := model.Rewrite{}
	out.Host = in.newHost(field+".hostname", f.Hostname)
	out.Path, out.Prefix = in.newPath(field+".path", f.Path)
	return out
}

// newHost reads a host that takes the place of the one requested; empty: none does.
func (in *httpRoute) newHost(field model.Field, h *gatewayv1.PreciseHostname) string {
	name := strings.ToLower(otherwise(h, ""))
	if name == "" {
		return ""
	}
	if err := dnsName(name); err != nil {
		in.invalid(field, "%q is not a DNS name: %v; the host stays as it is", name, err)
		return ""
	}
	return name
}

// newPath reads a path that takes the place of the one requested, or of the prefix by
// which the rule matched; empty: none does.
func (in *httpRoute) newPath(field model.Field, p *gatewayv1.HTTPPathModifier) (path string, whole bool) {
	if p == nil {
		return "", false
	}
	ofPrefix := p.Type == gatewayv1.PrefixMatchHTTPPathModifier
	path = otherwise(p.ReplaceFullPath, "")
	if ofPrefix {
		path = prefix(otherwise(p.ReplacePrefixMatch, "/"))
	}
	if path == "" {
		path = "/"
	}
	if err := absolute(path); err != nil {
		in.invalid(field, "%v; the path stays as it is", err)
		return "", false
	}
	return path, ofPrefix
}

// mirror reads who gets copies. One that is not valid gets none.
func (in *httpRoute) mirror(field model.Field, f *gatewayv1.HTTPRequestMirrorFilter, k *model.FiltersKey) {
	m := model.Mirror{Backend: in.backend(field+".backendRef", f.BackendRef), Part: 1, Of: 1}
	switch {
	case f.Percent != nil:
		m.Part, m.Of = uint32(max(*f.Percent, 0)), 100
	case f.Fraction != nil:
		m.Part, m.Of = uint32(max(f.Fraction.Numerator, 0)), 100
		if d := f.Fraction.Denominator; d != nil {
			m.Of = uint32(max(*d, 1))
		}
	}
	if m.Backend != (model.Backend{}) && m.Part > 0 {
		m.Part = min(m.Part, m.Of)
		k.Mirrors = model.PackedOf(append(k.Mirrors.List(), m)...)
	}
}

// cors reads which scripts may read answers.
func (in *httpRoute) cors(f *gatewayv1.HTTPCORSFilter) model.CORS {
	out := model.CORS{MaxAge: int64(f.MaxAge), Credentials: f.AllowCredentials != nil && *f.AllowCredentials}
	out.Origins, out.Methods = texts(f.AllowOrigins), texts(f.AllowMethods)
	out.Headers, out.Expose = texts(f.AllowHeaders), texts(f.ExposeHeaders)
	return out
}

func texts[T ~string](list []T) model.Packed[string] {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return model.PackedOf(out...)
}

// timeouts reads how long a request may take. No time at all is no limit (GEP-1742).
func (in *httpRoute) timeouts(field model.Field, t *gatewayv1.HTTPRouteTimeouts, k *model.FiltersKey) {
	if t == nil {
		return
	}
	k.Timeouts.Request = in.timeout(field+".request", t.Request)
	k.Timeouts.Backend = in.timeout(field+".backendRequest", t.BackendRequest)
}

func (in *httpRoute) timeout(field model.Field, d *gatewayv1.Duration) int64 {
	if d == nil {
		return 0
	}
	parsed, err := time.ParseDuration(string(*d))
	switch {
	case err != nil || parsed < 0:
		in.invalid(field, "%q is no duration: write such as 500ms or 1m30s", *d)
		return 0
	case parsed == 0:
		return model.NoTimeout
	}
	return max(1, parsed.Milliseconds())
}

// retry reads when a request is sent again.
func (in *httpRoute) retry(field model.Field, r *gatewayv1.HTTPRouteRetry, k *model.FiltersKey) {
	if r == nil {
		return
	}
	codes := make([]uint16, len(r.Codes))
	for i, c := range r.Codes {
		codes[i] = uint16(c)
	}
	k.Retry = model.Retry{Own: true, Codes: model.PackedOf(codes...), Attempts: 1}
	if r.Attempts != nil {
		k.Retry.Attempts = uint32(max(*r.Attempts, 0))
	}
	if r.Backoff != nil {
		in.Warning(field+".backoff", model.ReasonUnsupported, "there is no least time between attempts, since Envoy waits a random one up to what is set: the first retry comes within 5 ms, each at another endpoint; leave it out")
	}
}
