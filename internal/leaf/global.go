package leaf

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A root of a class that wants it has a GlobalIngress, from when a first site serves it
// until it goes. What that says of sites is what DNS says of them, host by host.
//
// What it says already is an input (In.Globals), as far as nobody knows better: a site
// of which no witness says anything keeps its health, one of which nobody is sure
// serves as long as it did, and where none would do those serve that did last. So a
// process that starts, and has not heard of anybody, wants nothing to be written.

// GlobalRow is what becomes of a GlobalIngress.
type GlobalRow struct {
	Wanted  bool
	Want    model.Global
	Settled bool        // nothing is to be done
	Urgent  bool        // it is new, or a site must not be used any more
	Delete  string      // UID of the object that goes; empty: none does
	Release model.Texts // finalizers of Spillway that go from one that has been leaving for too long
}

// Equal reports whether both say the same.
func (a GlobalRow) Equal(b GlobalRow) bool {
	return a.Wanted == b.Wanted && a.Want.Equal(b.Want) && a.Settled == b.Settled && a.Urgent == b.Urgent && a.Delete == b.Delete && a.Release == b.Release
}

// globals are the tables of GlobalIngresses that only this package reads.
type globals struct {
	sites model.SitesOf[*inc.Reader]
	seats *inc.Table[model.Class, globalSeats]
	wants *inc.Table[model.Object, model.Global]               // by root
	named *inc.Index[model.Object, model.Object, model.Global] // by the object's own name
}

// globalSeat is where a class is served, by an edge.
type globalSeat struct {
	at   model.Edge // as DNS calls it
	edge model.Edge
	site model.GlobalSite // its name, place and addresses
}

// globalSeats are those of a class, sorted. They are one row, as seats are.
type globalSeats []globalSeat

// Equal reports whether both are the same.
func (a globalSeats) Equal(b globalSeats) bool { return slices.Equal(a, b) }

func (d *derivation) declareGlobals(g *inc.Graph, sites model.SitesOf[*inc.Reader]) []*inc.Table[model.Object, model.Findings] {
	in, own := &d.p.In, &d.globals
	if own.sites = sites; sites == nil {
		own.sites = func(*inc.Reader, []model.HostKey, func(model.SiteState) bool) ([]model.SiteState, bool) {
			return nil, false
		}
	}
	own.seats = inc.Derive(g, "leaf.global seats", d.globalSeats, d.p.Global)
	roots := inc.IndexBy(d.p.Attachments, func(k model.Object, a fleet.Attachment) []model.Object {
		if !a.Global {
			return nil
		}
		return []model.Object{k}
	})
	own.wants = inc.Derive(g, "leaf.global wants", d.global, roots)
	inc.MayWait(own.wants, own.seats, d.heard, in.Acks)
	inc.Shared(own.wants, own.seats, d.heard, d.p.Global)
	own.named = inc.IndexBy(own.wants, func(root model.Object, _ model.Global) []model.Object {
		name, _ := model.GlobalOf(root)
		return []model.Object{name}
	})
	d.t.Globals = inc.Derive(g, "leaf.Globals", d.globalRow, own.named, in.Globals)
	held := inc.IndexBy(in.GlobalsOverdue, func(k model.Object, _ model.There) []model.Object { return []model.Object{k} })
	return []*inc.Table[model.Object, model.Findings]{
		inc.Derive(g, "findings of globals", d.globalFindings, own.wants),
		inc.Derive(g, "findings of held globals", d.heldGlobal, held),
	}
}

func (d *derivation) globalSeats(r *inc.Reader, c model.Class) (globalSeats, bool) {
	info, ok := d.p.ClassInfo.Get(r, c)
	var out globalSeats
	for _, e := range info.Edges {
		binding, bound := d.p.Binding(r, c, e)
		if !bound {
			continue
		}
		spec, _ := d.p.In.Edges.Get(r, e)
		addresses := spec.PublicAddresses()
		if len(binding.Lease.Has) > 0 {
			addresses = nil
			for _, a := range binding.Lease.Open() {
				addresses = append(addresses, a.String())
			}
		}
		site := siteAt(string(e), spec.Place)
		site.Drain, site.Addresses = spec.Drain, sortedTexts(addresses)
		out = append(out, globalSeat{binding.Seat(e), e, site})
	}
	return out, ok
}

