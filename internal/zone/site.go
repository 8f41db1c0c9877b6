package zone

import (
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Hosts that controllers of members serve are answered with sites (package fleet), beside
// the edges that they may have: a site is an edge in all that follows. One that has host
// names is answered with what these lead to, since a name may have other records beside
// and the domain itself can have no CNAME. A shell looks them up (Lookups) and writes what
// it found (Names). A name inside a zone of ours is not looked up: it would lead to itself.

// Resolved are the addresses of a host name, sorted.
type Resolved struct{ Addresses []netip.Addr }

// Equal reports whether both are the same.
func (a Resolved) Equal(b Resolved) bool { return slices.Equal(a.Addresses, b.Addresses) }

// sitesOf finds the sites that hosts have.
func sitesOf(p *fleet.Program) *inc.Index[model.Edge, model.HostKey, fleet.LeafReaches] {
	return inc.IndexBy(p.LeafReaches, func(_ model.HostKey, row fleet.LeafReaches) []model.Edge { return row.Sites.Edges() })
}

// siteRow is a site with its addresses, at the place of its member.
func (t *Tables) siteRow(r *inc.Reader, p *fleet.Program, id model.Edge, site model.SiteID) (EdgeRow, bool) {
	spec, ok := p.In.Members.Get(r, site.Member)
	addresses := site.IPs()
	for _, name := range site.Names() {
		found, _ := t.Names.Get(r, name)
		addresses = append(addresses, found.Addresses...)
	}
	return EdgeRow{NewEdge(id, spec.Place, addresses)}, ok
}

// post is what hosts need to know of a site, whichever they are.
type post struct {
	edge    model.Edge
	is      Witnesses
	bare    bool // it has no address that can be answered
	unknown bool // since its names were not looked up yet
}

// declareSites finds which names are looked up, and what is known of sites: a row for
// all hosts that have the same.
func (t *Tables) declareSites(g *inc.Graph, p *fleet.Program) {
	names := inc.IndexBy(t.Edges, func(id model.Edge, _ EdgeRow) []model.Host {
		site, _ := id.Site()
		return site.Names()
	})
	t.Lookups = inc.Derive(g, "dns-lookups", func(r *inc.Reader, name model.Host) (model.There, bool) {
		return model.There{}, !t.ours(r, name)
	}, names)
	alike := inc.IndexBy(p.LeafReaches, func(_ model.HostKey, row fleet.LeafReaches) []model.EdgeSet {
		if row.Sites == (model.EdgeSet{}) {
			return nil
		}
		return []model.EdgeSet{row.Sites}
	})
	t.posts = inc.Derive(g, "dns-posts", func(r *inc.Reader, set model.EdgeSet) (inc.List[post], bool) {
		var out []post
		for _, id := range set.Edges() {
			at := post{edge: id}
			at.is, _ = t.Witnesses.Get(r, id)
			row, there := t.Edges.Get(r, id)
			if at.bare = !there || row.Edge.bare(); at.bare {
				at.unknown = t.unresolved(r, id)
			}
			out = append(out, at)
		}
		return out, true
	}, alike)
}

// ours reports whether a name is inside of a zone of ours.
func (t *Tables) ours(r *inc.Reader, name model.Host) bool {
	for ; name != ""; name = parent(name) {
		if _, ok := t.apexes.Get(r, name); ok {
			return true
		}
	}
	return false
}

// unresolved reports whether a site has a name of which nothing is known yet.
func (t *Tables) unresolved(r *inc.Reader, id model.Edge) bool {
	site, _ := id.Site()
	return slices.ContainsFunc(site.Names(), func(name model.Host) bool {
		_, wanted := t.Lookups.Get(r, name)
		_, found := t.Names.Get(r, name)
		return wanted && !found
	})
}

// bare reports whether it has no address.
func (e *Edge) bare() bool { return len(e.v4)+len(e.v6) == 0 }

// siteStates are those of the sites of a host of one class.
func (t *Tables) siteStates(r *inc.Reader, p *fleet.Program, key model.HostKey) []EdgeState {
	row, _ := p.LeafReaches.Get(r, key)
	var posts []post
	if row.Sites != (model.EdgeSet{}) {
		posts, _ = t.posts.Get(r, row.Sites)
	}
	out := make([]EdgeState, len(row.At))
	for i, at := range row.At {
		out[i] = EdgeState{Edge: at.Site, Room: at.Room, Unsure: at.Unsure}
		j, ok := slices.BinarySearchFunc(posts, at.Site, func(p post, e model.Edge) int { return p.edge.Compare(e) })
		if !ok {
			continue
		}
		out[i].Stream, out[i].Probe = posts[j].is.Stream, posts[j].is.Probe
		if posts[j].bare {
			out[i].Room, out[i].Unsure = steer.NoRoom, out[i].Unsure || posts[j].unknown
		}
	}
	return out
}

// siteFindings tell the owner of a root what DNS does not answer of what its leaves name.
func (t *Tables) siteFindings(r *inc.Reader, p *fleet.Program, root model.Object) (model.Findings, bool) {
	n := model.Collector{Object: root}
	p.SitesOfRoot.Each(r, root, func(id model.LeafID, row fleet.LeafSite) {
		for _, at := range row.All() {
			t.placeFindings(r, &n, id.Member, at)
		}
	})
	return n.Row()
}

// placeFindings tell it of one place.
func (t *Tables) placeFindings(r *inc.Reader, n *model.Collector, m model.Member, row fleet.LeafAt) {
	if row.Left.Len() > 0 {
		n.Warning("", model.ReasonUnsupported, "member %s names addresses of the leaf that DNS does not answer, since it answers at most %d of a kind, and none that clients can't be sent to: %s",
			m, model.MaxSiteAddresses, model.Few(row.Left.List()))
	}
	site, _ := row.Site.Site()
	var inside []string
	for _, name := range site.Names() {
		if t.ours(r, name) {
			inside = append(inside, string(name))
		}
	}
	if len(inside) > 0 {
		n.Warning("", model.ReasonUnsupported, "member %s names host names as addresses of the leaf that are inside a zone of ours, and DNS does not look them up: have its controller name addresses, or names of others: %s", m, model.Few(inside))
	}
}

// troubled finds the roots with leaves of which DNS may not answer all.
func troubled(p *fleet.Program) *inc.Index[model.Object, model.LeafID, fleet.LeafSite] {
	return inc.IndexBy(p.LeafSites, func(k model.LeafID, row fleet.LeafSite) []model.Object {
		for _, at := range row.All() {
			if site, _ := at.Site.Site(); at.Left.Len() > 0 || len(site.Names()) > 0 {
				return []model.Object{k.Root}
			}
		}
		return nil
	})
}
