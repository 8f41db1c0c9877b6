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
	Names     *inc.Table[model.Host, Resolved]      // input: what host names that members name as addresses lead to, as far as that is known

	Lookups  *inc.Table[model.Host, model.There]      // host names of which addresses are wanted
	Edges    *inc.Table[model.Edge, EdgeRow]          // what DNS needs of an edge, or of a seat that a class has there for itself
	Zones    *inc.Table[model.ZoneID, Served]         // zones that are served
	Records  *inc.Table[model.Host, RecordRow]        // what a host has
	Findings *inc.Table[model.Object, model.Findings] // of DNSZones, of roots they refuse, of Edges they can't name

	byDomain *inc.Index[model.Host, model.ZoneID, model.ZoneSpec]
	below    *inc.Index[model.Host, model.ZoneID, model.ZoneSpec] // domain -> zones below it
	apexes   *inc.Table[model.Host, model.ZoneSpec]               // domain -> the zone that has it
	byParent *inc.Index[model.Host, model.Host, model.ZoneSpec]
	areas    *inc.Table[model.Host, area]
	crews    *inc.Table[model.Class, crew]
	posts    *inc.Table[model.EdgeSet, inc.List[post]]
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
		Names:     inc.Input[model.Host, Resolved](g, "dns-names"),
	}
	seats := inc.IndexBy(p.Leases, func(id model.LeaseID, _ model.Lease) []model.Edge { return []model.Edge{id.Seat()} })
	t.Edges = inc.Derive(g, "dns-edges", func(r *inc.Reader, id model.Edge) (EdgeRow, bool) {
		if site, is := id.Site(); is {
			return t.siteRow(r, p, id, site)
		}
		at, alone := id.Leased()
		spec, ok := p.In.Edges.Get(r, at.Edge)
		if !alone || !ok {
			return EdgeRow{NewEdge(id, spec.Place, spec.Addresses)}, ok
		}
		lease, ok := p.Lease(r, at)
		return EdgeRow{NewEdge(id, spec.Place, lease.Open())}, ok
	}, p.In.Edges, seats, sitesOf(p))
	t.declareZones(g, p)
	t.declareSites(g, p)
	t.crews = inc.Derive(g, "dns-crews", func(r *inc.Reader, c model.Class) (crew, bool) { return t.crew(r, p, c) }, p.ClassInfo)
	t.declareAreas(g, p)
	t.choices = inc.Derive(g, "dns-choices", func(r *inc.Reader, host model.Host) (choice, bool) {
		if host == "" {
			return choice{}, false // hosts that nobody names have no records
		}
		return t.choose(r, p, host, p.HostsNamed.Keys(r, host))
	}, p.HostsNamed)
	inc.MayWait(t.choices, t.crews, t.posts, p.ClassInfo, t.areas, t.Last, t.Starting)
	inc.Shared(t.choices, t.crews, t.posts, p.ClassInfo, t.areas, t.Starting)
	t.declareRecords(g)
	t.declareFindings(g, p)
	return t
}

// refusal is nil if the zone that a host lies in admits the namespace of at least
// one of the objects that ask for the host.
func refusal(r *inc.Reader, p *fleet.Program, in domain, key model.HostKey) *Refusal {
	if len(in.namespaces) == 0 {
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

// declareZones serves each domain by the DNSZone that has it (see apex.go).
func (t *Tables) declareZones(g *inc.Graph, p *fleet.Program) {
	t.declareApexes(g, p)
	t.Zones = inc.Derive(g, "dns-zones", func(r *inc.Reader, id model.ZoneID) (Served, bool) {
		spec, ok := p.In.Zones.Get(r, id)
		if !ok || !t.has(r, spec) {
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
	out := Spec{Apex: apex, TTL: spec.TTL, ServerTTL: spec.ServerTTL, Answers: spec.Answers, SOA: SOA{
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
