package xds

import "slices"

// collection is a set of resources, by the ids of their names: what several
// groups of streams have in common is kept once. It costs what it has, not what
// the store has.
type collection struct {
	id         string
	names      *names
	kinds      [kinds]sparse[*resource]
	generation uint64 // counts publishes
	gone       bool   // the store has none of this id, or another one
	published  bool   // until then nothing is known to be absent
	held       func(TypeURL, string) bool
	groups     []*group // that have it among theirs

	family   func(name string) string // of a cluster or an assignment; nil: there are none
	families map[string]int           // resources of each that are unsure of it; nil: none
	ended    bool                     // in this commit some family has become sure
}

// resource is a published Resource with its references by id, or an alias of
// one, which has a body only when it is sent.
type resource struct {
	*Resource
	ref [1]rowID // the only one that it has, or nowhere
	far *far     // nil: there is nothing of that
}

// far is what few resources have: several references, or what they are an alias of.
type far struct {
	refs   []rowID
	source *Resource
}

// nowhere is what a resource refers to that refers to nothing, or to several.
var nowhere = rowID{kind: kinds}

// refs is what it refers to.
func (r *resource) refs() []rowID {
	switch {
	case r.far != nil:
		return r.far.refs
	case r.ref[0] == nowhere:
		return nil
	}
	return r.ref[:]
}

// source is what an alias is one of; nil: it is none.
func (r *resource) source() *Resource {
	if r.far == nil {
		return nil
	}
	return r.far.source
}

// isOf tells whether a catalog has it.
func (c *collection) isOf(of *catalog) bool {
	if len(c.groups) < len(of.list) {
		return slices.ContainsFunc(c.groups, func(g *group) bool { return &g.content == of })
	}
	return slices.Contains(of.list, c)
}

func (c *collection) get(k kind, id uint32) *resource { return c.kinds[k].at(id) }

// isHeld tells whether nothing may be said to be absent under this name.
func (c *collection) isHeld(k kind, name string) bool {
	return !c.published || c.held != nil && c.held(k.url(), name)
}

// open tells whether it may hold some name, or is unsure of a family.
func (c *collection) open() bool { return !c.published || c.held != nil || len(c.families) > 0 }

// put applies one change and returns the row and what it had. changed is false
// when nothing is different.
func (c *collection) put(ch Change) (id rowID, was *resource, changed bool) {
	k, ok := kindOf[ch.Type]
	if !ok {
		panic("xds: no such type: " + string(ch.Type))
	}
	if ch.Resource == nil {
		return c.delete(k, ch.Name)
	}
	if ch.Resource.Version == "" || ch.Name == "" || ch.Name == everything {
		panic("xds: a resource needs a name and a version: " + string(ch.Type) + " " + ch.Name)
	}
	id = rowID{k, c.names.intern(k, ch.Name)}
	was = c.get(k, id.id)
	if was.same(ch.Resource) {
		return id, was, false
	}
	c.replace(id, was, c.resolve(ch.Resource))
	return id, was, true
}

// same tells whether a resource is as good as another one to whoever has it.
func (r *resource) same(now *Resource) bool {
	return r != nil && r.Version == now.Version && r.Unsure() == now.Unsure() && r.Family() == now.Family()
}

func (c *collection) delete(k kind, name string) (id rowID, was *resource, changed bool) {
	i, ok := c.names.find(k, name)
	if !ok {
		return rowID{}, nil, false
	}
	id = rowID{k, i}
	if was = c.get(k, i); was == nil {
		return id, nil, false
	}
	c.replace(id, was, nil)
	return id, was, true
}

func (c *collection) resolve(r *Resource) *resource {
	var refs []rowID
	for _, ref := range r.Refs() {
		if k, ok := kindOf[ref.Type]; ok {
			id := c.names.intern(k, ref.Name)
			c.names.ref(k, id)
			refs = append(refs, rowID{k, id})
		}
	}
	out := &resource{Resource: r, ref: [1]rowID{nowhere}}
	switch len(refs) {
	case 0:
	case 1:
		out.ref[0] = refs[0]
	default:
		out.far = &far{refs: refs}
	}
	return out
}

func (c *collection) replace(id rowID, was, now *resource) {
	if now != nil {
		c.kinds[id.kind].put(id.id, now)
	} else {
		c.kinds[id.kind].drop(id.id)
	}
	c.count(was, now)
	if was == nil {
		c.names.enter(id.kind, id.id, c)
	} else if now == nil {
		c.names.exit(id.kind, id.id, c)
	}
	if now != nil {
		c.names.ref(id.kind, id.id)
	}
	if was != nil {
		c.names.unref(id.kind, id.id)
		for _, r := range was.refs() {
			c.names.unref(r.kind, r.id)
		}
	}
}

// count keeps the number of resources that are unsure of their family.
func (c *collection) count(was, now *resource) {
	begins, ends := now.familyOf(), was.familyOf()
	if begins != "" {
		if c.families == nil {
			c.families = map[string]int{}
		}
		c.families[begins]++
	}
	if ends == "" {
		return
	}
	if c.families[ends]--; c.families[ends] > 0 {
		return
	}
	delete(c.families, ends)
	c.ended = true
	if len(c.families) == 0 {
		c.families = nil
	}
}

// familyOf is the family that a resource is unsure of, if there is one.
func (r *resource) familyOf() string {
	if r == nil {
		return ""
	}
	return r.Family()
}

// release gives back what it counts on: it is gone, and nobody reads it.
func (c *collection) release() {
	for k := range c.kinds {
		c.kinds[k].ids.each(func(id uint32) bool {
			c.replace(rowID{kind(k), id}, c.get(kind(k), id), nil)
			return true
		})
	}
	c.names.sweep()
}
