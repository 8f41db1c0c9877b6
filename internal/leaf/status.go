package leaf

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// EdgeStatus is what an Edge's status should say.
type EdgeStatus struct {
	Generation int64
	Conditions Conditions // Accepted, Connected
	Addresses  []string   // sorted
	Heard      bool       // it has or had a stream since we run: Proxies is true, and not unknown
	Proxies    int        // with a stream
}

// Equal reports whether both say the same.
func (a EdgeStatus) Equal(b EdgeStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions) &&
		slices.Equal(a.Addresses, b.Addresses) && a.Heard == b.Heard && a.Proxies == b.Proxies
}

func (d *derivation) edge(r *inc.Reader, e model.Edge) (EdgeStatus, bool) {
	spec, ok := d.p.In.Edges.Get(r, e)
	if !ok {
		return EdgeStatus{}, false
	}
	out := EdgeStatus{Generation: spec.Generation, Addresses: spec.PublicAddresses()}
	slices.Sort(out.Addresses)
	out.Conditions = append(out.Conditions, d.accepted(r, model.Object{Kind: "Edge", Name: string(e)}))
	if s, ok := d.p.In.Streams.Get(r, e); ok {
		out.Heard, out.Proxies = true, s.Connected
		c := Condition{Type: v1alpha1.ConditionConnected, Status: model.Up, Reason: v1alpha1.ReasonConnected}
		if s.Connected == 0 {
			c.Status, c.Reason, c.Message = model.Down, v1alpha1.ReasonNoProxy, "no proxy of the edge has a stream: those that run serve what they have"
		}
		out.Conditions = append(out.Conditions, c)
	}
	return out, true
}

// ConfigStatus is what a GatewayClassConfig's status should say.
type ConfigStatus struct {
	Generation int64
	Conditions Conditions // Accepted, ResolvedRefs
}

// Equal reports whether both say the same.
func (a ConfigStatus) Equal(b ConfigStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions)
}

func (d *derivation) config(r *inc.Reader, k model.Config) (ConfigStatus, bool) {
	spec, ok := d.p.In.Configs.Get(r, k)
	if !ok {
		return ConfigStatus{}, false
	}
	var absent []string
	for _, e := range spec.EdgeNames {
		if _, ok := d.p.In.Edges.Get(r, model.Edge(e)); !ok {
			absent = append(absent, "Edge "+e)
		}
	}
	for _, z := range spec.Zones {
		if _, ok := d.p.In.Zones.Get(r, z); !ok {
			absent = append(absent, "DNSZone "+z.String())
		}
	}
	refs := Condition{Type: v1alpha1.ConditionResolvedRefs, Status: model.Up, Reason: v1alpha1.ReasonResolvedRefs}
	if len(absent) > 0 {
		refs.Status, refs.Reason, refs.Message = model.Down, v1alpha1.ReasonRefNotFound, "not there: "+strings.Join(absent, ", ")
	}
	accepted := d.accepted(r, model.Object{Kind: "GatewayClassConfig", Name: string(k)})
	return ConfigStatus{spec.Generation, Conditions{accepted, refs}}, true
}

// ZoneStatus is what a DNSZone's status should say.
type ZoneStatus struct {
	Generation int64
	Conditions Conditions // Accepted, Programmed
}

// Equal reports whether both say the same.
func (a ZoneStatus) Equal(b ZoneStatus) bool {
	return a.Generation == b.Generation && slices.Equal(a.Conditions, b.Conditions)
}

// zone: our own server answers from the tables, so a zone that is accepted is
// served with the same commit.
func (d *derivation) zone(r *inc.Reader, k model.ZoneID) (ZoneStatus, bool) {
	spec, ok := d.p.In.Zones.Get(r, k)
	if !ok {
		return ZoneStatus{}, false
	}
	accepted := d.accepted(r, model.Object{Kind: "DNSZone", Workspace: k.Workspace, Namespace: k.Namespace, Name: k.Name})
	programmed := Condition{Type: v1alpha1.ConditionProgrammed, Status: accepted.Status, Reason: v1alpha1.ReasonProgrammed}
	if accepted.Status != model.Up {
		programmed.Reason, programmed.Message = accepted.Reason, "the zone is not served"
	}
	return ZoneStatus{spec.Generation, Conditions{accepted, programmed}}, true
}
