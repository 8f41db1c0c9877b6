package zone

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// crew is what is known of the edges that serve a class, whatever the host: one
// row, so that an edge where others are is nothing more to read for each host.
type crew struct {
	mates    []mate // sorted by edge
	bindings []fleet.Binding
}

// mate is an edge of a crew, or the class's seat there.
type mate struct {
	edge    model.Edge
	binding int // in crew.bindings
	is      Witnesses
	out     bool // it drains
}

// Equal reports whether both are the same.
func (a crew) Equal(b crew) bool {
	return slices.Equal(a.mates, b.mates) && slices.EqualFunc(a.bindings, b.bindings, fleet.Binding.Equal)
}

func (t *Tables) crew(r *inc.Reader, p *fleet.Program, c model.Class) (crew, bool) {
	class, ok := p.ClassInfo.Get(r, c)
	var out crew
	alike := map[model.Vantage][]int{} // in out.bindings
	for _, id := range class.Edges {
		binding, bound := p.Binding(r, c, id)
		if !bound {
			continue
		}
		spec, _ := p.In.Edges.Get(r, id)
		seat := binding.Seat(id)
		is, _ := t.Witnesses.Get(r, seat)
		here := alike[binding.Vantage]
		at := len(out.bindings)
		if i := slices.IndexFunc(here, func(i int) bool { return out.bindings[i].Alike(binding) }); i >= 0 {
			at = here[i]
		} else {
			out.bindings = append(out.bindings, binding)
			alike[binding.Vantage] = append(here, at)
		}
		out.mates = append(out.mates, mate{seat, at, is, spec.Drain})
	}
	return out, ok
}

// choice is what is answered for a host, and of which edges.
type choice struct {
	edges   model.EdgeSet
	refused *Refusal // nil: nobody was
	as      as
}

// Equal reports whether both are the same.
func (a choice) Equal(b choice) bool {
	return a.edges == b.edges && a.as == b.as && a.refused.Equal(b.refused)
}

// as is how edges are answered.
type as uint8

const (
	sure    as = iota
	brief      // for a short time: see BriefTTL
	held       // not at all: SERVFAIL
	nothing    // there is no record
)

// choose decides the edges of a host over all classes that serve it.
//
//	unsure of an edge   it had edges   we just began   what is answered
//	no                  any            any             the edges
//	yes                 yes            any             the edges, with those it had of which we are unsure
//	yes                 no             yes             SERVFAIL
//	yes                 no             no              the edges that are sure, for a short time; SERVFAIL if there are none
//
// What is answered for a short time is not remembered as the last answer.
func (t *Tables) choose(r *inc.Reader, p *fleet.Program, host model.Host, keys []model.HostKey) (choice, bool) {
	states, listed, refused := t.states(r, p, host, keys)
	if !listed {
		return choice{as: nothing, refused: refused}, refused != nil
	}
	last, _ := t.Last.Get(r, host)
	edges := model.EdgesOf(Step(last.Edges(), states)...)
	out := choice{edges: edges, refused: refused}
	unsure := slices.ContainsFunc(states, func(s EdgeState) bool { return s.Unsure })
	if known := slices.ContainsFunc(states, func(s EdgeState) bool { return last.Has(s.Edge) }); known || !unsure {
		return out, true
	}
	out.as = brief
	if _, starting := t.Starting.Get(r, model.All{}); starting || edges == (model.EdgeSet{}) {
		out.as, out.edges = held, model.EdgeSet{}
	}
	return out, true
}

