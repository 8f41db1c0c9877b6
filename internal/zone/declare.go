package zone

import (
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Tables is what DNS adds to the program. A shell builds a Snapshot from Zones
// and Records, and feeds Records' edges back into Last (see Step).
type Tables struct {
	Witnesses *inc.Table[model.Edge, Witnesses] // input: who still sees the edge
	Last      *inc.Table[model.Host, EdgeSet]   // input: the last edges a host had, never empty
	Starting  *inc.Table[Start, Start]          // input: we just began; what nobody is sure of waits
	Unlisted  *inc.Table[Start, Start]          // input: all is of a checkpoint; hosts may have come since

	Edges    *inc.Table[model.Edge, EdgeRow]          // what DNS needs of an edge
	Zones    *inc.Table[model.ZoneID, Served]         // zones that are served
	Records  *inc.Table[model.Host, RecordRow]        // what a host has
	Findings *inc.Table[model.Object, model.Findings] // of DNSZones, of roots they refuse, of Edges they can't name

	byDomain *inc.Index[apexKey, model.ZoneID, model.ZoneSpec]
	refused  *inc.Index[model.Object, model.Host, RecordRow] // root -> its hosts that zones refuse
}

// Witnesses are both witnesses of an edge.
type Witnesses struct{ Stream, Probe Witness }

// Equal reports whether both are the same.
func (a Witnesses) Equal(b Witnesses) bool { return a == b }

// EdgeSet is a sorted list of edges.
type EdgeSet []model.Edge

// Equal reports whether both hold the same.
func (a EdgeSet) Equal(b EdgeSet) bool { return slices.Equal(a, b) }

// EdgeRow holds an Edge, which all record sets share.
type EdgeRow struct{ Edge *Edge }

// Equal reports whether both say the same.
func (a EdgeRow) Equal(b EdgeRow) bool { return a.Edge.Equal(b.Edge) }

// Served is a zone ready to answer from.
type Served struct {
	Apex Name
	Zone *Zone
	from model.ZoneSpec
	held bool
}

// Equal reports whether both were made from the same.
func (a Served) Equal(b Served) bool { return a.held == b.held && a.from.Equal(b.from) }

// Start is the one key of a table that has a row for a while after a start, and
// the row. Its end is written by a shell, StartingFor after the hub became known.
type Start struct{}

// StartingFor is how long SERVFAIL is better than the edges that are sure: by
// then most members have been read.
const StartingFor = 30 * time.Second

// Compare is always 0.
func (Start) Compare(Start) int { return 0 }

// Equal is always true.
func (Start) Equal(Start) bool { return true }

// String is "start".
func (Start) String() string { return "start" }

// RecordRow is what a host has in DNS and the edges it was made from.
type RecordRow struct {
	Set     *RecordSet // nil: nothing, and Last should hold nothing
	Edges   EdgeSet    // what Last should hold; empty: leave it
	Refused *Refusal   // nil: nobody was
}

// Equal reports whether both are the same.
func (a RecordRow) Equal(b RecordRow) bool {
	return a.Set.Equal(b.Set) && a.Edges.Equal(b.Edges) && a.Refused.Equal(b.Refused)
}

// Refusal is that a zone admits none of the namespaces of those who ask for a
// host.
type Refusal struct {
	Zone  model.Object
	Roots []model.Object // by class, in the order of their Origin
}

// Equal reports whether both are the same. Either may be nil.
func (a *Refusal) Equal(b *Refusal) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Zone == b.Zone && slices.Equal(a.Roots, b.Roots)
}

func (a *Refusal) roots() []model.Object {
	if a == nil {
		return nil
	}
	return a.Roots
}

