package suite

import (
	"fmt"
	"strings"
)

var precedence = []test{
	{
		name:        "PrecedenceOfMatches",
		description: "Of matches that overlap, in two routes with backends in different members, the Gateway API's precedence decides, whichever member has which.",
		needs:       []string{featureMethod},
		kinds:       both,
		run:         precedenceOfMatches,
	},
	{
		name:        "PrecedenceOfAge",
		description: "Of two routes with the same match the older is served, whichever member its backend is in, and the younger when the older is gone.",
		kinds:       both,
		run:         precedenceOfAge,
	},
}

// contested are rules that overlap. They are in two routes by turns.
var contested = []struct{ name, match string }{
	{"exact", "path: {type: Exact, value: /shop/cart}"},
	{"longest", "path: {type: PathPrefix, value: /shop/cart}"},
	{"method", "path: {type: PathPrefix, value: /shop}, method: POST"},
	{"headers", "path: {type: PathPrefix, value: /shop}, headers: [{name: X-A, value: a}, {name: X-B, value: b}]"},
	{"header", "path: {type: PathPrefix, value: /shop}, headers: [{name: X-A, value: a}]"},
	{"prefix", "path: {type: PathPrefix, value: /shop}"},
	{"rest", "path: {type: PathPrefix, value: /}"},
}

// decided says which of them has a request.
var decided = []struct{ method, path, headers, rule string }{
	{"GET", "/shop/cart", "", "exact"},
	{"POST", "/shop/cart", "X-A=a X-B=b", "exact"}, // a path goes before methods and headers
	{"GET", "/shop/cart/1", "", "longest"},
	{"POST", "/shop/cart/1", "X-A=a X-B=b", "longest"}, // as does a longer prefix
	{"POST", "/shop/search", "X-A=a X-B=b", "method"},  // a method goes before headers
	{"POST", "/shop", "", "method"},
	{"GET", "/shop/search", "X-A=a X-B=b", "headers"}, // more headers go before fewer
	{"GET", "/shop/search", "X-A=a X-B=other", "header"},
	{"GET", "/shop/search", "X-B=b", "prefix"},
	{"GET", "/shopping", "X-A=a", "rest"}, // a prefix is of whole segments
	{"POST", "/", "", "rest"},
}

func precedenceOfMatches(w *world) {
	address := w.gateway()
	for _, m := range w.members {
		w.offers("in-"+m.name, m)
	}
	for shift := range w.members {
		has := map[string]*cluster{}
		routes := [2][]string{}
		for i, c := range contested {
			m := w.members[(i+shift)%len(w.members)]
			has[c.name] = m
			routes[i%2] = append(routes[i%2], fmt.Sprintf("{matches: [{%s}], filters: [%s], backendRefs: [%s]}", c.match, mark(fmt.Sprint(c.name, shift)), w.ref("in-"+m.name)))
		}
		w.route("one", "["+strings.Join(routes[0], ", ")+"]")
		w.route("two", "["+strings.Join(routes[1], ", ")+"]")
		w.accepted("one", "two")
		for _, d := range decided {
			must := from("in-"+has[d.rule].name, has[d.rule])
			must.rule = fmt.Sprint(d.rule, shift)
			w.answers(request{address, d.method, d.path, d.headers}, must)
		}
	}
}

// mark is a filter by which the pod is told which rule it was.
func mark(rule string) string {
	return fmt.Sprintf("{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: %s, value: %s}]}}", ruleHeader, rule)
}

func precedenceOfAge(w *world) {
	r := request{address: w.gateway()}
	for _, m := range w.members {
		w.offers("in-"+m.name, m)
	}
	for i, m := range w.members {
		other := w.members[(i+1)%len(w.members)]
		// The alphabet would decide the other way around.
		older, younger := fmt.Sprintf("z-%d", i), fmt.Sprintf("a-%d", i)
		first := w.route(older, w.leads("in-"+m.name))
		w.applyLater(first, w.hub, "HTTPRoute", younger, w.routeText(w.leads("in-"+other.name)))
		w.accepted(older, younger)
		w.answers(r, from("in-"+m.name, m))
		w.always(r, from("in-"+m.name, m), inARow)
		w.remove(w.hub, "HTTPRoute", older)
		w.answers(r, from("in-"+other.name, other))
		w.remove(w.hub, "HTTPRoute", younger)
		w.answers(r, code(404))
	}
}
