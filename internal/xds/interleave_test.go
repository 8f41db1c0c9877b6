package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/model"
)

// world is one session, what follows it, and views over a domain so small that
// changes collide. Whoever follows, the same things happen to it.
//
// Each view has a collection of its own, and one that both may have. What both
// views have alike is in either, or in both.
type world struct {
	t        *rapid.T
	now      time.Time
	store    *Store
	desired  [2]map[Ref]*Resource // by view
	parts    [3]map[Ref]*Resource // what the collections have: the views' own, and the shared one
	lists    [2][]string
	member   *member
	current  int
	session  *Session
	follower follower
	version  int
	held     map[TypeURL]bool
	moved    map[string]bool // scopes that went with their collection
	bad      bool
}

// follower is a strict client, and the messages between it and the session.
type follower interface {
	open() *Session          // on both sides: nothing is on its way
	waiting() (up, down int) // messages
	up()                     // moves one to the session
	down()                   // moves one to the client
	send()                   // takes what the session has to say
	whim()                   // what the client does by itself
	inSync()                 // checks that the client ends with what the view has
}

const domain = 3 // names of each type

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(0, 0), store: NewStore(), held: map[TypeURL]bool{}, moved: map[string]bool{}, bad: rapid.Bool().Draw(t, "bad")}
	w.store.now = func() time.Time { return w.now }
	for i := range w.desired {
		w.desired[i] = map[Ref]*Resource{}
	}
	w.publish()
	return w
}

// sharedPart is the collection that both views may have; own is that of one.
const sharedPart = 2

func partName(i int) string { return [...]string{"own 0", "own 1", "shared"}[i] }

func viewName(i int) string { return fmt.Sprint("v", i) }

func (w *world) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

func (w *world) pick(n int) int { return w.draw("pick", n) }

func (w *world) isHeld(u TypeURL) bool { return w.held[u] }

func (w *world) reconnect() {
	w.leave()
	w.t.Logf("reconnect")
	w.session = w.follower.open()
	w.forgets()
	w.member, _ = newMember(w.session)
	w.follow()
}

func (w *world) leave() {
	if w.member != nil {
		w.store.leave(w.member)
	}
}

// follow has the session follow the current view, among others or alone.
func (w *world) follow() {
	w.store.follow(w.member, viewName(w.current), fmt.Sprint("edge ", w.draw("edge", 2)))
}

func (w *world) next() string {
	w.version++
	if w.bad && w.draw("spoil", 6) == 0 {
		return fmt.Sprintf("bad%d", w.version)
	}
	return fmt.Sprintf("v%d", w.version)
}

// edit changes the desired state so that it stays consistent: routes use
// clusters that exist, listeners and scopes routes that exist.
func (w *world) edit(d map[Ref]*Resource) {
	name := fmt.Sprintf("n%d", w.draw("name", domain))
	some := func(t TypeURL) (refs []Ref) {
		for i := range domain {
			if ref := (Ref{Type: t, Name: fmt.Sprintf("n%d", i)}); d[ref] != nil && w.draw("use", 2) == 0 {
				refs = append(refs, ref)
			}
		}
		return refs
	}
	set := func(t TypeURL, refs ...Ref) {
		d[Ref{Type: t, Name: name}] = &Resource{Name: name, Version: w.next(), Body: model.BodyOf(nil, refs...)}
	}
	switch w.draw("edit", 8) {
	case 0, 1:
		set(Cluster, Ref{Type: ClusterLoadAssignment, Name: name})
		if d[Ref{Type: ClusterLoadAssignment, Name: name}] == nil {
			set(ClusterLoadAssignment)
		}
	case 2:
		if d[Ref{Type: Cluster, Name: name}] != nil {
			set(ClusterLoadAssignment)
		}
	case 3, 4:
		set(RouteConfiguration, some(Cluster)...)
	case 5:
		set(Listener, append(some(RouteConfiguration), some(ScopedRoute)...)...)
	case 6:
		set(ScopedRoute, some(RouteConfiguration)...)
	case 7:
		w.withdraw(d, [...]TypeURL{Cluster, RouteConfiguration, Listener, ScopedRoute}[w.draw("kind", 4)], name)
	}
}

