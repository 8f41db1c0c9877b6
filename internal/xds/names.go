package xds

// names gives the names of all resources of a store small numbers, by type. An
// id stays as long as somebody counts on the name: a collection that has a
// resource of it, a resource that uses it, or a session. Then it is used again.
type names struct {
	of    [kinds]nameTable
	loose []rowID // that lost their last count since the last sweep

	purses map[string]*purse // of identities that brought names
}

// purse is what the names cost that an identity brought and that no collection
// has: in all its streams each once, and until nobody counts on them any more.
type purse struct {
	of   string
	cost int // bytes
}

// nameCost is what a name costs besides its bytes: its row, its place in the map
// of ids, and what allocation adds.
const nameCost = 128

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
	by   *purse      // that pays for it; nil: it is or was in a collection, or used by one
}

// enter and exit keep in which collections there is a resource of a name.
func (n *names) enter(k kind, id uint32, c *collection) {
	r := &n.of[k].rows[id]
	r.in++
	r.home = c
	n.acquit(r)
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

// bring is intern for a client: a new name is at its expense.
func (n *names) bring(k kind, name, identity string) uint32 {
	if id, ok := n.find(k, name); ok {
		return id
	}
	id := n.intern(k, name)
	p := n.purses[identity]
	if p == nil {
		p = &purse{of: identity}
		if n.purses == nil {
			n.purses = map[string]*purse{}
		}
		n.purses[identity] = p
	}
	p.cost += nameCost + len(name)
	n.of[k].rows[id].by = p
	return id
}

// acquit has nobody pay for a name any more.
func (n *names) acquit(r *nameRow) {
	if r.by == nil {
		return
	}
	if r.by.cost -= nameCost + len(r.name); r.by.cost == 0 {
		delete(n.purses, r.by.of)
	}
	r.by = nil
}

// brought is what an identity pays.
func (n *names) brought(identity string) int {
	if p := n.purses[identity]; p != nil {
		return p.cost
	}
	return 0
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
		n.acquit(r)
		delete(t.ids, r.name)
		*r = nameRow{}
		t.free = append(t.free, l.id)
	}
	n.loose = n.loose[:0]
}