func siteAt(name string, p model.Place) model.GlobalSite {
	return model.GlobalSite{Name: name, Region: p.Region, Zone: p.Zone, Located: p.Located, Latitude: p.Latitude, Longitude: p.Longitude}
}

func sortedTexts(list []string) model.Texts {
	list = slices.Clone(list)
	slices.Sort(list)
	return model.TextsOf(slices.Compact(list))
}

// globalRow decides what becomes of an object.
func (d *derivation) globalRow(r *inc.Reader, k model.Object) (GlobalRow, bool) {
	seen, there := d.p.In.Globals.Get(r, k)
	var out GlobalRow
	for _, want := range d.globals.named.Get(r, k) { // one at most
		out.Wanted, out.Want = true, want
	}
	switch {
	case !there:
		out.Urgent = true
	case !seen.Ours:
		out.Settled = true
		return out, out.Wanted
	case seen.Leaving != 0:
		if _, overdue := d.p.In.GlobalsOverdue.Get(r, k); overdue {
			out.Release = model.TextsOf(finalizersOfOurs(seen.Held))
		}
		out.Settled = out.Release.Len() == 0
	case !out.Wanted:
		out.Delete, out.Urgent = seen.UID, true
	default:
		out.Settled = seen.Exact && seen.Says.Equal(out.Want)
		out.Urgent = !out.Settled && loses(seen.Says, out.Want)
	}
	return out, there || out.Wanted
}

func finalizersOfOurs(held model.Texts) []string {
	return slices.DeleteFunc(held.List(), func(f string) bool { return !strings.HasPrefix(f, v1alpha1.FinalizerPrefix) })
}

// loses reports whether some address that serves must not be used any more.
func loses(was, now model.Global) bool {
	serves := map[string]bool{}
	for _, s := range now.Sites {
		for _, a := range s.Addresses.List() {
			serves[a] = serves[a] || s.Serving
		}
	}
	return slices.ContainsFunc(was.Sites, func(s model.GlobalSite) bool {
		return s.Serving && slices.ContainsFunc(s.Addresses.List(), func(a string) bool { return !serves[a] })
	})
}

// globalFindings tell the owner of a root that an object of others has the name.
func (d *derivation) globalFindings(r *inc.Reader, root model.Object) (model.Findings, bool) {
	n := model.Collector{Object: root}
	name, _ := model.GlobalOf(root)
	if seen, there := d.p.In.Globals.Get(r, name); there && !seen.Ours {
		n.Warning("", model.ReasonGlobalForeign, "%s %s is not ours, since it lacks the label %s=%s: it is left alone, and consumers learn nothing of this %s. Delete it, or give it the label", model.GlobalKind, name.Name, v1alpha1.LabelManagedBy, v1alpha1.ManagedByServe, root.Kind)
	}
	return n.Row()
}

// heldGlobal tells who still holds an object that should be gone.
func (d *derivation) heldGlobal(r *inc.Reader, k model.Object) (model.Findings, bool) {
	seen, there := d.p.In.Globals.Get(r, k)
	n := model.Collector{Object: k}
	others := slices.DeleteFunc(seen.Held.List(), func(f string) bool { return strings.HasPrefix(f, v1alpha1.FinalizerPrefix) })
	if there && seen.Ours && seen.Leaving != 0 && len(others) > 0 {
		n.Warning("metadata.finalizers", model.ReasonGlobalHeld, "it should have been gone for long: see why those who hold it do not let go, or take these away if they are no more: %s", model.Few(others))
	}
	return n.Row()
}

