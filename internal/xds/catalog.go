package xds

import (
	"slices"
	"time"
)

// catalog is what a group of streams sees: the union of some collections, and
// what its clients made of it. Where two collections have one name they have the
// same content: a name is there as long as one has it.
type catalog struct {
	*names
	parcels *parcels
	list    []*collection
	rollout rollout
	aliases aliases
	wide    [kinds]roster // the sessions that follow many names of a type, or all
	ahead   ahead         // where its sessions went last
	remade  uint64        // counts other lists
	open    []*collection // of the list; see opened
	weighed bool          // open is known
}

// everything is the name by which a wildcard subscription is made, and by
// which a view is asked whether it is held for a type as a whole.
const everything = "*"

// get returns what there is under a name. A name is in few collections, and a
// view may have very many.
func (c *catalog) get(k kind, id uint32) *resource {
	at := &c.of[k].rows[id]
	switch {
	case at.in == 0:
	case at.home != nil && at.home.isOf(c):
		return at.home.get(k, id)
	case at.home != nil && at.in == 1:
	default:
		for _, l := range c.list {
			if res := l.get(k, id); res != nil {
				return res
			}
		}
	}
	return c.aliases.get(k, id)
}

// published returns what is published under a name: no alias.
func (c *catalog) published(k kind, id uint32) *resource {
	if res := c.get(k, id); res != nil && res.source() == nil {
		return res
	}
	return nil
}

// endStep ends a step of a session: others are told what it decided.
func (c *catalog) endStep(now time.Time) {
	c.rollout.settle(now)
	c.sweep()
}

// opened are the collections by which a name that is absent may turn out to be
// there: few, of very many.
func (c *catalog) opened() []*collection {
	if !c.weighed {
		c.open, c.weighed = nil, true
		for _, l := range c.list {
			if l.open() {
				c.open = append(c.open, l)
			}
		}
	}
	return c.open
}

// isHeld tells whether nothing may be said to be absent under this name.
func (c *catalog) isHeld(k kind, name string) bool {
	return len(c.list) == 0 || c.isOpen(k, name) || slices.ContainsFunc(c.opened(), func(l *collection) bool { return l.isHeld(k, name) })
}

// isOpen tells whether a cluster or an assignment of this name may turn out to
// be there, since nobody is sure of its family's names.
func (c *catalog) isOpen(k kind, name string) bool {
	return (k == cluster || k == assignment) && c.doubtful() && c.doubts(c.family(name))
}

// family is that of a cluster or an assignment. It is asked only if some is
// doubtful.
func (c *catalog) family(name string) string { return c.list[0].family(name) }

// doubtful tells whether there is a family that nobody is sure of, and doubts
// whether this one is.
func (c *catalog) doubtful() bool {
	return slices.ContainsFunc(c.opened(), func(l *collection) bool { return len(l.families) > 0 })
}

func (c *catalog) doubts(family string) bool {
	return slices.ContainsFunc(c.opened(), func(l *collection) bool { return l.families[family] > 0 })
}

// present is how many resources of a type there are; of a name that two
// collections have, two.
func (c *catalog) present(k kind) (n int) {
	for _, l := range c.list {
		n += l.kinds[k].ids.count()
	}
	return n
}

func (c *catalog) generation() (n uint64) {
	for _, l := range c.list {
		n += l.generation
	}
	return n
}

// edition is what a catalog has: as long as it is the same, so is that.
type edition struct{ remade, generation uint64 }

func (c *catalog) edition() edition { return edition{c.remade, c.generation()} }

// before is what there was under a name before collection l had other content.
func (c *catalog) before(l *collection, at rowID, was *resource) *resource {
	if was != nil {
		return was
	}
	if in := c.of[at.kind].rows[at.id].in; in > 1 || in == 1 && l.get(at.kind, at.id) == nil {
		for _, each := range c.list {
			if each == l {
				continue
			}
			if res := each.get(at.kind, at.id); res != nil {
				return res
			}
		}
	}
	return c.aliases.get(at.kind, at.id)
}
