package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Routes that name different hosts meet at one, that of a listener, if they name
// wider ones: "a.example" and "*.example" do at a listener for "a.example". The rules
// of the more specific name go before those of the other, whatever these match, and
// what none of them matches goes on to those (HTTPRouteSpec.hostnames). So the routes
// of such a host are in layers, one for each name, and each is in order of precedence.

// claimant is a claim for a host, and the host that its root names.
type claimant struct {
	Claim
	own model.Host
}

// inLayers sorts claims by the hosts that their roots name, the most specific first,
// and those of one by age, as they were; it reports whether there are several.
func inLayers(all []aged[claimant]) ([]aged[claimant], bool) {
	other := func(c aged[claimant]) bool { return c.has.own != all[0].has.own }
	if !slices.ContainsFunc(all, other) {
		return all, false
	}
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b aged[claimant]) int { return closer(a.has.own, b.has.own) })
	return out, true
}

// closer orders hosts of which each is within the next.
func closer(a, b model.Host) int {
	switch {
	case a == b:
		return 0
	case a.Within(b):
		return -1
	}
	return 1
}

// before says why the routes of a root go before those of a claim to a host.
func (d *program) before(r *inc.Reader, at model.HostKey, root model.Object, c claimant) string {
	for _, id := range d.RulesOf.Keys(r, root) {
		if id.Host != c.own && id.Host.Within(c.own) && (at.Host == id.Host || at.Host.Within(id.Host)) {
			return "is for the more specific host " + id.Host.Written()
		}
	}
	return "is older"
}

// sortRoots sorts roots of some claims by their origin.
func sortRoots(roots []model.Object, claims []aged[claimant]) {
	origins := make(map[model.Object]model.Origin, len(claims))
	for _, c := range claims {
		origins[c.origin.Object] = c.origin
	}
	slices.SortFunc(roots, func(a, b model.Object) int { return origins[a].Compare(origins[b]) })
}