// global is what the GlobalIngress of a root should say; none before it is ready.
func (d *derivation) global(r *inc.Reader, root model.Object) (model.Global, bool) {
	name, may := model.GlobalOf(root)
	a, ours := d.p.Attachments.Get(r, root)
	if !may || !ours {
		return model.Global{}, false
	}
	row, _ := d.p.In.Roots.Get(r, root)
	seen, _ := d.p.In.Globals.Get(r, name)
	// Whoever took the time away, or changed the reference, made it no other root's.
	said, told := seen.Says, seen.Ours && seen.Leaving == 0 && (seen.Says.Created == row.Created || seen.Says.Created == 0)
	if !told {
		said = model.Global{}
	}
	c := &census{d: d, r: r, root: root, said: said, out: model.Global{Root: root, Created: row.Created}}
	c.hosts(a.Classes)
	there, read := c.leafed(a)
	if !read {
		return said, told
	}
	c.count(there)
	c.write()
	ready := told || slices.ContainsFunc(c.out.Sites, func(s model.GlobalSite) bool { return s.Serving })
	return c.out, ready && c.out.Hosts.Len() > 0
}

// census counts where a root is served.
type census struct {
	d    *derivation
	r    *inc.Reader
	root model.Object
	said model.Global // before; zero: nothing
	out  model.Global

	keys  map[model.Host][]model.HostKey // by host, in classes that want a GlobalIngress
	all   []model.Host                   // sorted
	sites []model.GlobalSite
}

// hosts finds those of which the root has a part. A host that users do not name has no
// name in DNS.
func (c *census) hosts(classes model.Classes) {
	c.keys = map[model.Host][]model.HostKey{}
	of := classes.List()
	for _, key := range c.d.p.HostsOfRoot.Keys(c.r, c.root) {
		if _, global := c.d.p.Global.Get(c.r, key.Class); global && key.Host != "" && slices.Contains(of, key.Class) {
			c.keys[key.Host] = append(c.keys[key.Host], key)
		}
	}
	c.all = slices.Sorted(maps.Keys(c.keys))
}

// visit is what is known of a site while its hosts are counted.
type visit struct {
	seat   globalSeat // of an edge
	member model.Member
	asked  int // hosts that the root has there
	known  int // of them, that its proxies know
	served []model.Host
	states []model.SiteState // one a host, those of hosts that it serves first
}

// state is how it stands where it does best: what witnesses say is the same in all.
func (v *visit) state() model.SiteState {
	for _, s := range v.states[:len(v.served)] {
		if s.Reason == reasonServing {
			return s
		}
	}
	return v.states[0]
}

// note takes how the site stands for a host.
func (v *visit) note(h model.Host, s model.SiteState) {
	if s.Named {
		v.states = slices.Insert(v.states, len(v.served), s)
		v.served = append(v.served, h)
		return
	}
	v.states = append(v.states, s)
}

// count counts the sites, host by host: edges of the classes, and members with leaves.
func (c *census) count(there []model.Member) {
	edges, members := map[model.Edge]*visit{}, map[model.Member]*visit{}
	for _, m := range there {
		members[m] = &visit{member: m}
	}
	var kept []model.Host
	for _, h := range c.all {
		states, refused := c.d.globals.sites(c.r, c.keys[h], func(s model.SiteState) bool { return c.served(s, h) })
		if refused {
			continue
		}
		kept = append(kept, h)
		for _, key := range c.keys[h] {
			c.visit(edges, key, states)
		}
		for _, s := range states {
			if v := members[s.Member]; v != nil {
				v.note(h, s)
			}
		}
	}
	c.all = kept
	for _, at := range slices.Sorted(maps.Keys(edges)) {
		c.sites = append(c.sites, c.edge(edges[at]))
	}
	c.drained(len(c.sites), there, members)
}

// drained adds the members. Of those of which nobody says how they stand, those that
// drain serve only if all do.
func (c *census) drained(first int, there []model.Member, members map[model.Member]*visit) {
	all := true
	for _, m := range there {
		site := c.member(members[m])
		c.sites = append(c.sites, site)
		all = all && (site.Drain || !site.Serving)
	}
	for i := range c.sites[first:] {
		if s := &c.sites[first+i]; s.Reason == reasonNotProbed && s.Drain && !all {
			s.Serving, s.Reason = false, reasonDraining
		}
	}
}

