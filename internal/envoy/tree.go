package envoy

import (
	"cmp"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/spillway-dev/spillway/internal/model"
)

// treeFrom is the number of matches of a host from which its routes become a
// tree. Measured with Envoy 1.40 (BenchmarkRoutesOfAHost): a match that is
// passed over costs a request 0.16 us of some 50, so that half of such a list
// costs a tenth; in a tree none is passed over, and a change of the host costs
// 2.2 times the bytes and some 2.5 times the CPU.
const treeFrom = 64

// entry is the routes of one match.
type entry struct {
	match  model.Match
	routes []*routev3.Route
}

func (e entry) invalid() bool {
	return slices.ContainsFunc(e.routes, func(route *routev3.Route) bool { return route.Validate() != nil })
}

// setRoutes gives a virtual host its entries, in the order of precedence.
// The last one matches every path, unless what nothing matches goes on.
func (d *derivation) setRoutes(vh *routev3.VirtualHost, all []entry) {
	// The validation of a list sees its routes, that of a tree does not.
	if len(all) >= d.sizes.treeFrom && !slices.ContainsFunc(all, entry.invalid) {
		vh.Matcher = tree(all)
		return
	}
	for _, e := range all {
		vh.Routes = append(vh.Routes, e.routes...)
	}
}

// tree says the same as the list of all entries, and finds a route at a cost
// that does not depend on their number (VirtualHost.matcher): the longest of
// all paths that :path begins with leads to a short list, which is the part of
// the whole one that can match there.
//
// The tree only narrows. It compares text, with the query, and knows no
// elements: "/p" also leads there for "/pq" and "/p?x". The routes of the list
// still match for themselves.
func tree(all []entry) *xdsmatcherv3.Matcher {
	by := shelved{all, make([]string, len(all)), map[string][]int{}, nil}
	for i, e := range all {
		by.begins[i] = e.match.Begins()
		by.byKey[by.begins[i]] = append(by.byKey[by.begins[i]], i)
		if e.match.Kind.Regex() {
			by.patterns = append(by.patterns, i)
		}
	}
	byPath := make(map[string]*xdsmatcherv3.Matcher_OnMatch, len(by.byKey))
	for key := range by.byKey {
		var routes []*routev3.Route
		for _, i := range by.under(key) {
			routes = append(routes, all[i].routes...)
		}
		byPath[key] = listOf(routes)
	}
	return &xdsmatcherv3.Matcher{MatcherType: &xdsmatcherv3.Matcher_MatcherTree_{MatcherTree: &xdsmatcherv3.Matcher_MatcherTree{
		Input: &xdscorev3.TypedExtensionConfig{Name: "p", TypedConfig: pathHeader},
		TreeType: &xdsmatcherv3.Matcher_MatcherTree_PrefixMatchMap{
			PrefixMatchMap: &xdsmatcherv3.Matcher_MatcherTree_MatchMap{Map: byPath},
		},
	}}}
}

// shelved is the entries of a host by what their paths begin with.
type shelved struct {
	all      []entry
	begins   []string         // of each
	byKey    map[string][]int // the same, the other way
	patterns []int            // regular expressions
}

// under finds the entries that a path may fit which begins with key, and with no
// longer key, in their order: those of the key; the regular expressions whose
// paths begin with less; and the prefixes above, but for those that come after one
// that takes whatever is left: every text that begins with "/a/b" is below "/a". In
// a host with layers that one need not be the last (fleet.Host.Layered).
func (f shelved) under(key string) []int {
	out := slices.Clone(f.byKey[key])
	for _, i := range f.patterns {
		if f.begins[i] != key && strings.HasPrefix(key, f.begins[i]) {
			out = append(out, i)
		}
	}
	for last := len(f.all); key != "/"; {
		key = parentOf(key)
		for _, i := range f.byKey[key] {
			if m := f.all[i].match; m.Kind == model.PathPrefix && i <= last {
				out = append(out, i)
				if m.When == (model.Conditions{}) {
					last = i
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// parentOf is the path above; "/a" is above "/a/", which has one more element,
// an empty one.
func parentOf(path string) string {
	return cmp.Or(path[:strings.LastIndexByte(path, '/')], "/")
}

var pathHeader = pack(&matcherv3.HttpRequestHeaderMatchInput{HeaderName: ":path"})

func listOf(routes []*routev3.Route) *xdsmatcherv3.Matcher_OnMatch {
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "r", TypedConfig: brief(&routev3.RouteList{Routes: routes})},
	}}
}
