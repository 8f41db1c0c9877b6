package envoy

import (
	"cmp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/spillway-dev/spillway/internal/model"
)

// answered is the route of what the proxy answers itself.
func answered(m model.Match, a *model.Reply, host model.Host, port uint16) *routev3.Route {
	route := &routev3.Route{Match: match(m)}
	if a.Redirect != nil {
		route.Action = &routev3.Route_Redirect{Redirect: redirect(m, a, host, port)}
		return route
	}
	direct := &routev3.DirectResponseAction{Status: uint32(a.Status)}
	if a.Body != "" {
		direct.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: a.Body}}
	}
	route.Action = &routev3.Route_DirectResponse{DirectResponse: direct}
	return route
}

// redirects are the statuses of redirects.
var redirects = map[uint16]routev3.RedirectAction_RedirectResponseCode{
	301: routev3.RedirectAction_MOVED_PERMANENTLY, 302: routev3.RedirectAction_FOUND, 303: routev3.RedirectAction_SEE_OTHER,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT, 308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// usualPorts are those that a URL of a scheme need not name.
var usualPorts = map[string]uint16{"http": 80, "https": 443}

// unusual is a port that a URL must name, of a listener: 0 for one that goes without
// saying.
func unusual(port uint16) uint16 {
	for _, usual := range usualPorts {
		if port == usual {
			return 0
		}
	}
	return port
}

// redirect is an answer that leads elsewhere. Where it names neither scheme nor port,
// the port is that of the listener, if that is known: Envoy takes it from the request,
// but for another host it takes none.
func redirect(m model.Match, a *model.Reply, host model.Host, port uint16) *routev3.RedirectAction {
	code, ok := redirects[a.Status]
	if !ok {
		panic("envoy: no status of a redirect")
	}
	to := a.Redirect
	out := &routev3.RedirectAction{ResponseCode: code, HostRedirect: to.Host, PortRedirect: uint32(cmp.Or(to.Port, usualPorts[to.Scheme]))}
	if to.Host != "" && to.Scheme == "" && to.Port == 0 {
		out.PortRedirect = uint32(port)
	}
	// Envoy takes a port out only along with the host.
	if out.PortRedirect != 0 && out.PortRedirect == uint32(usualPorts[to.Scheme]) && (to.Host != "" || host.Exact()) {
		out.HostRedirect, out.PortRedirect = cmp.Or(to.Host, string(host)), 0
	}
	if to.Scheme != "" {
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: to.Scheme}
	}
	switch {
	case to.Path != "" && to.Prefix:
		redirectPrefix(out, m, to.Path)
	case to.Path != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: to.Path}
	}
	return out
}

func redirectPrefix(out *routev3.RedirectAction, m model.Match, to string) {
	prefix, pattern := rewritten(m, to)
	if pattern != nil {
		out.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: pattern}
		return
	}
	out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: prefix}
}
