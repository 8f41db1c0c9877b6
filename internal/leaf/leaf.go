// Package leaf decides what is written back to the hub: the addresses of roots,
// the conditions of our own kinds, and what owners are told about their
// objects. And it decides what is written in members: leaves.
//
// It is pure: rows hold what is wanted, without times of transition, which are
// the writer's to keep. A condition type that a row does not list is left as it
// is on the hub: nothing is known about it, which is no reason to change it. Only
// what is there while it is True, and never False, goes when no row lists it.
// Rows do not flap: they have no counters and no order that depends on anything
// but names, and what is merely silent keeps what it had.
package leaf

import (
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Tables are what is wanted on the hub. A row that goes away means that we have
// nothing more to say about the object, not that its status is to be emptied.
type Tables struct {
	Roots          *inc.Table[model.Object, RootStatus]
	Members        *inc.Table[model.Member, MemberStatus]
	Edges          *inc.Table[model.Edge, EdgeStatus]
	Configs        *inc.Table[model.Config, ConfigStatus]
	Zones          *inc.Table[model.ZoneID, ZoneStatus]
	GatewayClasses *inc.Table[model.GatewayClass, GatewayClassStatus]
	Gateways       *inc.Table[model.GatewayID, GatewayStatus]
	ListenerSets   *inc.Table[model.Object, ListenerSetStatus]
	Routes         *inc.Table[model.Object, RouteStatus]     // of the Gateway API
	Admissions     *inc.Table[model.Object, AdmissionStatus] // of Routes of OpenShift
	TLSPolicies    *inc.Table[model.Object, RouteStatus]     // of BackendTLSPolicies, by the Gateways that use them
	Placements     *inc.Table[model.Object, PlacementStatus]
	Targets        *inc.Table[model.Object, RouteStatus] // of Placements, by their targets
	Leaves         *inc.Table[model.LeafID, Leaf]        // objects in members
	Globals        *inc.Table[model.Object, GlobalRow]   // GlobalIngresses, by their own names
	Tombstones     *inc.Table[model.TombstoneID, TombstoneStatus]
	Rollouts       *inc.Table[model.Object, Rollout]        // edits of roots that go in waves
	Keys           *inc.Table[model.HeldKey, model.There]   // copies of Secrets that members should have
	Secrets        *inc.Table[model.SecretID, model.There]  // on the hub, that something refers to
	LeavesUnread   *inc.Table[model.Object, model.There]    // roots that have leaves, and were not read in full yet
	Findings       *inc.Table[model.Object, model.Findings] // of all outputs: events on the objects
	Counts         *Counts                                  // sizes of members, for their status
}

// Condition is a condition without its times.
type Condition struct {
	Type    string // as in api/v1alpha1
	Status  model.Health
	Reason  string // of api/v1alpha1, or of the first finding
	Message string
}

// Conditions are sorted by type.
type Conditions []Condition

// derivation is what the derived tables share.
type derivation struct {
	p      *fleet.Program
	t      *Tables
	serves func(*inc.Reader, model.ZoneID) bool

	seatsOfClass *inc.Table[model.Class, seats]
	addresses    *inc.Table[model.Edge, inc.List[string]]
	heard        *inc.Table[model.Edge, model.There]
	views        *inc.Index[model.All, model.Edge, fleet.View]
	leaves       leaves
	rollouts     rollouts
	globals      globals
}

// Outputs are what statuses need of other outputs that are declared already.
type Outputs struct {
	Findings []*inc.Table[model.Object, model.Findings]  // told along with the program's
	Serves   func(r *inc.Reader, zone model.ZoneID) bool // DNS answers for the zone; nil: for none

	Sites model.SitesOf[*inc.Reader] // see zone.Tables.Sites; nil: nobody knows how they stand, and no host is refused

	Fails func(r *inc.Reader, site model.Edge) bool // our probe of it does; nil: nobody looks
}

// Declare adds the tables to the program.
func Declare(g *inc.Graph, p *fleet.Program, o Outputs) *Tables {
	t := &Tables{Counts: newCounts(p)}
	d := &derivation{p: p, t: t, serves: o.Serves}
	if d.serves == nil {
		d.serves = func(*inc.Reader, model.ZoneID) bool { return false }
	}
	d.rollouts.fails = o.Fails
	d.declareHeard(g)
	t.Findings = fleet.AllFindings(g, "leaf.Findings", slices.Concat(o.Findings, []*inc.Table[model.Object, model.Findings]{p.Findings, declareContacts(g, p)}, d.declareLeaves(g), d.declareGlobals(g, o.Sites))...)
	d.declareRoots(g)
	d.declareAdmissions(g)
	d.views = inc.IndexBy(p.Views, func(model.Edge, fleet.View) []model.All { return []model.All{{}} })
	t.Members = inc.Derive(g, "leaf.Members", d.member, p.In.Members, named(p, memberObject))
	t.Edges = inc.Derive(g, "leaf.Edges", d.edge, p.In.Edges, named(p, edgeObject))
	t.Configs = inc.Derive(g, "leaf.Configs", d.config, p.In.Configs, named(p, configObject))
	t.Zones = inc.Derive(g, "leaf.Zones", d.zone, p.In.Zones, named(p, zoneObject))
	d.declareGateways(g)
	d.declarePlacements(g)
	return t
}

// accepted is the condition Accepted of an object: False with the reason of the
// first error. The message is the words of all findings, warnings too.
func (d *derivation) accepted(r *inc.Reader, o model.Object) Condition {
	found, _ := d.t.Findings.Get(r, o)
	found = slices.DeleteFunc(slices.Clone(found), isContact)
	out := Condition{Type: v1alpha1.ConditionAccepted, Status: model.Up, Reason: v1alpha1.ReasonAccepted, Message: found.Text()}
	if errors := found.Errors(); len(errors) > 0 {
		out.Status, out.Reason = model.Down, string(errors[0].Reason)
	}
	return out
}
