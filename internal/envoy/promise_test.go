package envoy

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// What users were promised, in the plainest way.

// promisedTo is what becomes of a request for a host, and by which match; nil if
// nothing is for it.
func promisedTo(host fleet.Host, q request) (*fleet.Target, model.Match) {
	to, best := host.Default, model.Match{}
	for i, route := range host.Routes {
		if fits(route.Match, q) && slices.Compare(merits(route.Match), merits(best)) > 0 {
			to, best = &host.Routes[i].Target, route.Match
		}
	}
	return to, best
}

// layers are a host whose routes are in layers: what the first has no match for
// goes on to the next. The last has the default, the first all else.
type layers []*fleet.Host

func (all layers) promisedTo(q request) (to *fleet.Target, m model.Match) {
	for _, layer := range all {
		if to, m = promisedTo(*layer, q); to != nil {
			break
		}
	}
	return to, m
}

// joined is the host as fleet makes it: each match once.
func (all layers) joined() fleet.Host {
	out := *all[0]
	out.Routes, out.Default, out.Layered = nil, all[len(all)-1].Default, len(all) > 1
	for _, layer := range all {
		routes := slices.SortedStableFunc(slices.Values(layer.Routes), func(a, b fleet.Route) int { return a.Match.Precedence(b.Match) })
		out.Routes = append(out.Routes, slices.DeleteFunc(routes, func(x fleet.Route) bool {
			return slices.ContainsFunc(out.Routes, func(before fleet.Route) bool { return before.Match == x.Match })
		})...)
	}
	return out
}

// merits are what the standards look at, one after the other: more goes first.
// Nothing has less than the zero match.
func merits(m model.Match) []int {
	if m.Path == "" {
		return nil
	}
	k := m.When.Key()
	kind := map[model.PathKind]int{model.PathExact: 4, model.PathRegex: 3, model.PathPrefix: 2, model.PathLate: 1}[m.Kind]
	if m.Path == "/" && m.Kind == model.PathPrefix {
		kind = 0
	}
	return []int{kind, len(m.Path), min(1, len(k.Method)), k.Headers.Len(), k.Query.Len()}
}

func fits(m model.Match, q request) bool {
	p, query, _ := strings.Cut(normalize(q.path), "?")
	k := m.When.Key()
	values, _ := url.ParseQuery(query)
	return fitsPath(m, p) && (k.Method == "" || k.Method == q.method) && has(k.Headers, q.header.Values) && has(k.Query, func(name string) []string { return values[name][:min(1, len(values[name]))] })
}

func fitsPath(m model.Match, p string) bool {
	switch m.Kind {
	case model.PathRegex, model.PathLate:
		return wholly(m.Path, p)
	case model.PathExact:
		return p == m.Path
	}
	return m.Path == "/" || p == m.Path || strings.HasPrefix(p, m.Path+"/")
}

// has: of what is there several times, one value is enough.
func has(all model.Values, of func(name string) []string) bool {
	return !slices.ContainsFunc(all.List(), func(v model.ValueMatch) bool {
		return !slices.ContainsFunc(of(v.Name), func(text string) bool { return v.Regex && wholly(v.Value, text) || !v.Regex && v.Value == text })
	})
}

func wholly(pattern, text string) bool {
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}

// redirected is the URL that a request is sent to.
func redirected(m model.Match, to model.Redirect, q request) string {
	scheme := map[bool]string{false: "http", true: "https"}[q.tls]
	host, port, _ := strings.Cut(q.host, ":")
	host = strings.TrimSuffix(host, ".")
	if to.Host != "" {
		host, port = to.Host, ""
	}
	if to.Scheme != "" {
		scheme, port = to.Scheme, ""
	}
	if to.Port != 0 {
		port = fmt.Sprint(to.Port)
	}
	if port == map[string]string{"http": "80", "https": "443"}[scheme] && to.Scheme != "" {
		port = ""
	}
	if port != "" {
		host += ":" + port
	}
	p, query, asked := strings.Cut(normalize(q.path), "?")
	if to.Prefix {
		rest := strings.TrimPrefix(p, m.Path)
		at := strings.TrimRight(to.Path, "/")
		if at == "" || m.Path == "/" {
			rest = "/" + strings.TrimLeft(rest, "/")
		}
		p = at + rest
	} else {
		p = cmp.Or(to.Path, p)
	}
	if asked {
		p += "?" + query
	}
	return scheme + "://" + host + p
}
