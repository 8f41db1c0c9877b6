package zone

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Tables is what DNS adds to the program. A shell builds a Snapshot from Zones
// and Records, and feeds Records' edges back into Last (see Step).
type Tables struct {
	Witnesses *inc.Table[model.Edge, Witnesses] // input: who still sees the edge
	Last      *inc.Table[model.Host, EdgeSet]   // input: the last edges a host had, never empty

	Edges    *inc.Table[model.Edge, EdgeRow]          // what DNS needs of an edge
	Zones    *inc.Table[model.ZoneID, Served]         // zones that are served
	Records  *inc.Table[model.Host, RecordRow]        // what a host has
	Findings *inc.Table[model.Object, model.Findings] // of DNSZones

	byDomain *inc.Index[apexKey, model.ZoneID, model.ZoneSpec]
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
}

// Equal reports whether both were made from the same.
func (a Served) Equal(b Served) bool { return a.from.Equal(b.from) }

// RecordRow is what a host has in DNS and the edges it was made from.
type RecordRow struct {
	Set   *RecordSet
	Edges EdgeSet // what Last should hold; empty: leave it
}

// Equal reports whether both are the same.
func (a RecordRow) Equal(b RecordRow) bool { return a.Set.Equal(b.Set) && a.Edges.Equal(b.Edges) }

// Declare adds DNS to the program.
func Declare(g *inc.Graph, p *fleet.Program) *Tables {
	t := &Tables{
		Witnesses: inc.Input[model.Edge, Witnesses](g, "dns-witnesses"),
		Last:      inc.Input[model.Host, EdgeSet](g, "dns-last"),
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
	inc.MayWait(t.Records, func(host model.Host) float64 {
		most := 0.0
		for _, key := range byHost.Keys(nil, host) {
			most = max(most, p.LoadOfHost(key))
		}
		return most
	}, p.ClassInfo, p.Views, p.In.Edges, p.In.Zones, t.byDomain, t.Edges, t.Witnesses, t.Last)
	return t
}

// record decides the edges of a host over all classes that serve it.
func (t *Tables) record(r *inc.Reader, p *fleet.Program, host model.Host, keys []model.HostKey) (RecordRow, bool) {
	var states []EdgeState
	unsure, listed := false, false
	for _, key := range keys {
		class, ok := p.ClassInfo.Get(r, key.Class)
		if !ok || !covers(r, p, class.Config.Zones, host) || !t.allowed(r, p, key) {
			continue
		}
		listed = true
		for _, id := range class.Edges {
			state, open := t.state(r, p, key, id)
			states = append(states, state)
			unsure = unsure || open
		}
	}
	if !listed {
		return RecordRow{}, false
	}
	last, _ := t.Last.Get(r, host)
	edges := Step(last, merged(states))
	if len(edges) == 0 && unsure {
		return RecordRow{Set: HeldRecordSet()}, true
	}
	var found []*Edge
	for _, id := range edges {
		if row, ok := t.Edges.Get(r, id); ok {
			found = append(found, row.Edge)
		}
	}
	return RecordRow{Set: NewRecordSet(found), Edges: edges}, true
}

// state is what is known of one edge for one host, and whether a member whose
// rows are missing may change it.
func (t *Tables) state(r *inc.Reader, p *fleet.Program, key model.HostKey, id model.Edge) (s EdgeState, unsure bool) {
	spec, _ := p.In.Edges.Get(r, id)
	view, _ := p.Views.Get(r, id)
	reach, _ := p.Reaches.Get(r, fleet.ReachID{Host: key, View: view.Key})
	w, _ := t.Witnesses.Get(r, id)
	return EdgeState{Edge: id, Serves: reach.Reached, Drain: spec.Drain, Stream: w.Stream, Probe: w.Probe}, reach.Unsure
}

// merged is one state an edge: it serves the host if it does so for any class.
func merged(states []EdgeState) []EdgeState {
	slices.SortStableFunc(states, func(a, b EdgeState) int { return a.Edge.Compare(b.Edge) })
	var out []EdgeState
	for _, s := range states {
		if n := len(out); n > 0 && out[n-1].Edge == s.Edge {
			out[n-1].Serves = out[n-1].Serves || s.Serves
			continue
		}
		out = append(out, s)
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

// allowed reports whether the zone that a host lies in admits the namespace of
// at least one of the objects that ask for the host.
func (t *Tables) allowed(r *inc.Reader, p *fleet.Program, key model.HostKey) bool {
	domain, spec := string(key.Host), model.ZoneSpec{}
	for found := false; !found; {
		all := t.byDomain.Get(r, model.Host(domain))
		for i, z := range all {
			if i == 0 || z.Origin.Compare(spec.Origin) < 0 {
				spec, found = z, true
			}
		}
		if _, domain, _ = strings.Cut(domain, "."); !found && domain == "" {
			return true // in no zone of ours: nobody asks
		}
	}
	if len(spec.Namespaces) == 0 {
		return true
	}
	host, _ := p.Hosts.Get(r, key)
	return slices.ContainsFunc(host.Roots, func(o model.Object) bool { return slices.Contains(spec.Namespaces, o.Namespace) })
}

// apexKey is a domain as a key of an index.
type apexKey = model.Host

// declareZones serves each domain by the oldest DNSZone that names it.
func (t *Tables) declareZones(g *inc.Graph, p *fleet.Program) {
	t.byDomain = inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []apexKey { return []apexKey{spec.Domain} })
	winner := func(r *inc.Reader, domain model.Host) model.Origin {
		all := t.byDomain.Get(r, domain)
		first := all[0].Origin
		for _, spec := range all[1:] {
			if spec.Origin.Compare(first) < 0 {
				first = spec.Origin
			}
		}
		return first
	}
	t.Zones = inc.Derive(g, "dns-zones", func(r *inc.Reader, id model.ZoneID) (Served, bool) {
		spec, ok := p.In.Zones.Get(r, id)
		if !ok || winner(r, spec.Domain) != spec.Origin {
			return Served{}, false
		}
		made, err := specOf(spec)
		if err != nil {
			return Served{}, false
		}
		return Served{Apex: made.Apex, Zone: NewZone(made), from: spec}, true
	}, p.In.Zones)
	t.Findings = inc.Derive(g, "dns-findings", func(r *inc.Reader, id model.Object) (model.Findings, bool) {
		spec, ok := p.In.Zones.Get(r, model.ZoneID{Workspace: id.Workspace, Namespace: id.Namespace, Name: id.Name})
		if !ok {
			return nil, false
		}
		found := func(field, reason, message string) (model.Findings, bool) {
			return model.Findings{{Object: id, Field: field, Reason: reason, Message: message}}, true
		}
		if first := winner(r, spec.Domain); first != spec.Origin {
			return found("spec.domain", model.ReasonConflict, string(spec.Domain)+" is served by the older "+first.Object.String()+": choose another domain or delete one of them")
		}
		if _, err := specOf(spec); err != nil {
			return found("spec", model.ReasonInvalid, err.Error())
		}
		return nil, false
	}, inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []model.Object { return []model.Object{spec.Origin.Object} }))
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