// withdraw deletes a resource and takes it out of what uses it.
func (w *world) withdraw(d map[Ref]*Resource, t TypeURL, name string) {
	gone := Ref{Type: t, Name: name}
	delete(d, gone)
	if t == Cluster {
		delete(d, Ref{Type: ClusterLoadAssignment, Name: name})
	}
	for i := range domain {
		for _, u := range [...]TypeURL{RouteConfiguration, Listener, ScopedRoute} {
			at := Ref{Type: u, Name: fmt.Sprintf("n%d", i)}
			if d[at] == nil {
				continue
			}
			var kept []Ref
			for _, r := range d[at].Refs() {
				if r != gone {
					kept = append(kept, r)
				}
			}
			if len(kept) != len(d[at].Refs()) {
				d[at] = &Resource{Name: at.Name, Version: w.next(), Body: model.BodyOf(nil, kept...)}
			}
		}
	}
}

// publish brings the views to the desired state in one step.
func (w *world) publish() {
	before := w.content(w.current)
	w.lists = [2][]string{{partName(0)}, {partName(1)}}
	var has [2]bool // the shared collection
	for i := range w.lists {
		if has[i] = w.draw("shares", 3) > 0; has[i] {
			w.lists[i] = append(w.lists[i], partName(sharedPart))
		}
		if w.draw("order", 2) == 0 {
			slices.Reverse(w.lists[i])
		}
	}
	parts := [3]map[Ref]*Resource{{}, {}, {}}
	for _, k := range order {
		for n := range domain {
			w.place(&parts, has, Ref{Type: k.url(), Name: fmt.Sprintf("n%d", n)})
		}
	}
	var c Commit
	for i := range parts {
		content := Content{Collection: partName(i), Held: func(t TypeURL, _ string) bool { return w.held[t] }}
		for _, k := range order {
			for n := range domain {
				ref := Ref{Type: k.url(), Name: fmt.Sprintf("n%d", n)}
				if w.parts[i][ref] != parts[i][ref] {
					w.t.Logf("%s: %s %s %+v", partName(i), shortOf(ref.Type), ref.Name, parts[i][ref])
					content.Changes = append(content.Changes, Change{ref.Type, ref.Name, parts[i][ref]})
				}
			}
		}
		if len(content.Changes) > 0 || w.parts[i] == nil {
			c.Contents = append(c.Contents, content)
		}
	}
	for i, list := range w.lists {
		c.Views = append(c.Views, ViewOf{viewName(i), list})
	}
	w.t.Logf("views %v", w.lists)
	w.parts = parts
	w.goes(before, w.content(w.current))
	w.store.few = w.draw("few", 2) * domain
	w.store.Commit(c)
}

// place puts what the views should have under a name into collections.
func (w *world) place(parts *[3]map[Ref]*Resource, has [2]bool, ref Ref) {
	a, b := w.desired[0][ref], w.desired[1][ref]
	own := [2]bool{a != nil, b != nil}
	alike := (a == b || !has[0] || !has[1]) && (has[0] && a != nil || has[1] && b != nil)
	if alike && w.draw("shared", 2) == 0 {
		parts[sharedPart][ref] = a
		if !has[0] || a == nil {
			parts[sharedPart][ref] = b
		}
		for i := range own {
			own[i] = own[i] && (!has[i] || w.draw("both", 3) == 0)
		}
	}
	for i := range own {
		if own[i] {
			parts[i][ref] = w.desired[i][ref]
		}
	}
}

// deliver moves one message, if there is one, in a random direction.
func (w *world) deliver() bool {
	switch up, down := w.follower.waiting(); {
	case up > 0 && (down == 0 || w.draw("direction", 2) == 0):
		w.follower.up()
	case down > 0:
		w.follower.down()
	default:
		return false
	}
	w.follower.send()
	return true
}

func said(rs []*Resource) (out []string) {
	for _, r := range rs {
		out = append(out, fmt.Sprint(r.Name, "@", r.Version, r.Refs()))
	}
	return out
}

