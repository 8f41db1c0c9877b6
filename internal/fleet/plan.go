package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Spread is what has a host, and what the host uses: it gives the rows of the
// host their keys. A TLS name without routes has one, too.
type Spread struct {
	*Outlets
	backends  []model.Backend
	dial      model.Dial     // as of its Host
	roots     []model.Object // as of its Host
	tls       *names         // nil: nobody lists it under tls
	served    bool           // it has routes
	contested bool           // other classes have routes for it, too
	lookups   bool           // as of its Host
	silent    int32          // of the backends, which come behind: they answer nobody
	calls     int32          // of the backends, which come last: they are asked by calls, and may be among the others too
}

// Equal reports whether both are the same.
func (a Spread) Equal(b Spread) bool {
	return a.served == b.served && a.contested == b.contested && a.lookups == b.lookups && a.dial == b.dial && a.silent == b.silent && a.calls == b.calls && a.Outlets.Equal(b.Outlets) && slices.Equal(a.backends, b.backends) &&
		slices.Equal(a.roots, b.roots) && a.tls.equal(b.tls)
}

// names is what a TLS name has to do with other classes.
type names struct {
	disputed bool                // several classes have a say in whose certificate it has
	chained  inc.List[ClassList] // that have its certificate in a listener together
}

func (a *names) equal(b *names) bool {
	return a == b || a != nil && b != nil && a.disputed == b.disputed && a.chained.Equal(b.chained)
}

// answering are the backends whose answers clients get.
func (a Spread) answering() []model.Backend { return a.dialled()[:len(a.dialled())-int(a.silent)] }

// dialled are the backends that are dialled as the host says, each once.
func (a Spread) dialled() []model.Backend { return a.backends[:len(a.backends)-int(a.calls)] }

// called are those that are dialled so, and over HTTP/2.
func (a Spread) called() []model.Backend { return a.backends[len(a.backends)-int(a.calls):] }

// all are all backends, each once.
func (a Spread) all() []model.Backend {
	if a.calls == 0 {
		return a.backends
	}
	out := slices.Clone(a.backends)
	slices.SortFunc(out, model.Backend.Compare)
	return slices.Compact(out)
}

// String is the outlets and the backends.
func (a Spread) String() string { return fmt.Sprint(a.Outlets, a.backends) }

// nowhere is where a class is served that no edge has.
var nowhere = new(Outlets)

// declareSpreads makes the rows that large changes wait in.
func (p *Program) declareSpreads(g *inc.Graph) {
	p.Spreads = inc.Derive(g, "spreads", func(r *inc.Reader, k model.HostKey) (Spread, bool) {
		host, served := p.Hosts.Get(r, k)
		out := Spread{Outlets: nowhere, dial: host.Dial, roots: host.Roots, served: served, lookups: host.Lookups}
		out.backends, out.silent, out.calls = host.backends()
		out.contested = served && p.contested(r, k.Host)
		if _, tls := p.Chains.Get(r, k); tls {
			chained, _ := p.Chained.Get(r, k.Class)
			_, disputed := p.disputes.Get(r, k)
			out.tls = &names{disputed, chained}
		}
		if at, ok := p.Outlets.Get(r, k.Class); ok {
			out.Outlets = at
		}
		return out, true
	}, p.Hosts, p.Chains)
	inc.MayWait(p.Spreads, p.Outlets, p.Chained)
	inc.Shared(p.Spreads, p.Outlets, p.Chained)
}

// declareUses finds what edges and hosts have together. A front or a vantage that
// no edge has any more has rows until its last host has left it.
func (d *program) declareUses() {
	d.HostsOfRoot = inc.IndexBy(d.Spreads, func(_ model.HostKey, s Spread) []model.Object { return s.roots }) // of Hosts, it would change with each path
	d.hostsAt = inc.IndexBy(d.Spreads, func(_ model.HostKey, s Spread) []model.Vantage { return s.Vantages })
	d.edgesAt = inc.IndexBy(d.Views, func(_ model.Edge, v View) []model.Vantage { return []model.Vantage{v.Key.Vantage()} })
	d.Needs = inc.IndexBy(d.Spreads, func(_ model.HostKey, s Spread) []NeedID {
		need := func(dial model.Dial) func(model.Collection, model.Backend) NeedID {
			return func(f model.Collection, b model.Backend) NeedID { return NeedID{f, b, dial} }
		}
		over := s.dial.OverHTTP2()
		if s.calls == 0 || over == s.dial {
			return pairs(s.Fronts, s.all(), need(s.dial))
		}
		return append(pairs(s.Fronts, s.dialled(), need(s.dial)), pairs(s.Fronts, s.called(), need(over))...)
	})
	d.usersOf = inc.IndexBy(d.Spreads, func(_ model.HostKey, s Spread) []UseID {
		return pairs(s.Vantages, s.all(), func(v model.Vantage, b model.Backend) UseID { return UseID{v, b} })
	})
	d.Uses = d.usersOf
	d.Groups.Watch(d.hurry)
}

