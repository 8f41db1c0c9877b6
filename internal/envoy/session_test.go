package envoy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// Pods of a request table are named in it, in headers and cookies of requests and in what
// is told of answers, as "@shop/a@eu-1" for a cookie and "@@shop/a@eu-1" for a header:
// their addresses are known when they run.

func (tab *requestTable) nameEndpoints() {
	var names []string
	for _, name := range tab.names {
		for _, p := range tab.backends[name].pods {
			names = append(names, "@@"+p.name, routetest.SessionHeader(p.addr.String()), "@"+p.name, routetest.SessionCookie(p.addr.String()))
		}
	}
	in := strings.NewReplacer(names...)
	for i := range tab.requests {
		e := &tab.requests[i]
		for _, values := range e.q.header {
			for i := range values {
				values[i] = in.Replace(values[i])
			}
		}
		for i := range e.more {
			e.more[i].want = in.Replace(e.more[i].want)
		}
	}
}

// session is the endpoint that a client names for a backend of a target, as a pod of it
// that may get requests; empty: none.
func (tab *requestTable) session(to fleet.Target, b model.WeightedBackend, q request) string {
	s := to.Filters.Session()
	if s == (model.Session{}) || b.Weight == 0 || !takes(s, q) {
		return ""
	}
	name := b.Backend.Service().String()
	for _, p := range tab.backends[name].pods {
		_, member, _ := strings.Cut(p.name, "@")
		if slices.Contains(tab.backends[name].members, member) && shows(s, b.Backend, q, p) {
			return p.name
		}
	}
	return ""
}

// takes reports whether a client shows a cookie to the path that it asks for.
func takes(s model.Session, q request) bool {
	path, _, _ := strings.Cut(normalize(q.path), "?")
	base := strings.TrimSuffix(s.Path, "/")
	return s.Header || path == s.Path || path == base || strings.HasPrefix(path, base+"/")
}

func shows(s model.Session, b model.Backend, q request, p *pod) bool {
	if s.Header {
		return q.header.Get(s.Name) == routetest.SessionHeader(p.addr.String())
	}
	c, err := (&http.Request{Header: q.header}).Cookie(s.Of(b))
	return err == nil && c.Value == routetest.SessionCookie(p.addr.String())
}

// promisedSession adds to an answer what names the endpoint, where the client has not
// named it: that of the first member that serves.
func (tab *requestTable) promisedSession(to fleet.Target, b model.WeightedBackend, q request, answer http.Header) {
	s := to.Filters.Session()
	if s == (model.Session{}) || !takes(s, q) || tab.session(to, b, q) != "" {
		return
	}
	of := tab.backends[b.Backend.Service().String()]
	i := slices.IndexFunc(of.members, func(m string) bool { return !strings.Contains(m, ":") })
	switch {
	case i < 0:
	case s.Header:
		answer.Set(s.Name, routetest.SessionHeader(of.pods[i].addr.String()))
	default:
		answer.Add("Set-Cookie", s.Of(b.Backend)+"="+routetest.SessionCookie(of.pods[i].addr.String()))
	}
}

// cookieIn is the cookie of an answer, "-" for none.
func cookieIn(answer http.Header) string {
	all := (&http.Response{Header: answer}).Cookies()
	if len(all) == 0 {
		return "-"
	}
	var out []string
	for _, c := range all {
		out = append(out, c.Name+"="+c.Value)
	}
	return strings.Join(out, ",")
}
