package fleet

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Clients of a host that controllers of members serve are sent to the addresses that its
// leaves name. A *site* is such a place: a member and these addresses (model.SiteID). It
// is chosen as edges are, by how well it serves the host: as well as the member has the
// backends of the leaves that are there. Hosts of other classes read none of this.

// LeafSite is what a leaf is in DNS.
type LeafSite struct {
	LeafAt
	Claimed model.Texts  // hosts that somebody else in the member claims, as model.LeafClaim has them
	Wait    steer.Wait   // the member's rows are missing
	By      []LeafSiteBy // of a route of the Gateway API, which is where its Gateways are
}

// LeafAt is where clients of a leaf are sent.
type LeafAt struct {
	Site    model.Edge  // empty: nowhere
	Why     NoSite      // there is none
	Unknown bool        // whether there is one
	Behind  bool        // what is there is older: of the leaf, its Gateway or its ListenerSet
	Left    model.Texts // addresses that count, and that DNS does not answer
}

// LeafSiteBy is where a Gateway is by which the member has a route.
type LeafSiteBy struct {
	Gateway model.GatewayID
	LeafAt
}

// Equal reports whether both are the same.
func (a LeafSite) Equal(b LeafSite) bool {
	return a.LeafAt == b.LeafAt && a.Claimed == b.Claimed && a.Wait == b.Wait && slices.Equal(a.By, b.By)
}

// In is where clients are sent for hosts of a class.
func (a LeafSite) In(c model.Class) LeafAt {
	id, of := c.Gateway()
	if !of || a.Why != "" {
		return a.LeafAt
	}
	for _, by := range a.By {
		if by.Gateway == id {
			return by.LeafAt
		}
	}
	return LeafAt{Why: LeafIsMissing}
}

// All are all places of the leaf.
func (a LeafSite) All() []LeafAt {
	out := []LeafAt{a.LeafAt}
	for _, by := range a.By {
		out = append(out, by.LeafAt)
	}
	return out
}

// NoSite is why a leaf is nothing in DNS.
type NoSite string

// The reasons. They are shown to users.
const (
	LeafNotTold   NoSite = "nothing was told of its leaf yet"
	LeafIsRefused NoSite = "the member refuses the leaf"
	LeafIsForeign NoSite = "the member has an object of this name that is not ours"
	LeafIsMissing NoSite = "the leaf is not there yet"
	LeafIsSilent  NoSite = "the leaf's status names no address yet"
	LeafIsOutside NoSite = "the leaf's status names no address of the member's spec.leafAddresses"
)

// LeafReach is how well a site serves a host.
type LeafReach struct {
	Site   model.Edge // without addresses where none is known
	Room   steer.Room
	Unsure bool // that may be better
}

// LeafReaches are the sites of a host, sorted, each once.
type LeafReaches struct {
	At    []LeafReach
	Sites model.EdgeSet // those that have addresses
}

// Equal reports whether both are the same.
func (a LeafReaches) Equal(b LeafReaches) bool {
	return a.Sites == b.Sites && slices.Equal(a.At, b.At)
}

// leafRoom is what a member has of a backend, for leaves that are there.
type leafRoom struct{ room steer.Room }

func (a leafRoom) Equal(b leafRoom) bool { return a == b }

// declareLeafSites decides where clients of hosts with leaves may be sent. Members that
// are scaled, and leaves that are told of again, end at rows of their own.
func (d *program) declareLeafSites(g *inc.Graph) {
	leaves := inc.IndexBy(d.Leafed, func(k model.Object, row Leafed) []model.LeafID {
		var out []model.LeafID
		for _, m := range row.Members {
			out = append(out, model.LeafID{Member: m, Root: k})
		}
		return out
	})
	d.LeafSites = inc.Derive(g, "leaf sites", d.leafSite, leaves)
	d.SitesOfRoot = inc.IndexBy(d.LeafSites, func(k model.LeafID, _ LeafSite) []model.Object { return []model.Object{k.Root} })
	groups := inc.IndexBy(d.Leafed, func(_ model.Object, row Leafed) []GroupID {
		return pairs(row.Backends, row.Members, func(b model.Backend, m model.Member) GroupID { return GroupID{b, m} })
	})
	d.leafRooms = inc.Derive(g, "leaf rooms", d.leafRoomOf, groups)
	inc.MayWait(d.leafRooms, d.stands, d.In.Stale)
	hosts := inc.IndexBy(d.Hosts, func(k model.HostKey, h Host) []model.HostKey {
		if !h.Leaf || k.Host == "" {
			return nil
		}
		return []model.HostKey{k}
	})
	d.LeafReaches = inc.Derive(g, "leaf reaches", d.leafReaches, hosts)
	inc.MayWait(d.LeafReaches, d.leafRooms)
	d.declareLeafAsks(g)
}