// states are those of all edges, and of all sites of members, of the classes that serve a
// host and that list the zone it lies in, if they list any. Of a refused class nothing else is read.
func (t *Tables) states(r *inc.Reader, p *fleet.Program, host model.Host, keys []model.HostKey) (states []EdgeState, listed bool, refused *Refusal) {
	in := t.zoneOf(r, host)
	for _, key := range keys {
		class, ok := p.ClassInfo.Get(r, key.Class)
		if host, _ := p.Hosts.Get(r, key); key.Class.OfGateway() && len(host.Roots) == 0 {
			continue // a listener's own host, of which no route has a part
		}
		if !ok || !in.listed(class.Config.Zones) {
			continue
		}
		if by := refusal(r, p, in, key); by != nil {
			by.Roots = slices.Concat(refused.roots(), by.Roots)
			refused = by
			continue
		}
		listed = true
		if class.Config.Leaf != nil {
			states = append(states, t.siteStates(r, p, key)...)
		} else {
			states = append(states, t.statesOf(r, p, key)...)
		}
	}
	return merged(states), listed, refused
}

// statesOf are those of the edges of one class.
func (t *Tables) statesOf(r *inc.Reader, p *fleet.Program, key model.HostKey) []EdgeState {
	crew, _ := t.crews.Get(r, key.Class)
	reaches := make([]fleet.Reach, len(crew.bindings))
	for i, binding := range crew.bindings {
		var ok bool
		if reaches[i], ok = p.Reach(r, key, binding); !ok {
			reaches[i] = fleet.Reach{Room: steer.NoRoom}
		}
	}
	out := make([]EdgeState, len(crew.mates))
	for i, m := range crew.mates {
		reach := reaches[m.binding]
		out[i] = EdgeState{Edge: m.edge, Room: reach.Room, Unsure: reach.Unsure, Drain: m.out, Stream: m.is.Stream, Probe: m.is.Probe}
	}
	return out
}

// merged is one state an edge: it serves the host as well as for the class that
// it serves best.
func merged(states []EdgeState) []EdgeState {
	slices.SortStableFunc(states, func(a, b EdgeState) int { return a.Edge.Compare(b.Edge) })
	var out []EdgeState
	for _, s := range states {
		if n := len(out); n > 0 && out[n-1].Edge == s.Edge {
			out[n-1].Room = min(out[n-1].Room, s.Room)
			out[n-1].Unsure = out[n-1].Unsure || s.Unsure
			continue
		}
		out = append(out, s)
	}
	for i := range out {
		out[i].Unsure = out[i].Unsure && out[i].Room != steer.Best
	}
	return out
}

// sets are the record sets of some edges, which all hosts with these share.
type sets struct{ sure, brief *RecordSet }

// Equal reports whether both hold the same.
func (a sets) Equal(b sets) bool { return a.sure.Equal(b.sure) }

// declareRecords makes records of choices.
func (t *Tables) declareRecords(g *inc.Graph) {
	chosen := inc.IndexBy(t.choices, func(_ model.Host, c choice) []model.EdgeSet { return []model.EdgeSet{c.edges} })
	t.sets = inc.Derive(g, "dns-sets", func(r *inc.Reader, edges model.EdgeSet) (sets, bool) {
		rows := t.rowsOf(r, edges)
		return sets{NewRecordSet(rows), NewRecordSet(rows).Brief()}, true
	}, chosen)
	nobody := HeldRecordSet()
	t.Records = inc.Derive(g, "dns-records", func(r *inc.Reader, host model.Host) (RecordRow, bool) {
		c, ok := t.choices.Get(r, host)
		of, _ := t.sets.Get(r, c.edges)
		switch c.as {
		case brief:
			return RecordRow{Set: of.brief}, ok
		case held:
			return RecordRow{Set: nobody}, ok
		case nothing:
			return RecordRow{}, ok
		}
		return RecordRow{of.sure, c.edges}, ok
	}, t.choices)
	inc.MayWait(t.Records, t.sets)
	inc.Shared(t.Records, t.sets)
}

func (t *Tables) rowsOf(r *inc.Reader, edges model.EdgeSet) []*Edge {
	var out []*Edge
	for _, id := range edges.Edges() {
		if row, ok := t.Edges.Get(r, id); ok {
			out = append(out, row.Edge)
		}
	}
	return out
}
