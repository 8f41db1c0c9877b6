package routetest

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

var statuses = map[routev3.RedirectAction_RedirectResponseCode]uint32{
	routev3.RedirectAction_MOVED_PERMANENTLY: 301, routev3.RedirectAction_FOUND: 302, routev3.RedirectAction_SEE_OTHER: 303,
	routev3.RedirectAction_TEMPORARY_REDIRECT: 307, routev3.RedirectAction_PERMANENT_REDIRECT: 308,
}

var schemes = map[bool]string{false: "http", true: "https"}

// location is where Envoy sends a client by a redirect.
func (s *Proxy) location(m *routev3.RouteMatch, r *routev3.RedirectAction, q Request, host, uri string) string {
	old := schemes[q.TLS]
	scheme := cmp.Or(r.GetSchemeRedirect(), old)
	name, port, _ := strings.Cut(host, ":")
	standard := map[string]string{"http": "80", "https": "443"}[old]
	switch {
	case r.HostRedirect != "":
		name, port = r.HostRedirect, ""
	case scheme != old && port == standard:
		port = ""
	}
	if r.PortRedirect != 0 {
		port = strconv.Itoa(int(r.PortRedirect))
	}
	if port != "" {
		name += ":" + port
	}
	p, query, has := strings.Cut(uri, "?")
	switch x := r.PathRewriteSpecifier.(type) {
	case nil:
	case *routev3.RedirectAction_PathRedirect:
		p = x.PathRedirect
	case *routev3.RedirectAction_PrefixRewrite:
		p = x.PrefixRewrite + p[len(prefixOf(m)):]
	case *routev3.RedirectAction_RegexRewrite:
		p = regexp.MustCompile(x.RegexRewrite.Pattern.Regex).ReplaceAllString(p, substitution(x.RegexRewrite))
	default:
		s.Fail("the model does not know %T", x)
	}
	if has {
		p += "?" + query
	}
	return scheme + "://" + name + p
}