func (d *program) leafSite(r *inc.Reader, k model.LeafID) (LeafSite, bool) {
	row, ok := d.Leafed.Get(r, k.Root)
	if !ok || !slices.Contains(row.Members, k.Member) {
		return LeafSite{}, false
	}
	var out LeafSite
	switch missing, is := d.Missing.Get(r, k.Member); {
	case is && missing.Serves:
		out.Wait = missing.wait()
	case is:
		out.Wait = steer.Overdue // it drains: what it has counts where nobody else serves
	}
	state, told := d.In.LeafStates.Get(r, k)
	out.Claimed = claimedHosts(state.Claimed)
	if a, _ := d.Attachments.Get(r, k.Root); !a.Attached {
		out.LeafAt = d.leafAt(r, k.Member, state, told)
		return out, true
	}
	if out.Why, out.Unknown = standsIn(state, told); out.Why != "" {
		return out, true
	}
	for _, by := range row.By {
		if slices.Contains(by.Members, k.Member) {
			of, told := d.In.LeafStates.Get(r, model.LeafID{Member: k.Member, Root: by.Gateway.Object()})
			at := d.leafAt(r, k.Member, of, told)
			out.By = append(out.By, LeafSiteBy{by.Gateway, at.by(state)})
		}
	}
	return out, true
}

// claimedHosts are those of some claims, sorted, each once.
func claimedHosts(claims model.Texts) model.Texts {
	all := claims.List()
	for i, c := range all {
		all[i] = model.LeafClaimOf(c).Host
	}
	slices.Sort(all)
	return model.TextsOf(slices.Compact(all))
}

// claims reports whether somebody else in the leaf's member claims a host.
func (a LeafSite) claims(h model.Host) bool {
	text := string(h)
	if strings.HasPrefix(text, "**.") {
		text = text[1:] // as users write it
	}
	return a.Claimed.Len() > 0 && a.Claimed.Has(text)
}

// standsIn is why a leaf is not there, and whether that is not known.
func standsIn(state model.LeafState, told bool) (NoSite, bool) {
	switch {
	case !told:
		return LeafNotTold, true
	case state.Reason == model.LeafForeign, state.Reason == model.LeafOfAnotherHub:
		return LeafIsForeign, false
	case !state.There && (state.Reason == model.LeafRefused || state.Reason == model.LeafNotServed):
		return LeafIsRefused, false
	case !state.There:
		return LeafIsMissing, false
	}
	return "", false
}

// isOlder reports whether what is there of a leaf is not what is wanted, since the member
// refuses that. What is being written, or not told of, is not refused.
func isOlder(state model.LeafState) bool { return state.There && state.Reason == model.LeafRefused }

// by is where clients are sent if another leaf is needed there, too, which is there.
func (a LeafAt) by(state model.LeafState) LeafAt {
	a.Behind = a.Behind || a.Why == "" && isOlder(state)
	return a
}

// leafAt is the site that a leaf's status names.
func (d *program) leafAt(r *inc.Reader, m model.Member, state model.LeafState, told bool) (out LeafAt) {
	if out.Why, out.Unknown = standsIn(state, told); out.Why != "" {
		return out
	}
	if state.Addresses.Len() == 0 {
		return LeafAt{Why: LeafIsSilent}
	}
	ground, _ := d.LeafGrounds.Get(r, m)
	counted := slices.DeleteFunc(state.Addresses.List(), func(a string) bool { return !ground.Addresses.Has(a) })
	site, left := model.SiteOf(m, counted)
	if out.Left = model.TextsOf(left); site.Addresses.Len() == 0 {
		out.Why = LeafIsOutside
	} else {
		out.Site = site.Edge()
	}
	return out.by(state)
}

// leafRoomOf is how well a member serves a backend, whatever leads there. That a way to it
// is lost is for witnesses to say.
func (d *program) leafRoomOf(r *inc.Reader, k GroupID) (leafRoom, bool) {
	at, _ := d.stands.Get(r, k.Member)
	if backend, _ := d.Backends.Get(r, k.Backend); backend.tolerates(k.Member) {
		at.barred, at.serves = false, !at.drains
	}
	_, stale := d.In.Stale.Get(r, k.Member)
	candidate := steer.Candidate{Member: k.Member, Serves: at.serves, Barred: at.barred, Stale: stale}
	shape, _ := d.Shapes.Get(r, k)
	for _, z := range shape.Zones {
		candidate.Ready += int(z.Ready)
		candidate.Draining += int(z.Draining)
	}
	return leafRoom{candidate.Room()}, true
}

// leafPart is what a root has of a host, by one backend.
type leafPart struct {
	root    model.Object
	backend model.Backend // zero: its controller answers by itself
}

