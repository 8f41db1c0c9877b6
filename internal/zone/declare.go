package zone

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Tables is what DNS adds to the program. A shell builds a Snapshot from Zones
// and Records, and feeds Records' edges back into Last (see Step).
type Tables struct {
	Witnesses *inc.Table[model.Edge, Witnesses]     // input: who still sees the edge, or a seat of it
	Last      *inc.Table[model.Host, model.EdgeSet] // input: the last edges a host had, never empty
	Starting  *inc.Table[model.All, model.There]    // input, for StartingFor after the hub became known: what nobody is sure of waits
	Unlisted  *inc.Table[model.All, model.There]    // input: all is of a checkpoint; hosts may have come since

	Edges    *inc.Table[model.Edge, EdgeRow]          // what DNS needs of an edge, or of a seat that a class has there for itself
	Zones    *inc.Table[model.ZoneID, Served]         // zones that are served
	Records  *inc.Table[model.Host, RecordRow]        // what a host has
	Findings *inc.Table[model.Object, model.Findings] // of DNSZones, of roots they refuse, of Edges they can't name

	byDomain *inc.Index[apexKey, model.ZoneID, model.ZoneSpec]
	byParent *inc.Index[apexKey, model.ZoneID, model.ZoneSpec]
	areas    *inc.Table[model.Host, area]
	crews    *inc.Table[model.Class, crew]
	choices  *inc.Table[model.Host, choice]
	sets     *inc.Table[model.EdgeSet, sets]
	refused  *inc.Index[model.Object, model.Host, choice] // root -> its hosts that zones refuse
}

// Witnesses are both witnesses of an edge.
type Witnesses struct{ Stream, Probe Witness }

// Equal reports whether both are the same.
func (a Witnesses) Equal(b Witnesses) bool { return a == b }

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

// StartingFor is how long SERVFAIL is better than the edges that are sure: by
// then most members have been read.
const StartingFor = 30 * time.Second

// RecordRow is what a host has in DNS and the edges it was made from.
type RecordRow struct {
	Set   *RecordSet    // shared by all hosts with the same edges; nil: nothing, and Last should hold nothing
	Edges model.EdgeSet // what Last should hold; empty: leave it
}

// Equal reports whether both are the same.
func (a RecordRow) Equal(b RecordRow) bool { return a.Set.Equal(b.Set) && a.Edges == b.Edges }

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
		Last:      inc.Input[model.Host, model.EdgeSet](g, "dns-last"),
		Starting:  inc.Input[model.All, model.There](g, "dns-starting"),
		Unlisted:  inc.Input[model.All, model.There](g, "dns-unlisted"),
	}
	seats := inc.IndexBy(p.Leases, func(id model.LeaseID, _ model.Lease) []model.Edge { return []model.Edge{id.Seat()} })
	t.Edges = inc.Derive(g, "dns-edges", func(r *inc.Reader, id model.Edge) (EdgeRow, bool) {
		at, alone := id.Leased()
		spec, ok := p.In.Edges.Get(r, at.Edge)
		if !alone || !ok {
			return EdgeRow{NewEdge(id, spec.Place, spec.Addresses)}, ok
		}
		lease, ok := p.Lease(r, at)
		return EdgeRow{NewEdge(id, spec.Place, lease.Addresses())}, ok
	}, p.In.Edges, seats)
	t.declareZones(g, p)
	t.crews = inc.Derive(g, "dns-crews", func(r *inc.Reader, c model.Class) (crew, bool) { return t.crew(r, p, c) }, p.ClassInfo)
	t.declareAreas(g, p)
	t.choices = inc.Derive(g, "dns-choices", func(r *inc.Reader, host model.Host) (choice, bool) {
		if host == "" {
			return choice{}, false // hosts that nobody names have no records
		}
		return t.choose(r, p, host, p.HostsNamed.Keys(r, host))
	}, p.HostsNamed)
	inc.MayWait(t.choices, t.crews, p.ClassInfo, p.In.Zones, t.areas, t.Last, t.Starting)
	inc.Shared(t.choices, t.crews, p.ClassInfo, p.In.Zones, t.areas, t.Starting)
	t.declareRecords(g)
	t.declareFindings(g, p)
	return t
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
	in, ok := t.zoneOf(r, key.Host)
	if !ok || len(in.namespaces) == 0 {
		return nil
	}
	host, _ := p.Hosts.Get(r, key)
	if slices.ContainsFunc(host.Roots, func(o model.Object) bool {
		return o.Workspace == in.zone.Workspace && slices.Contains(in.namespaces, o.Namespace)
	}) {
		return nil
	}
	return &Refusal{Zone: in.zone, Roots: host.Roots}
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
	t.byParent = inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []apexKey { return []apexKey{parent(spec.Domain)} })
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
		_, made.Held = t.Unlisted.Get(r, model.All{})
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
