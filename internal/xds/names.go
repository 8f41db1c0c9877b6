package xds

// names gives the names of all resources of a store small numbers, by type. An
// id stays as long as somebody counts on the name: a collection that has a
// resource of it, a resource that uses it, or a session. Then it is used again.
type names struct {
	of    [kinds]nameTable
	loose []rowID // that lost their last count since the last sweep
}

// rowID is a name of a type.
type rowID struct {
	kind kind
	id   uint32
}

type nameTable struct {
	ids  map[string]uint32
	rows []nameRow
	free []uint32
	few  map[uint32][]*Session // who subscribes to a name and to few others: see roster
}

type nameRow struct {
	name string
	refs int32
	in   int32       // collections that have a resource of it
	home *collection // one of those; nil: none, or not known
}

// enter and exit keep in which collections there is a resource of a name.
func (n *names) enter(k kind, id uint32, c *collection) {
	r := &n.of[k].rows[id]
	r.in++
	r.home = c
}

func (n *names) exit(k kind, id uint32, c *collection) {
	r := &n.of[k].rows[id]
	if r.in--; r.home == c {
		r.home = nil
	}
}

func (n *names) intern(k kind, name string) uint32 {
	t := &n.of[k]
	if id, ok := t.ids[name]; ok {
		return id
	}
	if t.ids == nil {
		t.ids = map[string]uint32{}
	}
	id := uint32(len(t.rows))
	if last := len(t.free) - 1; last >= 0 {
		id, t.free = t.free[last], t.free[:last]
		t.rows[id] = nameRow{name: name}
	} else {
		t.rows = append(t.rows, nameRow{name: name})
	}
	t.ids[name] = id
	return id
}

// find is the id of a name that somebody counts on.
func (n *names) find(k kind, name string) (id uint32, ok bool) {
	id, ok = n.of[k].ids[name]
	return id, ok
}

func (n *names) name(k kind, id uint32) string { return n.of[k].rows[id].name }

// size is a number that is greater than all ids of a type.
func (n *names) size(k kind) int { return len(n.of[k].rows) }

func (n *names) ref(k kind, id uint32) { n.of[k].rows[id].refs++ }

func (n *names) unref(k kind, id uint32) {
	r := &n.of[k].rows[id]
	r.refs--
	if r.refs < 0 {
		panic("xds: " + string(k.url()) + " " + r.name + " released more often than held")
	}
	if r.refs == 0 {
		n.loose = append(n.loose, rowID{k, id})
	}
}

// sweep gives back the ids that nobody counts on. Called at the end of a step,
// when no session has any state left for them.
func (n *names) sweep() {
	for _, l := range n.loose {
		t := &n.of[l.kind]
		r := &t.rows[l.id]
		if r.refs > 0 || r.name == "" {
			continue
		}
		delete(t.ids, r.name)
		*r = nameRow{}
		t.free = append(t.free, l.id)
	}
	n.loose = n.loose[:0]
}
