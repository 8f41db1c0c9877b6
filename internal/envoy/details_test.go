package envoy

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// detail is what is told of a request besides who answers.
type detail struct{ backend, key, want string }

func parseDetail(word string) detail {
	key, want, _ := strings.Cut(word, "=")
	d := detail{key: key, want: want}
	if of, key, ok := strings.Cut(key, ":"); ok {
		d.backend, d.key = of, key
	}
	return d
}

// account is what is known of a request that was answered.
type account struct {
	path, host  string // as the backend sees them
	got, answer http.Header
	mirrors     []string
}

// accounts are by the backend that answers; empty: Envoy itself.
type accounts map[string]account

func (a account) value(key string) string {
	name, ofAnswer := strings.CutPrefix(key, "<")
	all := a.got.Values(name)
	switch {
	case key == "path":
		return a.path
	case key == "host":
		return a.host
	case key == "cookie":
		return cookieIn(a.answer)
	case ofAnswer:
		all = a.answer.Values(name)
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.ReplaceAll(strings.Join(all, ","), " ", "")
}

func (e expectation) check(t *testing.T, who, got string, told accounts) {
	t.Helper()
	if !agree(e.want, got) {
		t.Errorf("%s: %s %s", e.line, who, got)
	}
	for _, d := range e.more {
		for of, a := range told {
			switch {
			case d.backend != "" && d.backend != of:
			case d.key == "mirror":
				if a.mirrors != nil && strings.Join(a.mirrors, ",") != d.want {
					t.Errorf("%s: %s mirror=%s", e.line, who, strings.Join(a.mirrors, ","))
				}
			case a.value(d.key) != d.want:
				t.Errorf("%s: %s %s=%s", e.line, who, d.key, a.value(d.key))
			}
		}
	}
}

// ofPods are headers that pods answer with.
func ofPods() http.Header { return http.Header{"Server": {"pod"}} }

// simulated is what an outcome says of each backend.
func (tab *requestTable) simulated(o routetest.Outcome) accounts {
	out := accounts{}
	if by := backendOf(o.Header.Get("X-Answered-By")); len(o.Sent) == 0 && by != "" {
		out[by] = observed(reply{header: o.Header})
	} else if len(o.Sent) == 0 {
		out[""] = account{answer: o.Header}
	}
	for _, s := range o.Sent {
		answer := ofPods()
		s.Respond(answer)
		a := account{path: s.Path, host: s.Host, got: s.Header, answer: answer, mirrors: []string{}}
		for _, m := range o.Mirrors {
			a.mirrors = append(a.mirrors, backendOf(tab.podAt(m.Endpoint)))
		}
		out[backendOf(tab.podAt(s.Endpoint))] = a
	}
	return out
}

func (tab *requestTable) podAt(addr string) string {
	for _, b := range tab.backends {
		for _, p := range b.pods {
			if p.addr.String() == addr {
				return p.name
			}
		}
	}
	return ""
}

func backendOf(pod string) string {
	name, _, _ := strings.Cut(pod, "@")
	return name
}

// observed is what a pod told of a request in the headers of its answer.
func observed(r reply) account {
	a := account{path: r.header.Get("X-Path"), host: r.header.Get("X-Host"), got: http.Header{}, answer: r.header}
	for name, values := range r.header {
		if of, ok := strings.CutPrefix(name, "Got-"); ok {
			a.got[http.CanonicalHeaderKey(of)] = values
		}
	}
	return a
}

// heard is who was asked what.
type heard struct {
	mu sync.Mutex
	by map[string][]string // X-Ask to backends
}

func (tab *requestTable) listen() *heard {
	h := &heard{by: map[string][]string{}}
	for name, b := range tab.backends {
		f := func(r *http.Request) {
			h.mu.Lock()
			defer h.mu.Unlock()
			ask := r.Header.Get("X-Ask")
			h.by[ask] = append(h.by[ask], fmt.Sprint(name, " ", r.Host, r.URL.RequestURI()))
		}
		for _, p := range b.pods {
			p.heard.Store(&f)
		}
	}
	return h
}

// checkCopies waits for copies of a request, and sees to it that no other backend
// has got one by then.
func (tab *requestTable) checkCopies(t *testing.T, e expectation, h *heard, ask string) {
	t.Helper()
	var want []string
	for _, d := range e.more {
		if d.key == "mirror" && d.want != "" {
			want = strings.Split(d.want, ",")
		}
	}
	copies := func() (out []string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, text := range h.by[ask] {
			name, _, _ := strings.Cut(text, " ")
			if tab.backends[name].copies && !agree(e.want, name) {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	envoytest.Until(t, "copies of "+e.line, func() bool { return len(copies()) >= len(want) })
	if got := copies(); !slices.Equal(got, want) {
		t.Errorf("%s: copies went to %v", e.line, got)
	}
}

// What users were promised of what a rule does besides choosing a backend.

func (tab *requestTable) promised(to fleet.Target, m model.Match, q request) accounts {
	out := accounts{}
	for _, b := range to.Backends {
		if b.Weight == 0 {
			continue
		}
		a := account{path: normalize(q.path), host: strings.Replace(q.host, ".:", ":", 1), got: q.header.Clone(), mirrors: []string{}}
		for _, f := range []model.Filters{to.Filters, b.Filters} {
			k := f.Key()
			maps.DeleteFunc(a.got, func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Envoy-") })
			applyTo(a.got, k.Request)
			if k.Rewrite.Host != "" {
				a.host = k.Rewrite.Host
			}
			if k.Rewrite.Path != "" {
				a.path = promisedPath(m, k.Rewrite, q)
			}
		}
		a.answer = promisedAnswer(promisedAnswer(ofPods(), b.Filters), to.Filters)
		for name, values := range promisedSharing(to.Filters, q) {
			a.answer[name] = values
		}
		tab.promisedSession(to, b, q, a.answer)
		for _, copied := range to.Filters.Mirrors() {
			if copied.Part > 0 {
				a.mirrors = append(a.mirrors, copied.Backend.Service().String())
			}
		}
		out[b.Backend.Service().String()] = a
	}
	return out
}

func promisedAnswer(h http.Header, f model.Filters) http.Header {
	applyTo(h, f.Key().Response)
	return h
}

func applyTo(h http.Header, c model.HeaderChanges) {
	for _, name := range c.Remove.List() {
		h.Del(name)
	}
	for _, x := range c.Set.List() {
		h.Set(x.Name, x.Value)
	}
	for _, x := range c.Add.List() {
		h.Add(x.Name, x.Value)
	}
}

// promisedPath is that of a redirect to the same place.
func promisedPath(m model.Match, to model.Rewrite, q request) string {
	url := redirected(m, model.Redirect{Path: to.Path, Prefix: to.Prefix}, q)
	return url[strings.Index(url[len("https://"):], "/")+len("https://"):]
}

// promisedSharing is what CORS adds to the answer to any request.
func promisedSharing(f model.Filters, q request) http.Header {
	c, origin := f.Key().CORS, q.header.Get("Origin")
	if !slices.ContainsFunc(c.Origins.List(), func(allowed string) bool { return originFits(allowed, origin) }) || origin == "" {
		return nil
	}
	out := http.Header{"Access-Control-Allow-Origin": {origin}}
	if c.Credentials {
		out.Set("Access-Control-Allow-Credentials", "true")
	}
	if expose := c.Expose.List(); expose != nil && q.method != http.MethodOptions {
		out.Set("Access-Control-Expose-Headers", strings.Join(expose, ","))
	}
	return out
}

func originFits(allowed, origin string) bool {
	allowed = regexp.MustCompile("^(http://.*):80$|^(https://.*):443$").ReplaceAllString(allowed, "$1$2")
	return allowed == "*" || regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(allowed), `\*`, "[^:/]*")+"$").MatchString(origin)
}

// promisedPreflight is the answer to a preflight; nil: it is none that concerns us.
func promisedPreflight(f model.Filters, q request) http.Header {
	c, method := f.Key().CORS, q.header.Get("Access-Control-Request-Method")
	if c.Origins == "" || q.method != http.MethodOptions || method == "" || q.header.Get("Origin") == "" {
		return nil
	}
	out := promisedSharing(f, q)
	if out == nil {
		return http.Header{}
	}
	for name, all := range map[string][2]string{
		"Methods": {strings.Join(c.Methods.List(), ","), method},
		"Headers": {strings.Join(c.Headers.List(), ","), q.header.Get("Access-Control-Request-Headers")},
	} {
		value := all[0]
		if value == "*" {
			value = all[1]
		}
		if value != "" {
			out.Set("Access-Control-Allow-"+name, value)
		}
	}
	if c.MaxAge > 0 {
		out.Set("Access-Control-Max-Age", fmt.Sprint(c.MaxAge))
	}
	return out
}