// Declare adds DNS to the program.
func Declare(g *inc.Graph, p *fleet.Program) *Tables {
	t := &Tables{
		Witnesses: inc.Input[model.Edge, Witnesses](g, "dns-witnesses"),
		Last:      inc.Input[model.Host, EdgeSet](g, "dns-last"),
		Starting:  inc.Input[Start, Start](g, "dns-starting"),
		Unlisted:  inc.Input[Start, Start](g, "dns-unlisted"),
	}
	t.Edges = inc.Derive(g, "dns-edges", func(r *inc.Reader, id model.Edge) (EdgeRow, bool) {
		spec, ok := p.In.Edges.Get(r, id)
		addresses, _ := p.Addresses.Get(r, id)
		return EdgeRow{NewEdge(id, spec.Place, addresses)}, ok
	}, p.In.Edges)
	t.declareZones(g, p)
	byHost := inc.IndexBy(p.Hosts, func(k model.HostKey, _ fleet.Host) []model.Host {
		if k.Host == "" {
			return nil // hosts that nobody names have no records
		}
		return []model.Host{k.Host}
	})
	t.Records = inc.Derive(g, "dns-records", func(r *inc.Reader, host model.Host) (RecordRow, bool) {
		return t.record(r, p, host, byHost.Keys(r, host))
	}, byHost)
	inc.MayWait(t.Records, p.ClassInfo, p.Views, p.In.Edges, p.In.Zones, t.byDomain, t.Edges, t.Witnesses, t.Last, t.Starting)
	t.declareFindings(g, p)
	return t
}

// record decides the edges of a host over all classes that serve it.
//
//	unsure of an edge   it had edges   we just began   what is answered
//	no                  any            any             the edges
//	yes                 yes            any             the edges, with those it had of which we are unsure
//	yes                 no             yes             SERVFAIL
//	yes                 no             no              the edges that are sure, for a short time; SERVFAIL if there are none
//
// What is answered for a short time is not remembered as the last answer.
func (t *Tables) record(r *inc.Reader, p *fleet.Program, host model.Host, keys []model.HostKey) (RecordRow, bool) {
	states, listed, refused := t.states(r, p, host, keys)
	if !listed {
		return RecordRow{Refused: refused}, refused != nil
	}
	last, _ := t.Last.Get(r, host)
	edges := Step(last, states)
	unsure := slices.ContainsFunc(states, func(s EdgeState) bool { return s.Unsure })
	if known := slices.ContainsFunc(states, func(s EdgeState) bool { return slices.Contains(last, s.Edge) }); known || !unsure {
		return RecordRow{Set: NewRecordSet(t.rowsOf(r, edges)), Edges: edges, Refused: refused}, true
	}
	if _, starting := t.Starting.Get(r, Start{}); starting || len(edges) == 0 {
		return RecordRow{Set: HeldRecordSet(), Refused: refused}, true
	}
	return RecordRow{Set: NewRecordSet(t.rowsOf(r, edges)).Brief(), Refused: refused}, true
}

// states are those of all edges of the classes that serve a host and whose
// zones list it. Of a refused class nothing else is read.
func (t *Tables) states(r *inc.Reader, p *fleet.Program, host model.Host, keys []model.HostKey) (states []EdgeState, listed bool, refused *Refusal) {
	for _, key := range keys {
		class, ok := p.ClassInfo.Get(r, key.Class)
		if !ok || !covers(r, p, class.Config.Zones, host) {
			continue
		}
		if by := t.refusal(r, p, key); by != nil {
			by.Roots = slices.Concat(refused.roots(), by.Roots)
			refused = by
			continue
		}
		listed = true
		for _, id := range class.Edges {
			states = append(states, t.state(r, p, key, id))
		}
	}
	return merged(states), listed, refused
}

func (t *Tables) rowsOf(r *inc.Reader, edges EdgeSet) []*Edge {
	var out []*Edge
	for _, id := range edges {
		if row, ok := t.Edges.Get(r, id); ok {
			out = append(out, row.Edge)
		}
	}
	return out
}