func (w *world) step() {
	switch w.draw("step", 14) {
	case 0, 1, 2:
		w.change()
	case 3:
		w.now = w.now.Add(time.Duration(w.draw("tick", 30)) * 100 * time.Millisecond)
	case 4:
		if w.draw("often", 4) == 0 {
			w.reconnect()
		}
	case 5:
		if w.draw("often", 4) == 0 {
			w.held = map[TypeURL]bool{}
			if w.draw("hold", 2) == 0 {
				w.held = map[TypeURL]bool{Cluster: true, ClusterLoadAssignment: true, RouteConfiguration: true, Listener: true}
			}
			w.reconnect() // what is on its way would be blamed on the hold
		}
	case 6:
		if w.draw("often", 4) == 0 {
			before := w.content(w.current)
			w.current = 1 - w.current
			w.goes(before, w.content(w.current))
			w.t.Logf("move to view %d", w.current)
			w.follow()
		}
	case 7:
		w.follower.whim()
	default:
		w.deliver()
	}
	w.follower.send()
	if why := w.session.violated(); why != "" {
		w.t.Fatal(why)
	}
}

// change edits a view, mostly that which the session follows, or has both be
// the same.
func (w *world) change() {
	i := w.current
	switch w.draw("which", 6) {
	case 0:
		i = 1 - i
	case 1:
		w.desired[1-i] = maps.Clone(w.desired[i])
	}
	for range 1 + w.draw("edits", 3) {
		w.edit(w.desired[i])
	}
	w.publish()
}

// settle delivers everything and lets all waits end.
func (w *world) settle() {
	if len(w.held) > 0 {
		w.held = map[TypeURL]bool{}
		w.session.rehold()
	}
	w.follower.send()
	for range 200 {
		for w.deliver() {
		}
		w.nothingForgotten()
		next, timed := w.session.Deadline()
		if !timed && w.session.Quiet() {
			w.nothingKept()
			return
		}
		if timed && next.After(w.now) {
			w.now = next
		}
		w.follower.send()
	}
	w.t.Fatalf("does not come to rest: %+v", w.session.status())
}

// nothingForgotten: whatever waits for clusters lacks one still. Time alone
// would send it, but only after the longest wait.
func (w *world) nothingForgotten() {
	for _, k := range gatedKinds {
		for id := range w.session.topics[k].gated {
			if res := w.session.content.get(k, id); res != nil && w.session.allUsable(res) && (k != listener || w.session.surveyed && !w.session.awaitsHosts()) {
				w.t.Fatalf("%s %s waits for what is there", shortOf(k.url()), res.Name)
			}
		}
	}
}

// nothingKept: an empty map is no map, whatever was in it.
func (w *world) nothingKept() {
	for k := range w.session.topics {
		t := &w.session.topics[k]
		empty := len(t.gated) == 0 && t.gated != nil || t.stale != nil && !t.stale.ids.any() || len(t.unknown) == 0 && t.unknown != nil ||
			len(t.leaving) == 0 && t.leaving != nil || len(t.released) == 0 && t.released != nil || len(t.quarantine) == 0 && t.quarantine != nil
		if empty {
			w.t.Fatalf("%s keeps an empty map", shortOf(kind(k).url()))
		}
	}
}

// nobodyCounted: names are counted by who follows them, and nobody does any more.
func (w *world) nobodyCounted() {
	want := map[rowID]int32{}
	for _, c := range w.store.collections {
		for k := range c.kinds {
			c.kinds[k].ids.each(func(id uint32) bool {
				want[rowID{kind(k), id}]++
				for _, ref := range c.get(kind(k), id).refs() {
					want[ref]++
				}
				return true
			})
		}
		if len(c.groups) > 0 {
			w.t.Fatalf("%s has groups without members", c.id)
		}
	}
	for k := range w.store.names.of {
		t := &w.store.names.of[k]
		if len(t.few) > 0 {
			w.t.Fatalf("%v are looked up for nobody", t.few)
		}
		for id, r := range t.rows {
			if r.refs != want[rowID{kind(k), uint32(id)}] {
				w.t.Fatalf("%s %s is counted %d times, want %d", kind(k).url(), r.name, r.refs, want[rowID{kind(k), uint32(id)}])
			}
		}
	}
}

func isBad(r *Resource) bool { return r != nil && strings.HasPrefix(r.Version, "bad") }

// interleave lets things happen in any order, then lets all come to rest.
func interleave(t *testing.T, follow func(*world) follower) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.follower = follow(w)
		w.reconnect()
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.step()
		}
		w.settle()
		w.follower.inSync()
		w.leave()
		w.nobodyCounted()
	})
}
