package xds

import "time"

// catalog is the content of one view, pure: per type, names with small ids
// and the resource behind each. An id stays as long as there is a resource
// or somebody counts on the name (ref, unref); then it is used again.
type catalog struct {
	tables     [kinds]table
	generation uint64 // counts publishes
	held       func(TypeURL, string) bool
	loose      []rowID // rows that lost their last count since the last sweep
	rollout    rollout
	aliases    aliases
	nameBytes  int // of the names that have a resource

	family   func(name string) string // of a cluster or an assignment; nil: there are none
	families map[string]int           // resources of each that are unsure of it; nil: none
	ended    bool                     // since the last publish some family is sure
}

type rowID struct {
	kind kind
	id   uint32
}

type table struct {
	ids     map[string]uint32
	rows    []row
	free    []uint32
	present int // rows with a resource
	bytes   int // of their bodies
}

type row struct {
	name string
	res  *resource
	refs int32 // of sessions and of other resources
}

// resource is a published Resource with its references by id, or an alias of
// one, which has a body only when it is sent.
type resource struct {
	*Resource
	refs   []rowID
	source *Resource // of an alias
}

// everything is the name by which a wildcard subscription is made, and by
// which a view is asked whether it is held for a type as a whole.
const everything = "*"

func (c *catalog) intern(k kind, name string) uint32 {
	t := &c.tables[k]
	if id, ok := t.ids[name]; ok {
		return id
	}
	if t.ids == nil {
		t.ids = map[string]uint32{}
	}
	id := uint32(len(t.rows))
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
		t.rows[id] = row{name: name}
	} else {
		t.rows = append(t.rows, row{name: name})
	}
	t.ids[name] = id
	return id
}

func (c *catalog) get(k kind, id uint32) *resource { return c.tables[k].rows[id].res }

func (c *catalog) name(k kind, id uint32) string { return c.tables[k].rows[id].name }

func (c *catalog) ref(k kind, id uint32) { c.tables[k].rows[id].refs++ }

func (c *catalog) unref(k kind, id uint32) {
	r := &c.tables[k].rows[id]
	r.refs--
	if r.refs < 0 {
		panic("xds: " + string(k.url()) + " " + r.name + " released more often than held")
	}
	if r.refs == 0 {
		c.loose = append(c.loose, rowID{k, id})
	}
}

// sweep gives back the ids that nobody counts on. Called at the end of a
// step, when no session has any state left for them.
func (c *catalog) sweep() {
	for _, l := range c.loose {
		t := &c.tables[l.kind]
		r := &t.rows[l.id]
		if r.refs > 0 || r.res != nil || r.name == "" {
			continue
		}
		delete(t.ids, r.name)
		*r = row{}
		t.free = append(t.free, l.id)
	}
	c.loose = c.loose[:0]
}

// endStep ends a step of a session: others are told what it decided.
func (c *catalog) endStep(now time.Time) {
	c.rollout.settle(now)
	c.sweep()
}

// isHeld tells whether nothing may be said to be absent under this name.
func (c *catalog) isHeld(k kind, name string) bool {
	return c.held != nil && c.held(k.url(), name) || c.isOpen(k, name)
}

// isOpen tells whether a cluster or an assignment of this name may turn out to
// be there, since nobody is sure of its family's names.
func (c *catalog) isOpen(k kind, name string) bool {
	return len(c.families) > 0 && (k == cluster || k == assignment) && c.families[c.family(name)] > 0
}

// count keeps the number of resources that are unsure of their family.
func (c *catalog) count(was, now *resource) {
	if now != nil && now.Family != "" {
		if c.families == nil {
			c.families = map[string]int{}
		}
		c.families[now.Family]++
	}
	if was == nil || was.Family == "" {
		return
	}
	if c.families[was.Family]--; c.families[was.Family] > 0 {
		return
	}
	delete(c.families, was.Family)
	c.ended = true
	if len(c.families) == 0 {
		c.families = nil
	}
}

// put applies one change and returns the row and the version it had, empty
// if it was absent. changed is false when nothing is different.
func (c *catalog) put(ch Change) (id rowID, old string, changed bool) {
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
	id = rowID{k, c.intern(k, ch.Name)}
	was := c.get(k, id.id)
	if was != nil {
		old = was.Version
	}
	if old == ch.Resource.Version && was.source == nil && was.Unsure == ch.Resource.Unsure && was.Family == ch.Resource.Family {
		return id, old, false
	}
	c.replace(id, was, c.resolve(ch.Resource))
	return id, old, true
}

func (c *catalog) delete(k kind, name string) (id rowID, old string, changed bool) {
	i, ok := c.tables[k].ids[name]
	if !ok {
		return rowID{}, "", false
	}
	id = rowID{k, i}
	was := c.get(k, i)
	if was == nil || was.source != nil {
		return id, "", false
	}
	c.replace(id, was, nil)
	c.loose = append(c.loose, id)
	return id, was.Version, true
}

func (c *catalog) resolve(r *Resource) *resource {
	out := &resource{Resource: r}
	for _, ref := range r.Refs {
		k, ok := kindOf[ref.Type]
		if !ok {
			continue
		}
		id := c.intern(k, ref.Name)
		c.ref(k, id)
		out.refs = append(out.refs, rowID{k, id})
	}
	return out
}

func (c *catalog) replace(id rowID, was, now *resource) {
	t := &c.tables[id.kind]
	t.rows[id.id].res = now
	c.count(was, now)
	if was == nil || now == nil || was.Version != now.Version {
		c.rollout.changed(id, now)
	}
	name := len(t.rows[id.id].name)
	if was != nil {
		c.nameBytes -= name
		t.present--
		t.bytes -= len(was.Body)
		for _, r := range was.refs {
			c.unref(r.kind, r.id)
		}
	}
	if now != nil {
		c.nameBytes += name
		t.present++
		t.bytes += len(now.Body)
	}
}
