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
	Conditions Conditions // Accepted, Connected, Serving
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
	accepted := d.accepted(r, edgeObject.of(e))
	if !ok {
		return EdgeStatus{Conditions: Conditions{accepted}}, accepted.Status == model.Down
	}
	out := EdgeStatus{Generation: spec.Generation, Addresses: spec.PublicAddresses(), Conditions: Conditions{accepted}}
	slices.Sort(out.Addresses)
	if s, ok := d.p.In.Streams.Get(r, e); ok {
		out.Heard, out.Proxies = true, s.Connected
		c := Condition{Type: v1alpha1.ConditionConnected, Status: model.Up, Reason: v1alpha1.ReasonConnected}
		if s.Connected == 0 {
			c.Status, c.Reason, c.Message = model.Down, v1alpha1.ReasonNoProxy, "no proxy of the edge has a stream: those that run serve what they have"
		}
		out.Conditions = append(out.Conditions, c)
		if s.Connected > 0 {
			out.Conditions = append(out.Conditions, d.serving(r, e, s))
		}
	}
	return out, true
}

// serving is what is known of an edge that has proxies with a stream.
func (d *derivation) serving(r *inc.Reader, e model.Edge, s model.Streams) Condition {
	c := Condition{Type: v1alpha1.ConditionServing, Status: model.Down, Reason: v1alpha1.ReasonNoListener,
		Message: "no proxy of the edge acknowledged a listener: see quarantined in `spillway get streams -o json` for what they refuse"}
	if s.Synced == 0 {
		return c
	}
	if seen, _ := d.p.In.Reachable.Get(r, e); seen.Health == model.Down {
		c.Reason, c.Message = v1alpha1.ReasonNoAnswer, "proxies have listeners, but none of the public addresses answers serve's probe: DNS drops the edge after a while, if it answered before"
		return c
	}
	return Condition{Type: v1alpha1.ConditionServing, Status: model.Up, Reason: v1alpha1.ReasonServing}
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
	accepted := d.accepted(r, configObject.of(k))
	if !ok {
		return ConfigStatus{Conditions: Conditions{accepted}}, accepted.Status == model.Down
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

// zone: our own server answers from the tables, so a zone is programmed when
// they have it.
func (d *derivation) zone(r *inc.Reader, k model.ZoneID) (ZoneStatus, bool) {
	spec, ok := d.p.In.Zones.Get(r, k)
	accepted := d.accepted(r, zoneObject.of(k))
	programmed := Condition{Type: v1alpha1.ConditionProgrammed, Status: model.Up, Reason: v1alpha1.ReasonProgrammed}
	if !d.serves(r, k) {
		programmed.Status, programmed.Reason, programmed.Message = model.Down, v1alpha1.ReasonPending, "the zone is not served"
		if accepted.Status == model.Down {
			programmed.Reason = accepted.Reason
		}
	}
	return ZoneStatus{spec.Generation, Conditions{accepted, programmed}}, ok || accepted.Status == model.Down
}