// served reports whether a site served a host, for all that was said. Of a host for which
// there was no room it is not known that it did not.
func (c *census) served(s model.SiteState, h model.Host) bool {
	if c.said.MoreHosts == 0 && !c.said.Hosts.Has(h.Written()) {
		return false
	}
	name := string(s.Member)
	if s.Member == "" {
		if at, alone := s.Edge.Leased(); alone {
			name = string(at.Edge)
		} else {
			name = string(s.Edge)
		}
	}
	return slices.ContainsFunc(c.said.Sites, func(was model.GlobalSite) bool {
		return was.Serving && was.Name == name && was.Member == (s.Member != "") && !was.Except.Has(h.Written())
	})
}

// visit counts a host of a class at the edges of that.
func (c *census) visit(visits map[model.Edge]*visit, key model.HostKey, states []model.SiteState) {
	seats, _ := c.d.globals.seats.Get(c.r, key.Class)
	acked, _ := c.d.p.In.Acks.Get(c.r, key)
	for _, seat := range seats {
		if seat.site.Addresses.Len() == 0 || !c.d.p.Owns(c.r, seat.edge, key) {
			continue
		}
		v := visits[seat.at]
		if v == nil {
			v = &visit{seat: seat}
			visits[seat.at] = v
		}
		v.asked++
		if acked.Has(seat.edge) {
			v.known++
		}
		state := model.SiteState{Edge: seat.at, Named: true, Silent: true, Reason: reasonServing}
		if i := slices.IndexFunc(states, func(s model.SiteState) bool { return s.Edge == seat.at }); i >= 0 {
			state = states[i]
		}
		v.note(key.Host, state)
	}
}

// Reasons of sites beside those that DNS has.
const (
	reasonServing       = "Serving"
	reasonNotProgrammed = "NotProgrammed" // its proxies have not acknowledged the hosts
	reasonPartly        = "PartlyServing" // it serves some hosts, but there is no room for a list of the others
	reasonNoAddress     = "NoAddress"     // its leaf has no address that counts
	reasonDraining      = "Draining"
	reasonWorse         = "Worse"
	reasonNotProbed     = "NotProbed" // its leaf has addresses, and nobody probes them
)

// edge is what is said of one.
func (c *census) edge(v *visit) model.GlobalSite {
	out := v.seat.site
	was, known := c.was(out)
	switch _, heard := c.d.heard.Get(c.r, v.seat.edge); {
	case v.known == v.asked:
	case known && was.Serving && (v.known > 0 || !heard): // as an address in the status of the root stays
	default:
		c.judge(&out, v, was)
		out.Serving, out.Reason, out.Except = false, reasonNotProgrammed, model.Texts{}
		return out
	}
	c.judge(&out, v, was)
	return out
}

// judge says how a site stands.
func (c *census) judge(out *model.GlobalSite, v *visit, was model.GlobalSite) {
	state := v.state()
	out.Health, out.Reason, out.Serving = state.Health, state.Reason, len(v.served) > 0
	if state.Silent && was.Health == model.Up {
		out.Health = model.Up
	}
	if state.Unsure && was.Name != "" && was.Serving == out.Serving {
		out.Reason = was.Reason
	}
	if !out.Serving {
		return
	}
	served := slices.Compact(slices.Sorted(slices.Values(v.served)))
	if out.Except = c.except(served); out.Except.Len() > v1alpha1.MaxGlobalExceptions {
		out.Serving, out.Reason, out.Except = false, reasonPartly, model.Texts{}
	}
}

// except are the hosts that are not among some.
func (c *census) except(served []model.Host) model.Texts {
	var out []string
	for _, h := range c.all {
		if _, is := slices.BinarySearch(served, h); !is {
			out = append(out, h.Written())
		}
	}
	return sortedTexts(out)
}

// was is what was said of a site: of several of the name, of the one with an address of
// it.
func (c *census) was(site model.GlobalSite) (model.GlobalSite, bool) {
	var out model.GlobalSite
	found := false
	for _, s := range c.said.Sites {
		if s.Name != site.Name || s.Member != site.Member {
			continue
		}
		if !found || s.Addresses == site.Addresses {
			out, found = s, true
		}
	}
	return out, found
}