// DeclareFronts decides who is served where, and who has what: all between Hosts
// and Chains and what data planes hold.
func (p *Program) DeclareFronts(g *inc.Graph) {
	p.declareNames(g)
	p.declareRelayed(g)
	p.declarePorts(g)
	p.declareSites(g)
	p.declareSpreads(g)
	p.declareCollections(g)
	p.declareOwners(g)
	p.declarePresented(g)
	p.declareConflicts(g)
}

// fewGroups is what a change of one object does not exceed.
const fewGroups = 64

// hurry has hosts go next that wait and whose endpoints changed: who dials them
// from a vantage that is new would be told no sooner than they are there.
func (d *program) hurry(changes []inc.Change[GroupID, Group]) {
	if d.Spreads.Waiting() == 0 || len(changes) > fewGroups {
		return
	}
	for _, v := range d.hostsAt.Groups() {
		for _, c := range changes {
			for _, host := range d.usersOf.Keys(nil, UseID{v, c.Key.Backend}) {
				d.Spreads.Hurry(host)
			}
		}
	}
}

func (d *program) declarePlans(g *inc.Graph) {
	d.Plans = inc.Derive(g, "plans", d.plan, d.Uses)
	inc.MayWait(d.Plans, d.sights)
	inc.Shared(d.Plans, d.sights, d.unread)
	d.Outcomes = inc.Derive(g, "outcomes", func(r *inc.Reader, use UseID) (Reach, bool) {
		plan, ok := d.Plans.Get(r, use)
		return Reach{Room: plan.Room, Unsure: plan.Unsure}, ok
	}, d.Plans)
}

// pairs are all pairs of two lists.
func pairs[A, B, C any](as []A, bs []B, pair func(A, B) C) []C {
	out := make([]C, 0, len(as)*len(bs))
	for _, a := range as {
		for _, b := range bs {
			out = append(out, pair(a, b))
		}
	}
	return out
}

// plan asks steer about the members that can be dialled from the vantage.
func (d *program) plan(r *inc.Reader, use UseID) (steer.Plan, bool) {
	backend, ok := d.Backends.Get(r, use.Backend)
	if !ok {
		return steer.Plan{}, false
	}
	candidates := make([]steer.Candidate, 0, len(backend.Members))
	var old []model.Member
	for _, m := range backend.Members {
		at, ok := d.sights.Get(r, sightID{use.Vantage, m})
		if !ok {
			continue
		}
		if backend.tolerates(m) {
			at.barred, at.serves = false, !at.drains
		}
		if at.old {
			old = append(old, m)
		}
		shape, _ := d.Shapes.Get(r, GroupID{use.Backend, m})
		for _, z := range shape.Zones {
			place := at.place
			if z.Zone != (model.Zone{}) { // an ExternalName is where its member is
				place.Zone = z.Zone.String()
			}
			candidates = append(candidates, steer.Candidate{Member: m, Place: place, Ready: int(z.Ready), Draining: int(z.Draining),
				Health: at.health, Serves: at.serves, Barred: at.barred, Stale: at.stale})
		}
	}
	plan := steer.Tiers(use.Vantage.Place(), candidates)
	plan.Unsure = d.unreadIn(r, use, backend).Changes(plan, old)
	return plan, true
}

// unreadIn are the members whose rows are missing that may be part of a backend: those
// of the vantage, or, where a Placement chooses, those that it has chosen.
func (d *program) unreadIn(r *inc.Reader, use UseID, b Backend) steer.Unread {
	if b.Placing == nil {
		out, _ := d.unread.Get(r, use.Vantage)
		return out
	}
	var out steer.Unread
	for _, m := range b.Placing.Unknown {
		_, dials := d.sights.Get(r, sightID{use.Vantage, m})
		if row, missing := d.Missing.Get(r, m); dials && missing {
			row.add(&out)
		}
	}
	return out
}
