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
	first := slices.IndexFunc(all, func(c aged[claimant]) bool { return c.has.asks() })
	if first < 0 {
		return all, ""
	}
	kind := all[first].origin.Object.Kind
	return slices.DeleteFunc(all, func(c aged[claimant]) bool { return c.has.places != nil && c.origin.Object.Kind != kind }), kind
}

// asks reports whether a claim has rules.
func (a Claim) asks() bool { return len(a.Rules) > 0 }

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
	w.firsts = inc.Derive(g, "hosts of calls", func(r *inc.Reader, k model.HostKey) (inc.Val[model.Object], bool) {
		first := w.oldest(r, k, Claim.asks)
		if first == nil {
			return inc.Val[model.Object]{}, false
		}
		return inc.ValOf(first.origin.Object), true
	}, calls)
	strangers := inc.Derive(g, "strangers", func(r *inc.Reader, k model.HostKey) (inc.List[model.Object], bool) {
		first, _ := w.firsts.Get(r, k)
		var out inc.List[model.Object]
		for _, id := range w.claims.Keys(r, k) {
			if id.Root.Kind != first.V.Kind {
				out = append(out, id.Root)
			}
		}
		return out, len(out) > 0
	}, w.firsts)
	lost := inc.IndexBy(strangers, func(_ model.HostKey, all inc.List[model.Object]) []model.Object { return all })
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
				first, _ := w.firsts.Get(r, at)
				if first.V.Kind == "" || first.V.Kind == k.Kind {
					has = true
					continue
				}
				out[i] = model.Refusal{Reason: v1alpha1.ReasonConflict, Message: strange(first.V, at.Host)}
			}
		}
		if has {
			out[i] = model.Refusal{}
		}
		some = some || out[i] != (model.Refusal{})
	}
	return out, some
}
