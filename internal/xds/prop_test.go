package xds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is one session, one strict Envoy, the messages between them, and
// views over a domain so small that changes collide.
type world struct {
	t        *rapid.T
	now      time.Time
	views    [2]*catalog
	desired  [2]map[Ref]*Resource
	current  int
	session  *Session
	client   *envoyModel
	toClient []Response
	version  int
	held     map[TypeURL]bool
	bad      bool
}

const domain = 3 // names of each type

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(0, 0), held: map[TypeURL]bool{}, bad: rapid.Bool().Draw(t, "bad")}
	isHeld := func(u TypeURL) bool { return w.held[u] }
	for i := range w.views {
		w.views[i] = &catalog{held: func(u TypeURL, _ string) bool { return w.held[u] }}
		w.desired[i] = map[Ref]*Resource{}
	}
	w.client = newEnvoyModel(func(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "pick") }, isHeld)
	w.reconnect()
	return w
}

func (w *world) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

func (w *world) reconnect() {
	if w.session != nil {
		w.session.Attach(w.now, &catalog{})
	}
	w.session = NewSession(Limits{ResponseBytes: 60, GateTimeout: time.Hour, Resume: time.Hour})
	w.session.Attach(w.now, w.views[w.current])
	w.toClient = nil
	w.t.Logf("reconnect")
	w.client.connect()
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
	up, down := len(w.client.out) > 0, len(w.toClient) > 0
	switch {
	case up && (!down || w.draw("direction", 2) == 0):
		r := w.client.out[0]
		w.client.out = w.client.out[1:]
		w.t.Logf("up   %s +%v -%v has %v nonce %s %s", shortOf(r.Type), r.Subscribe, r.Unsubscribe, r.Initial, r.Nonce, r.Error)
		if err := w.session.Request(w.now, r); err != nil {
			w.t.Fatal(err)
		}
	case down:
		r := w.toClient[0]
		w.toClient = w.toClient[1:]
		w.t.Logf("down %s nonce %s %s -%v", shortOf(r.Type), r.Nonce, names(r.Resources), r.Removed)
		if err := w.client.receive(r); err != nil {
			w.t.Fatal(err)
		}
		w.routesServe()
	default:
		return false
	}
	w.send()
	return true
}

func names(rs []*Resource) (out []string) {
	for _, r := range rs {
		out = append(out, fmt.Sprint(r.Name, "@", r.Version, r.Refs))
	}
	return out
}

func (w *world) send() {
	w.toClient = append(w.toClient, w.session.Ready(w.now)...)
	w.session.Verdicts()
	flights := 0
	for k := range w.session.topics {
		if w.session.topics[k].flight != nil {
			flights++
		}
	}
	if len(w.toClient) > flights {
		w.t.Fatalf("%d responses on the way, %d unanswered", len(w.toClient), flights)
	}
}

// routesServe: at every moment, every route the client has leads to clusters
// it has, warm.
func (w *world) routesServe() {
	for _, rc := range w.client.have[routes] {
		if err := w.client.usable(rc); err != nil {
			w.t.Fatal(err)
		}
	}
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
			w.toClient = nil // a removal on its way would be blamed on the hold
			w.reconnect()
		}
	case 6:
		if w.draw("often", 4) == 0 {
			w.current = 1 - w.current
			w.t.Logf("move to view %d", w.current)
			w.session.Attach(w.now, w.views[w.current])
		}
	default:
		w.deliver()
	}
	w.send()
}

// settle delivers everything and lets all waits end.
func (w *world) settle() {
	if len(w.held) > 0 {
		w.held = map[TypeURL]bool{}
		w.session.rehold()
	}
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
		w.send()
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

func isBad(r *Resource) bool { return r != nil && strings.HasPrefix(r.Version, "bad") }

// inSync: the client has what the view has, apart from what it rejected.
func (w *world) inSync() {
	view := w.views[w.current]
	for _, k := range order {
		for n := range domain {
			name := fmt.Sprintf("n%d", n)
			if !wildcards[k] && !w.client.sub[k][name] {
				continue
			}
			want, have := w.desired[w.current][Ref{k.url(), name}], w.client.have[k][name]
			if want != nil && view.get(k, view.tables[k].ids[name]).Version != want.Version {
				w.t.Fatal("the view is not what was published")
			}
			rejected := isBad(want)
			switch {
			case rejected && (have == nil || have.Version != want.Version):
			case want == nil && have == nil:
			case want == nil && w.oldCopy(k): // stays as long as a rejected user's old copy does
			case want == nil && k == assignment: // kept by Envoy as long as its cluster is there
			case want == nil || have == nil || want.Version != have.Version:
				w.t.Fatalf("%s %s: the client has %+v, the view %+v", shortOf(k.url()), name, have, want)
			}
		}
	}
	for name := range w.client.warming {
		if a := w.desired[w.current][Ref{ClusterLoadAssignment, name}]; a != nil && !isBad(a) {
			w.t.Fatalf("cluster %s is left warming", name)
		}
	}
}

// oldCopy tells whether the client may keep an old copy of something that uses
// resources of a kind, because it rejected the new one.
func (w *world) oldCopy(k kind) bool {
	for _, u := range removals[k] {
		t := &w.session.topics[u]
		for id := range t.quarantine {
			if t.has.has(id) {
				return true
			}
		}
		old := false
		w.session.content.rollout.refused[u].each(func(id uint32) bool {
			old = t.has.has(id)
			return !old
		})
		if old {
			return true
		}
	}
	return false
}

// TestInterleavings: whatever is published, lost, rejected, reconnected, held
// or moved, and in whatever order messages cross, the client ends equal to the
// view, is never left with a route to a cluster it lacks, never sent what it
// has and never told that a held name is gone.
func TestInterleavings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.step()
		}
		w.settle()
		w.inSync()
		w.session.Attach(w.now, &catalog{})
		for i, v := range w.views {
			for k := range v.tables {
				for _, r := range v.tables[k].rows {
					if r.name != "" && r.res == nil && r.refs != 0 {
						t.Fatalf("view %d counts %s %s, which nobody follows", i, kind(k).url(), r.name)
					}
				}
			}
		}
	})
}
