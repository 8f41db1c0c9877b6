package xds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is one session, what follows it, and views over a domain so small that
// changes collide. Whoever follows, the same things happen to it.
type world struct {
	t        *rapid.T
	now      time.Time
	views    [2]*catalog
	desired  [2]map[Ref]*Resource
	current  int
	session  *Session
	follower follower
	version  int
	held     map[TypeURL]bool
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
	w := &world{t: t, now: time.Unix(0, 0), held: map[TypeURL]bool{}, bad: rapid.Bool().Draw(t, "bad")}
	for i := range w.views {
		w.views[i] = &catalog{held: func(u TypeURL, _ string) bool { return w.held[u] }}
		w.desired[i] = map[Ref]*Resource{}
	}
	return w
}

func (w *world) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

func (w *world) pick(n int) int { return w.draw("pick", n) }

func (w *world) isHeld(u TypeURL) bool { return w.held[u] }

func (w *world) reconnect() {
	if w.session != nil {
		w.session.Attach(w.now, &catalog{})
	}
	w.t.Logf("reconnect")
	w.session = w.follower.open()
	w.session.Attach(w.now, w.views[w.current])
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
			if ref := (Ref{t, fmt.Sprintf("n%d", i)}); d[ref] != nil && w.draw("use", 2) == 0 {
				refs = append(refs, ref)
			}
		}
		return refs
	}
	set := func(t TypeURL, refs ...Ref) {
		d[Ref{t, name}] = &Resource{Name: name, Version: w.next(), Refs: refs}
	}
	switch w.draw("edit", 8) {
	case 0, 1:
		set(Cluster, Ref{ClusterLoadAssignment, name})
		if d[Ref{ClusterLoadAssignment, name}] == nil {
			set(ClusterLoadAssignment)
		}
	case 2:
		if d[Ref{Cluster, name}] != nil {
			set(ClusterLoadAssignment)
		}
	case 3, 4:
		set(RouteConfiguration, some(Cluster)...)
	case 5:
		set(Listener, some(RouteConfiguration)...)
	case 6:
		set(ScopedRoute, some(RouteConfiguration)...)
	case 7:
		w.withdraw(d, [...]TypeURL{Cluster, RouteConfiguration, Listener, ScopedRoute}[w.draw("kind", 4)], name)
	}
}

// withdraw deletes a resource and takes it out of what uses it.
func (w *world) withdraw(d map[Ref]*Resource, t TypeURL, name string) {
	gone := Ref{t, name}
	delete(d, gone)
	if t == Cluster {
		delete(d, Ref{ClusterLoadAssignment, name})
	}
	for i := range domain {
		for _, u := range [...]TypeURL{RouteConfiguration, Listener, ScopedRoute} {
			at := Ref{u, fmt.Sprintf("n%d", i)}
			if d[at] == nil {
				continue
			}
			var kept []Ref
			for _, r := range d[at].Refs {
				if r != gone {
					kept = append(kept, r)
				}
			}
			if len(kept) != len(d[at].Refs) {
				d[at] = &Resource{Name: at.Name, Version: w.next(), Refs: kept}
			}
		}
	}
}

// publish brings a view to the desired state in one step.
func (w *world) publish(i int) {
	var rows []rowID
	var olds []string
	for _, k := range order {
		for n := range domain {
			ref := Ref{k.url(), fmt.Sprintf("n%d", n)}
			if row, old, changed := w.views[i].put(Change{ref.Type, ref.Name, w.desired[i][ref]}); changed {
				w.t.Logf("view %d: %s %s %+v", i, shortOf(ref.Type), ref.Name, w.desired[i][ref])
				rows, olds = append(rows, row), append(olds, old)
			}
		}
	}
	if i == w.current {
		hurry := w.draw("hurry", 2) == 0
		for j := range rows {
			w.session.mark(w.now, rows[j], olds[j])
			if hurry {
				w.session.hurry(rows[j])
			}
		}
	}
	w.views[i].sweep()
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

func names(rs []*Resource) (out []string) {
	for _, r := range rs {
		out = append(out, fmt.Sprint(r.Name, "@", r.Version, r.Refs))
	}
	return out
}

func (w *world) step() {
	switch w.draw("step", 14) {
	case 0, 1, 2:
		for range 1 + w.draw("edits", 3) {
			w.edit(w.desired[w.current])
		}
		w.publish(w.current)
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
			w.current = 1 - w.current
			w.t.Logf("move to view %d", w.current)
			w.session.Attach(w.now, w.views[w.current])
		}
	case 7:
		w.follower.whim()
	default:
		w.deliver()
	}
	w.follower.send()
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
			if res := w.session.content.get(k, id); res != nil && w.session.allUsable(res) {
				w.t.Fatalf("%s %s waits for what is there", shortOf(k.url()), res.Name)
			}
		}
	}
}

// nothingKept: an empty map is no map, whatever was in it.
func (w *world) nothingKept() {
	for k := range w.session.topics {
		t := &w.session.topics[k]
		empty := len(t.gated) == 0 && t.gated != nil || len(t.stale) == 0 && t.stale != nil || len(t.unknown) == 0 && t.unknown != nil ||
			len(t.leaving) == 0 && t.leaving != nil || len(t.released) == 0 && t.released != nil || len(t.quarantine) == 0 && t.quarantine != nil
		if empty {
			w.t.Fatalf("%s keeps an empty map", shortOf(kind(k).url()))
		}
	}
}

// nobodyCounted: views count who follows a row, and nobody does any more.
func (w *world) nobodyCounted() {
	for i, v := range w.views {
		for k := range v.tables {
			for _, r := range v.tables[k].rows {
				if r.name != "" && r.res == nil && r.refs != 0 {
					w.t.Fatalf("view %d counts %s %s, which nobody follows", i, kind(k).url(), r.name)
				}
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
		if w.draw("end", 2) == 0 {
			w.session.Attach(w.now, &catalog{})
		}
		for w.session.vacate(2) {
		}
		w.nobodyCounted()
	})
}
