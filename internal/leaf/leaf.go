// Package leaf decides what is written back to the hub: the addresses of roots,
// the conditions of our own kinds, and what owners are told about their
// objects.
//
// It is pure: rows hold what is wanted, without times of transition, which are
// the writer's to keep. A condition type that a row does not list is left as it
// is on the hub: nothing is known about it, which is no reason to change it.
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
	Roots    *inc.Table[model.Object, RootStatus]
	Members  *inc.Table[model.Member, MemberStatus]
	Edges    *inc.Table[model.Edge, EdgeStatus]
	Configs  *inc.Table[model.Config, ConfigStatus]
	Zones    *inc.Table[model.ZoneID, ZoneStatus]
	Findings *inc.Table[model.Object, model.Findings] // of all outputs: events on the objects
	Counts   *Counts                                  // sizes of members, for their status
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
	p *fleet.Program
	t *Tables

	edgesOfClass *inc.Table[model.Class, edgeList]
	addresses    *inc.Table[model.Edge, textList]
	heard        *inc.Table[model.Edge, yes]
	views        *inc.Index[all, model.Edge, fleet.View]
}

// all is the one key of an index that holds everything.
type all struct{}

func (all) Compare(all) int { return 0 }

// yes is a row that says it all by being there.
type yes struct{}

func (yes) Equal(yes) bool { return true }

type edgeList []model.Edge

func (a edgeList) Equal(b edgeList) bool { return slices.Equal(a, b) }

type textList []string

func (a textList) Equal(b textList) bool { return slices.Equal(a, b) }

// Declare adds the tables to the program. Findings of other outputs that are
// declared already are told along with the program's.
func Declare(g *inc.Graph, p *fleet.Program, more ...*inc.Table[model.Object, model.Findings]) *Tables {
	t := &Tables{Counts: newCounts(p)}
	d := &derivation{p: p, t: t}
	d.declareFindings(g, more)
	d.declareRoots(g)
	d.views = inc.IndexBy(p.Views, func(model.Edge, fleet.View) []all { return []all{{}} })
	t.Members = inc.Derive(g, "leaf.Members", d.member, p.In.Members)
	t.Edges = inc.Derive(g, "leaf.Edges", d.edge, p.In.Edges)
	t.Configs = inc.Derive(g, "leaf.Configs", d.config, p.In.Configs)
	t.Zones = inc.Derive(g, "leaf.Zones", d.zone, p.In.Zones)
	return t
}

func (d *derivation) declareFindings(g *inc.Graph, more []*inc.Table[model.Object, model.Findings]) {
	tables := append([]*inc.Table[model.Object, model.Findings]{d.p.Findings}, more...)
	sources := make([]inc.Keys[model.Object], len(tables))
	for i, t := range tables {
		sources[i] = t
	}
	d.t.Findings = inc.Derive(g, "leaf.Findings", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		var out model.Findings
		for _, t := range tables {
			found, _ := t.Get(r, o)
			out = append(out, found...)
		}
		return out.Sorted(), len(out) > 0
	}, sources...)
}

// accepted is the condition Accepted of an object: False with the reason of the
// first finding and the words of all.
func (d *derivation) accepted(r *inc.Reader, o model.Object) Condition {
	found, _ := d.t.Findings.Get(r, o)
	if len(found) == 0 {
		return Condition{Type: v1alpha1.ConditionAccepted, Status: model.Up, Reason: v1alpha1.ReasonAccepted}
	}
	return Condition{Type: v1alpha1.ConditionAccepted, Status: model.Down, Reason: found[0].Reason, Message: said(found)}
}

// said is what findings say, one after the other.
func said(all model.Findings) string {
	out := ""
	for i, f := range all {
		if i > 0 {
			out += "; "
		}
		if f.Field != "" {
			out += f.Field + ": "
		}
		out += f.Message
	}
	return out
}
