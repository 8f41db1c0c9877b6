package fleet

import (
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Which members have a leaf of a root follows from inputs. Two things are remembered,
// both in what members told last (In.LeafStates): where none has a backend any more, the
// leaves that are there stay; and so does one in a member of which nobody knows what it
// has. What leaves say is decided in package leaf, what DNS says of them in package zone.

// Leafed is which members have a leaf of a root, if there is anything to write.
type Leafed struct {
	Members  []model.Member  // sorted
	Backends []model.Backend // that the root names, sorted
	By       []LeafedBy      // of a route of the Gateway API, its Gateways that members serve, in order
	Lacking  model.Findings  // Services that some of the members do not have
	Maybe    steer.Unread    // others that may have one: their rows are missing
}

// Equal reports whether both are the same.
func (a Leafed) Equal(b Leafed) bool {
	return slices.Equal(a.Members, b.Members) && a.Maybe == b.Maybe && slices.Equal(a.Backends, b.Backends) && a.Lacking.Equal(b.Lacking) &&
		slices.EqualFunc(a.By, b.By, LeafedBy.equal)
}

// LeafGround is what leaves depend on of a member.
type LeafGround struct {
	Addresses model.LeafAddresses // that its controllers may name

	again   bool // it is the cluster of an older one
	tainted bool
	leaving bool // and its leaves go with it
	forced  bool // the last ones, too
}

// Equal reports whether both are the same.
func (a LeafGround) Equal(b LeafGround) bool {
	return a.again == b.again && a.tainted == b.tainted && a.leaving == b.leaving && a.forced == b.forced && a.Addresses.Equal(b.Addresses)
}

// declareLeafed decides which members have leaves. Where no class is served by members
// there are rows of members only.
func (d *program) declareLeafed(g *inc.Graph) {
	d.LeafGrounds = inc.Derive(g, "leaf grounds", func(r *inc.Reader, m model.Member) (LeafGround, bool) {
		spec, ok := d.In.Members.Get(r, m)
		traits, _ := d.Traits.Get(r, m)
		goes := spec.Leaving && !spec.Orphans
		return LeafGround{spec.Leaves, traits.Again, len(traits.Taints) > 0, goes, goes && spec.Forced}, ok
	}, d.In.Members)
	d.allGrounds = inc.IndexBy(d.LeafGrounds, func(model.Member, LeafGround) []model.All { return []model.All{{}} })
	d.leafStates = inc.IndexBy(d.In.LeafStates, func(k model.LeafID, _ model.LeafState) []model.Object { return []model.Object{k.Root} })
	roots := inc.IndexBy(d.Attachments, func(k model.Object, a Attachment) []model.Object {
		if !a.Leaf {
			return nil
		}
		return []model.Object{k}
	})
	d.Leafed = inc.Derive(g, "leafed", func(r *inc.Reader, k model.Object) (Leafed, bool) {
		a, ok := d.Attachments.Get(r, k)
		if !ok {
			return Leafed{}, false
		}
		if a.Attached {
			return d.leafedByGateways(r, k, a), true
		}
		return d.leafed(r, k, d.NamedBackends(r, k, a, a.Classes.List()[0])), true // others have one class
	}, roots)
}

// leafed chooses the members of a root's leaves: those that are part of one of its
// backends, as its Placement says where it has one. Where its backends have no member
// any more, though no Placement wants that, leaves stay where they are; and so does one
// in a member whose rows are missing, or that keeps its place.
func (d *program) leafed(r *inc.Reader, k model.Object, backends []model.Backend) Leafed {
	rows, grounds := make([]Backend, len(backends)), d.grounds(r)
	chosen, willed := map[model.Member]bool{}, false
	for i, b := range backends {
		rows[i], _ = d.Backends.Get(r, b)
		willed = willed || rows[i].Placing != nil && rows[i].Placing.Outside
		for _, m := range rows[i].Members {
			chosen[m] = chosen[m] || rows[i].Placing != nil || !grounds[m].tainted
		}
	}
	there := d.haveLeaf(r, k, grounds)
	keeps := d.hidden.Keys(r, model.All{})
	for _, row := range rows {
		if row.Placing != nil {
			keeps = append(slices.Clip(keeps), row.Placing.Held...)
		}
	}
	for _, m := range keeps {
		if there[m] {
			chosen[m] = true
		}
	}
	maps.DeleteFunc(chosen, func(m model.Member, is bool) bool {
		g, member := grounds[m]
		return !is || !member || g.again || g.leaving
	})
	if len(chosen) == 0 && !willed {
		chosen = there
	}
	members := slices.Sorted(maps.Keys(chosen))
	return Leafed{Members: members, Backends: backends, Lacking: incomplete(k, members, backends, rows), Maybe: d.maybeLeafed(r, grounds, members, rows)}
}

// maybeLeafed are the members that may have a leaf beside those that do: nobody knows
// whether they have one of the backends.
func (d *program) maybeLeafed(r *inc.Reader, grounds map[model.Member]LeafGround, members []model.Member, rows []Backend) (out steer.Unread) {
	add := func(m model.Member, row Missing) {
		_, has := slices.BinarySearch(members, m)
		if g, member := grounds[m]; !has && member && !g.again && !g.leaving {
			row.add(&out)
		}
	}
	anybody := false
	for _, row := range rows {
		if row.Placing == nil {
			anybody = true
			continue
		}
		for _, m := range row.Placing.Unknown {
			if missing, is := d.Missing.Get(r, m); is {
				add(m, missing)
			}
		}
	}
	if anybody {
		d.missing.Each(r, model.All{}, add)
	}
	return out
}

func (d *program) grounds(r *inc.Reader) map[model.Member]LeafGround {
	out := map[model.Member]LeafGround{}
	d.allGrounds.Each(r, model.All{}, func(m model.Member, g LeafGround) { out[m] = g })
	return out
}

// haveLeaf are the members that have a leaf of a root, as far as they told.
func (d *program) haveLeaf(r *inc.Reader, k model.Object, grounds map[model.Member]LeafGround) map[model.Member]bool {
	out := map[model.Member]bool{}
	d.leafStates.Each(r, k, func(id model.LeafID, s model.LeafState) {
		if g, member := grounds[id.Member]; member && s.There && !g.forced {
			out[id.Member] = true
		}
	})
	return out
}

// incomplete tells which Services that a leaf names its member does not have, though
// another one has them.
func incomplete(k model.Object, members []model.Member, backends []model.Backend, rows []Backend) model.Findings {
	n := model.Collector{Object: k, Once: true}
	for i, row := range rows {
		without := slices.DeleteFunc(slices.Clone(members), func(m model.Member) bool { return slices.Contains(row.Members, m) })
		if len(row.Members) > 0 && len(without) > 0 && len(without) < len(members) {
			n.Warning("spec", model.ReasonServiceNotFound, "%s of the leaf is not in every member that has a leaf: requests for it are refused by %s", backends[i].Described(), model.Few(texts(without)))
		}
	}
	return n.Findings()
}

func texts(members []model.Member) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = string(m)
	}
	return out
}