// state is what is known of one edge for one host.
func (t *Tables) state(r *inc.Reader, p *fleet.Program, key model.HostKey, id model.Edge) EdgeState {
	spec, _ := p.In.Edges.Get(r, id)
	view, _ := p.Views.Get(r, id)
	w, _ := t.Witnesses.Get(r, id)
	out := EdgeState{Edge: id, Room: steer.NoRoom, Drain: spec.Drain, Stream: w.Stream, Probe: w.Probe}
	if reach, ok := p.Reach(r, key, view); ok {
		out.Room, out.Unsure = reach.Room, reach.Unsure
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

// covers reports whether a class's zones, if it names any, include the host.
func covers(r *inc.Reader, p *fleet.Program, zones []model.ZoneID, host model.Host) bool {
	if len(zones) == 0 {
		return true
	}
	name, err := ParseName(string(host))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(zones, func(id model.ZoneID) bool {
		spec, ok := p.In.Zones.Get(r, id)
		if !ok {
			return false
		}
		apex, err := ParseName(string(spec.Domain))
		return err == nil && name.within(apex)
	})
}

// refusal is nil if the zone that a host lies in, if any, admits the namespace
// of at least one of the objects that ask for the host.
func (t *Tables) refusal(r *inc.Reader, p *fleet.Program, key model.HostKey) *Refusal {
	spec, ok := t.zoneOf(r, key.Host)
	if !ok || len(spec.Namespaces) == 0 {
		return nil
	}
	host, _ := p.Hosts.Get(r, key)
	if slices.ContainsFunc(host.Roots, func(o model.Object) bool { return slices.Contains(spec.Namespaces, o.Namespace) }) {
		return nil
	}
	return &Refusal{Zone: spec.Origin.Object, Roots: host.Roots}
}

// zoneOf is the zone with the longest domain that a host lies in.
func (t *Tables) zoneOf(r *inc.Reader, host model.Host) (model.ZoneSpec, bool) {
	for domain := string(host); domain != ""; _, domain, _ = strings.Cut(domain, ".") {
		if spec, ok := t.oldest(r, model.Host(domain)); ok {
			return spec, true
		}
	}
	return model.ZoneSpec{}, false
}

// oldest is the zone that serves a domain, of those that name it.
func (t *Tables) oldest(r *inc.Reader, domain model.Host) (model.ZoneSpec, bool) {
	named := t.byDomain.Get(r, domain)
	if len(named) == 0 {
		return model.ZoneSpec{}, false
	}
	return slices.MinFunc(named, func(a, b model.ZoneSpec) int { return a.Origin.Compare(b.Origin) }), true
}

// apexKey is a domain as a key of an index.
type apexKey = model.Host

// declareZones serves each domain by the oldest DNSZone that names it.
func (t *Tables) declareZones(g *inc.Graph, p *fleet.Program) {
	t.byDomain = inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []apexKey { return []apexKey{spec.Domain} })
	t.Zones = inc.Derive(g, "dns-zones", func(r *inc.Reader, id model.ZoneID) (Served, bool) {
		spec, ok := p.In.Zones.Get(r, id)
		if !ok {
			return Served{}, false
		}
		if first, _ := t.oldest(r, spec.Domain); first.Origin != spec.Origin {
			return Served{}, false
		}
		made, err := specOf(spec)
		if err != nil {
			return Served{}, false
		}
		_, made.Held = t.Unlisted.Get(r, Start{})
		return Served{Apex: made.Apex, Zone: NewZone(made), from: spec, held: made.Held}, true
	}, p.In.Zones)
}

// Serves reports whether a zone is served.
func (t *Tables) Serves(r *inc.Reader, id model.ZoneID) bool {
	_, ok := t.Zones.Get(r, id)
	return ok
}

// specOf reads the names of a DNSZone.
func specOf(spec model.ZoneSpec) (Spec, error) {
	apex, err := ParseName(string(spec.Domain))
	if err != nil {
		return Spec{}, err
	}
	out := Spec{Apex: apex, TTL: spec.TTL, Answers: spec.Answers, SOA: SOA{
		Serial: 1, Refresh: spec.SOA.Refresh, Retry: spec.SOA.Retry, Expire: spec.SOA.Expire, Minimum: spec.SOA.Minimum,
	}}
	for _, ns := range spec.NameServers {
		host, err := ParseName(string(ns.Host))
		if err != nil {
			return Spec{}, err
		}
		out.NameServers = append(out.NameServers, NameServer{Host: host, Addresses: ns.Addresses})
	}
	primary := "ns." + string(spec.Domain)
	if len(spec.NameServers) > 0 {
		primary = string(spec.NameServers[0].Host)
	}
	if spec.SOA.MName != "" {
		primary = spec.SOA.MName
	}
	mailbox := "hostmaster." + string(spec.Domain)
	if spec.SOA.RName != "" {
		mailbox = spec.SOA.RName
	}
	if out.SOA.MName, err = ParseName(primary); err != nil {
		return Spec{}, err
	}
	out.SOA.RName, err = ParseName(mailbox)
	return out, err
}