// leafed are the members that have leaves of the root, and those that were said to have
// one and are not read; false: the root is not read yet.
func (c *census) leafed(a fleet.Attachment) ([]model.Member, bool) {
	if !a.Leaf {
		return nil, true
	}
	cast, read := c.d.leaves.casts.Get(c.r, c.root)
	if !read {
		return nil, false
	}
	there := slices.Clone(cast.members)
	for _, m := range c.d.leaves.missing.Keys(c.r, model.All{}) {
		if _, known := c.was(model.GlobalSite{Name: string(m), Member: true}); known && !slices.Contains(there, m) {
			there = append(there, m)
		}
	}
	slices.Sort(there)
	return there, true
}

// addresses are those that clients use of a member: of its leaf, or, of a route that has
// one, of the leaves of its Gateways there. What nobody has told yet stays as it was.
func (c *census) addresses(m model.Member, was model.GlobalSite) []string {
	id := model.LeafID{Member: m, Root: c.root}
	own, told := c.d.p.In.LeafStates.Get(c.r, id)
	if told && !own.There {
		return nil
	}
	of := []model.LeafID{id}
	if cast, _ := c.d.leaves.casts.Get(c.r, c.root); cast != nil && len(cast.via) > 0 {
		of = nil
		for _, v := range cast.via {
			if slices.Contains(v.members, m) {
				of = append(of, model.LeafID{Member: m, Root: v.gateway.Object()})
			}
		}
	}
	kept := len(of) == 0
	var out []string
	for _, id := range of {
		state, told := c.d.p.In.LeafStates.Get(c.r, id)
		kept = kept || !told
		out = append(out, c.d.counted(c.r, m, state)...)
	}
	if kept {
		out = append(out, c.d.counted(c.r, m, model.LeafState{There: true, Addresses: was.Addresses})...)
	}
	return out
}

// member is what is said of one by its leaf, and by who probes that.
func (c *census) member(v *visit) model.GlobalSite {
	spec, _ := c.d.p.In.Members.Get(c.r, v.member)
	out := siteAt(string(v.member), spec.Place)
	out.Member, out.Drain = true, spec.Drain || spec.Leaving
	was, _ := c.was(out)
	out.Addresses = sortedTexts(c.addresses(v.member, was))
	switch {
	case out.Addresses.Len() == 0:
		out.Reason = reasonNoAddress
	case len(v.states) == 0:
		out.Serving, out.Reason = true, reasonNotProbed
	default:
		if c.judge(&out, v, was); !out.Serving && out.Drain && out.Reason == reasonWorse {
			out.Reason = reasonDraining
		}
	}
	return out
}

// write writes down what was counted, as far as there is room.
func (c *census) write() {
	hosts := make([]string, len(c.all))
	for i, h := range c.all {
		hosts[i] = h.Written()
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	out := &c.out
	out.MoreHosts = max(0, len(hosts)-v1alpha1.MaxGlobalHosts)
	out.Hosts = model.TextsOf(hosts[:len(hosts)-out.MoreHosts])
	for i := range c.sites {
		s := &c.sites[i]
		if list := s.Addresses.List(); len(list) > v1alpha1.MaxGlobalAddresses {
			s.Addresses = model.TextsOf(list[:v1alpha1.MaxGlobalAddresses])
			out.MoreAddresses += len(list) - v1alpha1.MaxGlobalAddresses
		}
		if s.Serving {
			out.Serving++
		}
	}
	order := func(a, b model.GlobalSite) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), -boolean(!a.Member)+boolean(!b.Member), slices.Compare(a.Addresses.List(), b.Addresses.List()))
	}
	slices.SortFunc(c.sites, func(a, b model.GlobalSite) int { return cmp.Or(boolean(b.Serving)-boolean(a.Serving), order(a, b)) })
	out.MoreSites = max(0, len(c.sites)-v1alpha1.MaxGlobalSites)
	out.Sites = c.sites[:len(c.sites)-out.MoreSites]
	slices.SortFunc(out.Sites, order)
}

func boolean(is bool) int {
	if is {
		return 1
	}
	return 0
}
