package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Routes of several kinds are not merged (GRPCRouteRule.matches): a host of a listener
// is served by those of one kind, that of the oldest which has a rule for it. A route
// of another kind that has nothing else of a parent is not accepted there
// (GRPCRouteSpec.hostnames).

// callKind is the kind of routes whose backends speak HTTP/2 whatever their Service
// says: without it there is no call.
const callKind = "GRPCRoute"

// ofOneKind leaves the claims of the kind that has the host, and says which it is. What is
// of no listener, Ingresses and Routes of OpenShift, has hosts together.
func ofOneKind(all []aged[claimant]) ([]aged[claimant], string) {
	first := slices.IndexFunc(all, func(c aged[claimant]) bool { return len(c.has.Rules) > 0 })
	if first < 0 {
		return all, ""
	}
	kind := all[first].origin.Object.Kind
	other := func(c aged[claimant]) bool { return c.has.places != nil && c.origin.Object.Kind != kind }
	if !slices.ContainsFunc(all, other) {
		return all, kind
	}
	return slices.DeleteFunc(slices.Clone(all), other), kind
}

// strangerFindings tells a route that routes of another kind have a host, and reports
// whether it is so.
func strangerFindings(n *model.Collector, c Claim, h model.Host, host Host) bool {
	if c.places == nil || len(c.Rules) == 0 || len(host.Roots) == 0 || host.Roots[0].Kind == n.Object.Kind {
		return false
	}
	n.Error(c.field(), model.ReasonConflict, "%s", strange(host.Roots[0], h))
	return true
}

func strange(first model.Object, h model.Host) string {
	return fmt.Sprintf("%s is older and has %s, which is served by routes of one kind", first, h.Described())
}

// stranger says which routes have lost a host to an older one of another kind.
type stranger struct {
	first model.Object
	lost  []model.Object
}

// Equal reports whether both are the same.
func (a stranger) Equal(b stranger) bool { return a.first == b.first && slices.Equal(a.lost, b.lost) }

// Rejections are why the references of a route do not attach for routes of another
// kind, in their order; the zero value: they do.
type Rejections = inc.List[model.Refusal]

// declareKinds finds hosts that routes of several kinds ask for. Calls have few, so
// these are looked at.
func (w *gateways) declareKinds(g *inc.Graph) {
	calls := inc.IndexBy(w.Claims, func(k model.RulesID, c Claim) []model.HostKey {
		if k.Root.Kind != callKind {
			return nil
		}
		return c.keys(k.Host)
	})
	w.strangers = inc.Derive(g, "strangers", func(r *inc.Reader, k model.HostKey) (stranger, bool) {
		all := w.claimants(r, k)
		kept, kind := ofOneKind(all)
		if len(kept) == len(all) {
			return stranger{}, false
		}
		var out stranger
		for _, c := range all {
			switch {
			case c.origin.Object.Kind != kind:
				out.lost = append(out.lost, c.origin.Object)
			case out.first == (model.Object{}) && len(c.has.Rules) > 0:
				out.first = c.origin.Object
			}
		}
		return out, true
	}, calls)
	lost := inc.IndexBy(w.strangers, func(_ model.HostKey, s stranger) []model.Object { return s.lost })
	w.Rejected = inc.Derive(g, "rejected", w.rejected, lost)
	some := inc.IndexBy(w.Rejected, func(model.Object, Rejections) []model.All { return []model.All{{}} })
	w.AnyRejected = inc.Derive(g, "any rejected", func(*inc.Reader, model.All) (model.There, bool) { return model.There{}, true }, some)
}

func (w *gateways) rejected(r *inc.Reader, k model.Object) (Rejections, bool) {
	parents, _ := w.Parents.Get(r, k)
	out, some := make(Rejections, len(parents)), false
	for i := range parents {
		var has bool
		for _, id := range w.RulesOf.Keys(r, k) {
			for _, at := range *w.placesOf(r, parents[i:i+1], id.Host) {
				s, several := w.strangers.Get(r, at)
				if !several || !slices.Contains(s.lost, k) {
					has = true
					continue
				}
				out[i] = model.Refusal{Reason: v1alpha1.ReasonConflict, Message: strange(s.first, at.Host)}
			}
		}
		if has {
			out[i] = model.Refusal{}
		}
		some = some || out[i] != (model.Refusal{})
	}
	return out, some
}
