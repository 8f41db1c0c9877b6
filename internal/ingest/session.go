package ingest

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// session reads how clients go back to the endpoint that answered them before
// (GEP-1619), of a rule whose backends are read. What can't be done leaves the rest of the
// rule as it is: a client without a session is served.
func (in *httpRoute) session(field model.Field, i int, p *gatewayv1.SessionPersistence, out *model.Rule) {
	if p == nil {
		return
	}
	at := field + ".sessionPersistence"
	if out.Reply != nil {
		in.Warning(at, model.ReasonUnsupported, "the rule is answered without a backend, so that there is no session: leave it out")
		return
	}
	var s model.Session
	var ok bool
	switch kind := otherwise(p.Type, string(gatewayv1.CookieBasedSessionPersistence)); gatewayv1.SessionPersistenceType(kind) {
	case gatewayv1.CookieBasedSessionPersistence:
		s, ok = in.cookie(at, i, p, out)
	case gatewayv1.HeaderBasedSessionPersistence:
		s, ok = in.sessionHeader(at, p, out)
	default:
		in.invalid(at+".type", "%q is not known: set Cookie or Header; until then there are no sessions", kind)
	}
	if ok {
		k := out.Filters.Key()
		k.Session = s
		out.Filters = k.Filters()
	}
}

// cookie reads a session by a cookie.
func (in *httpRoute) cookie(field model.Field, i int, p *gatewayv1.SessionPersistence, out *model.Rule) (model.Session, bool) {
	c := p.Cookie
	if c == nil {
		in.Warning(field+".cookie", model.ReasonUnsupported, "there is none, so the cookie has a name that is made up: sessionName, cookieConfig and idleTimeout of the Gateway API before v1.7 are not read")
		c = &gatewayv1.CookieConfig{}
	}
	s := model.Session{Name: otherwise(c.Name, ""), Path: otherwise(c.Path, "")}
	if s.Path == "" {
		s.Path = "/"
	}
	if s.Name == "" {
		s.Name = in.cookieName(i, out.Name)
	} else {
		s.First = firstOf(out.Backends)
	}
	if err := cookieOK(s); err != nil {
		in.invalid(field+".cookie", "%v; until then there are no sessions", err)
		return s, false
	}
	s.Age = in.cookieAge(field, c, p.AbsoluteTimeout)
	return s, true
}

// cookieName is a name for the cookie of a rule, which stays while the route has its
// name and the rule its own, or else its place.
func (in *httpRoute) cookieName(i int, rule string) string {
	if rule == "" {
		rule = fmt.Sprint(i)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, in.Object, "/", rule)
	return fmt.Sprintf("session-%08x", h.Sum32())
}

// firstOf is the first backend that there is, whatever its weight.
func firstOf(all []model.WeightedBackend) model.Backend {
	for _, b := range all {
		if b.Backend != (model.Backend{}) {
			return b.Backend
		}
	}
	return model.Backend{}
}

// cookieOK checks what is written of a cookie. The error says what to do.
func cookieOK(s model.Session) error {
	if !token.MatchString(s.Name) {
		return fmt.Errorf("%q is no name of a cookie", s.Name)
	}
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ';' }
	switch {
	case !strings.HasPrefix(s.Path, "/") || strings.ContainsFunc(s.Path, odd):
		return fmt.Errorf("%q is no path of a cookie: begin with /, and write no space or semicolon", s.Path)
	case model.HostCookie(s.Name) && s.Path != "/":
		return fmt.Errorf("browsers take a cookie %q for the path / alone: leave out the path", s.Name)
	}
	return nil
}

// cookieAge is for how many seconds a client keeps a cookie; 0: until it ends.
func (in *httpRoute) cookieAge(field model.Field, c *gatewayv1.CookieConfig, timeout *gatewayv1.Duration) int64 {
	switch kind := otherwise(c.LifetimeType, string(gatewayv1.SessionCookieLifetimeType)); gatewayv1.CookieLifetimeType(kind) {
	case gatewayv1.PermanentCookieLifetimeType:
		return in.age(field+".absoluteTimeout", timeout)
	case gatewayv1.SessionCookieLifetimeType:
		in.noTimeout(field, timeout, "the cookie ends with the client's session and not before: leave it out, or set cookie.lifetimeType to Permanent")
	default:
		in.invalid(field+".cookie.lifetimeType", "%q is not known: set Session or Permanent; until then it is Session", kind)
	}
	return 0
}

func (in *httpRoute) age(field model.Field, timeout *gatewayv1.Duration) int64 {
	d, err := time.ParseDuration(otherwise(timeout, ""))
	if err != nil || d <= 0 {
		in.invalid(field, "%q is no time for which a cookie may be kept: write such as 1h30m; until then it ends with the client's session", otherwise(timeout, ""))
		return 0
	}
	return int64((d + time.Second - 1) / time.Second)
}

// noTimeout tells who sets a timeout that proxies can't keep: the state of a session is
// with the client.
func (in *httpRoute) noTimeout(field model.Field, timeout *gatewayv1.Duration, what string) {
	if timeout != nil {
		in.Warning(field+".absoluteTimeout", model.ReasonUnsupported, "%s", what)
	}
}

// sessionHeader reads a session by a header.
func (in *httpRoute) sessionHeader(field model.Field, p *gatewayv1.SessionPersistence, out *model.Rule) (model.Session, bool) {
	if p.Header == nil {
		in.invalid(field+".header", "there is none: set header.name; until then there are no sessions. sessionName of the Gateway API before v1.7 is not read")
		return model.Session{}, false
	}
	name := string(p.Header.Name)
	if err := settable(name); err != nil {
		in.invalid(field+".header.name", "%v; until then there are no sessions", err)
		return model.Session{}, false
	}
	in.noTimeout(field, p.AbsoluteTimeout, "a session by a header ends with what the client keeps: leave it out")
	first := firstOf(out.Backends)
	for _, b := range out.Backends {
		if b.Backend != first && b.Backend != (model.Backend{}) {
			in.Warning(field, model.ReasonUnsupported, "one header keeps one endpoint, and which of the rule's backends a request goes to is chosen before: a session ends whenever another one is chosen; set type Cookie, of which each backend has its own")
			break
		}
	}
	return model.Session{Name: name, Header: true}, true
}
