package xds

import (
	"fmt"
	"testing"
	"time"
)

// envoyFollower is a strict Envoy that follows a world.
type envoyFollower struct {
	*world
	client   *envoyModel
	toClient []Response
}

func (w *envoyFollower) open() *Session {
	w.toClient = nil
	w.client.connect()
	s := NewSession(Limits{ResponseBytes: 60, GateTimeout: time.Hour, Resume: time.Hour, Drain: drainTime})
	s.looks = [...]int{1, 3, looksAtOnce}[w.pick(3)]
	return s
}

func (w *envoyFollower) waiting() (up, down int) { return len(w.client.out), len(w.toClient) }

func (w *envoyFollower) up() {
	r := w.client.out[0]
	w.client.out = w.client.out[1:]
	w.t.Logf("up   %s +%v -%v has %v nonce %s %s", shortOf(r.Type), r.Subscribe, r.Unsubscribe, r.Initial, r.Nonce, r.Error)
	w.session.Put(r)
	for more := true; more; { // what is published meanwhile comes between its parts
		var err error
		if more, err = w.session.Take(w.now, 1); err != nil {
			w.t.Fatal(err)
		}
		if more && w.draw("between", 4) == 0 {
			w.change()
		}
	}
}

func (w *envoyFollower) down() {
	r := w.toClient[0]
	w.toClient = w.toClient[1:]
	w.t.Logf("down %s nonce %s %s -%v", shortOf(r.Type), r.Nonce, said(r.Resources), r.Removed)
	if err := w.client.receive(r); err != nil {
		w.t.Fatal(err)
	}
	w.routesServe()
}

func (w *envoyFollower) whim() { w.deliver() } // it has none

func (w *envoyFollower) send() {
	for more := true; more; more = w.session.More() {
		w.toClient = append(w.toClient, w.session.Ready(w.now)...)
	}
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
func (w *envoyFollower) routesServe() {
	for _, rc := range w.client.have[routes] {
		if err := w.client.usable(rc); err != nil {
			w.t.Fatal(err)
		}
	}
}

// inSync: the client has what the view has, apart from what it rejected.
func (w *envoyFollower) inSync() {
	view := w.session.content
	for _, k := range order {
		for n := range domain {
			name := fmt.Sprintf("n%d", n)
			if !wildcards[k] && !w.client.sub[k][name] {
				continue
			}
			want, have := w.desired[w.current][Ref{Type: k.url(), Name: name}], w.client.have[k][name]
			if id, ok := view.find(k, name); want != nil && (!ok || view.get(k, id).Version != want.Version) {
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
		if a := w.desired[w.current][Ref{Type: ClusterLoadAssignment, Name: name}]; a != nil && !isBad(a) {
			w.t.Fatalf("cluster %s is left warming", name)
		}
	}
}

// oldCopy tells whether the client may keep an old copy of something that uses
// resources of a kind, because it rejected the new one.
func (w *envoyFollower) oldCopy(k kind) bool {
	for _, u := range removals[k] {
		t := &w.session.topics[u]
		for id := range t.quarantine {
			if t.has.has(id) {
				return true
			}
		}
		for id := range w.session.content.rollout.by[u] {
			if t.has.has(id) && !w.session.content.rollout.lone[u].has(id) {
				return true
			}
		}
	}
	return false
}

// TestInterleavings: whatever is published, lost, rejected, reconnected, held
// or moved, and in whatever order messages cross, the client ends equal to the
// view, is never left with a route to a cluster it lacks, never sent what it
// has and never told that a held name is gone. No listener that it has or that drains
// looks for hosts that are not there.
func TestInterleavings(t *testing.T) {
	interleave(t, func(w *world) follower {
		client := newEnvoyModel(w.pick, w.isHeld)
		client.moved, client.now = w.moved, func() time.Time { return w.now }
		client.current = func(ref Ref) *Resource { return w.desired[w.current][ref] }
		return &envoyFollower{world: w, client: client}
	})
}