// leafParts are those of a host, each once. What an older root of another class has that
// members serve is in no leaf (package leaf).
func (d *program) leafParts(r *inc.Reader, k model.HostKey, host Host) []leafPart {
	var out []leafPart
	add := func(t Target) {
		for _, b := range t.Used() {
			if b.Backend != (model.Backend{}) {
				out = append(out, leafPart{t.Root, b.Backend})
			}
		}
		if t.Reply != nil {
			out = append(out, leafPart{root: t.Root})
		}
	}
	elders := d.Elders(r, k)
	for _, route := range host.Routes {
		if !elders.have(r, route) {
			add(route.Target)
		}
	}
	if host.Default != nil {
		add(*host.Default)
	}
	slices.SortFunc(out, func(a, b leafPart) int {
		if c := a.root.Compare(b.root); c != 0 {
			return c
		}
		return a.backend.Compare(b.backend)
	})
	return slices.Compact(out)
}

// reaching is a site of a host, while it is found out how well it serves.
type reaching struct {
	LeafReach
	serves int        // how many parts
	others bool       // in its member somebody else claims the host, too
	wait   steer.Wait // its member's rows are missing
}

// leafReaches says how well each site serves a host: as well as the part that it serves
// best. One that does not serve all that some site does comes behind those that do:
// requests for the rest would find nobody there. Last comes one where somebody else claims
// the host, too: which of both is asked is not ours to say.
func (d *program) leafReaches(r *inc.Reader, k model.HostKey) (LeafReaches, bool) {
	host, ok := d.Hosts.Get(r, k)
	if !ok || !host.Leaf {
		return LeafReaches{}, false
	}
	sites, parts := map[model.Edge]*reaching{}, 0
	var maybe steer.Unread
	set := d.setOf(r, k)
	for _, part := range d.leafParts(r, k, host) {
		served := false
		root, _ := d.Leafed.Get(r, part.root)
		maybe.Serving, maybe.Drained = max(maybe.Serving, root.Maybe.Serving), max(maybe.Drained, root.Maybe.Drained)
		d.SitesOfRoot.Each(r, part.root, func(id model.LeafID, leaf LeafSite) {
			where := d.through(r, set, id.Member, leaf.In(k.Class))
			at := siteIn(sites, id, where, leaf.Wait)
			at.others = at.others || leaf.claims(k.Host)
			room := steer.Best
			if part.backend != (model.Backend{}) {
				row, is := d.leafRooms.Get(r, GroupID{part.backend, id.Member})
				if room = row.room; !is {
					room = steer.NoRoom
				}
			}
			if where.Behind {
				room = room.Behind()
			}
			if where.Site == "" {
				room = steer.NoRoom
			}
			if at.Room = min(at.Room, room); room != steer.NoRoom {
				at.serves++
				served = true
			}
		})
		if served {
			parts++
		}
	}
	for _, root := range host.Roots { // where all that serves is gone, leaves stay
		d.SitesOfRoot.Each(r, root, func(id model.LeafID, leaf LeafSite) {
			siteIn(sites, id, d.through(r, set, id.Member, leaf.In(k.Class)), leaf.Wait)
		})
	}
	return reachesOf(sites, parts, maybe), true
}

// siteIn is the entry of a leaf's site.
func siteIn(sites map[model.Edge]*reaching, id model.LeafID, leaf LeafAt, wait steer.Wait) *reaching {
	name := leaf.Site
	if name == "" {
		name = model.SiteID{Member: id.Member}.Edge()
	}
	at := sites[name]
	if at == nil {
		at = &reaching{LeafReach: LeafReach{Site: name, Room: steer.NoRoom}}
		sites[name] = at
	}
	at.Unsure = at.Unsure || leaf.Unknown
	at.wait = max(at.wait, wait)
	return at
}

// reachesOf are all sites. What a member has that is missing, and waited for, may be more
// than is known; one that is overdue is never better than what is there. Members of which
// nobody knows whether they have a leaf are one entry, of no member.
func reachesOf(sites map[model.Edge]*reaching, parts int, maybe steer.Unread) LeafReaches {
	var out LeafReaches
	var named []model.Edge
	known := steer.Plan{Room: steer.NoRoom} // by those that are sure
	for _, at := range sites {
		if at.serves < parts {
			at.Room = at.Room.Lacking()
		}
		if at.others {
			at.Room = at.Room.Disputed()
		}
		if at.Room != steer.NoRoom && at.wait == steer.NoWait && !at.Unsure {
			known.Room, known.Shares = min(known.Room, at.Room), []steer.Share{{State: steer.Serving}}
		}
	}
	for name, at := range sites {
		at.Unsure = at.Room != steer.Best && (at.Unsure && at.wait != steer.Overdue || (steer.Unread{Serving: at.wait}).Changes(known, nil))
		if site, _ := name.Site(); site.Addresses.Len() > 0 {
			named = append(named, name)
		} else if !at.Unsure {
			continue // there is nothing to say of it
		}
		out.At = append(out.At, at.LeafReach)
	}
	if maybe.Changes(known, nil) {
		out.At = append(out.At, LeafReach{Site: model.SiteID{}.Edge(), Room: steer.NoRoom, Unsure: true})
	}
	slices.SortFunc(out.At, func(a, b LeafReach) int { return a.Site.Compare(b.Site) })
	out.Sites = model.EdgesOf(named...)
	return out
}
