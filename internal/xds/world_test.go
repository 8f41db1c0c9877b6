package xds

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// grpcWorld is world with a gRPC client in place of the Envoy.
type grpcWorld struct {
	*world
	face  *World
	model *grpcModel
	down  []sentResponse
}

// sentResponse is a response on its way, and what the view had when it was made.
type sentResponse struct {
	Response
	view map[Ref]*Resource
}

func newGRPCWorld(t *rapid.T) *grpcWorld {
	w := &grpcWorld{world: newWorld(t)}
	w.model = newGRPCModel(func(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "pick") })
	w.model.silent = rapid.Bool().Draw(t, "silent")
	w.model.isHeld = func(u TypeURL) bool { return w.held[u] }
	w.open()
	return w
}

func (w *grpcWorld) open() {
	w.session.Attach(w.now, &catalog{})
	w.face = NewWorld(Limits{ResponseBytes: 60})
	w.session = w.face.base
	w.session.Attach(w.now, w.views[w.current])
	w.down = nil
	w.t.Logf("reconnect")
	w.model.connect()
}

func (w *grpcWorld) send() {
	for _, r := range w.face.Ready(w.now) {
		w.down = append(w.down, sentResponse{r, maps.Clone(w.desired[w.current])})
	}
	w.session.Verdicts()
}

func (w *grpcWorld) deliver() bool {
	up, down := len(w.model.out) > 0, len(w.down) > 0
	switch {
	case up && (!down || w.draw("direction", 2) == 0):
		r := w.model.out[0]
		w.model.out = w.model.out[1:]
		w.t.Logf("up   %s %v nonce %s %s", shortOf(r.Type), r.Names, r.Nonce, r.Error)
		if err := w.face.Request(w.now, r); err != nil {
			w.t.Fatal(err)
		}
	case down:
		r := w.down[0]
		w.down = w.down[1:]
		w.t.Logf("down %s nonce %s %s", shortOf(r.Type), r.Nonce, names(r.Resources))
		w.model.lost = func(k kind, name string) bool { return r.view[Ref{k.url(), name}] == nil }
		if err := w.model.receive(r.Response); err != nil {
			w.t.Fatal(err)
		}
	default:
		return false
	}
	w.send()
	return true
}

func (w *grpcWorld) step() {
	switch w.draw("step", 14) {
	case 0, 1, 2:
		for range 1 + w.draw("edits", 3) {
			w.edit(w.desired[w.current])
		}
		w.publish(w.current)
	case 3:
		w.now = w.now.Add(time.Duration(w.draw("tick", 30)) * 100 * time.Millisecond)
	case 4:
		name := fmt.Sprintf("n%d", w.draw("name", domain))
		if w.model.want[name] {
			delete(w.model.want, name)
		} else {
			w.model.want[name] = true
		}
		w.model.follow()
	case 5:
		if w.draw("often", 4) == 0 {
			w.open()
		}
	case 6:
		if w.draw("often", 4) == 0 {
			w.held = map[TypeURL]bool{}
			if w.draw("hold", 2) == 0 {
				w.held = map[TypeURL]bool{Cluster: true, ClusterLoadAssignment: true, RouteConfiguration: true, Listener: true}
			}
			w.open() // what is on its way would be blamed on the hold
		}
	case 7:
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

func (w *grpcWorld) settle() {
	if len(w.held) > 0 {
		w.held = map[TypeURL]bool{}
		w.session.rehold()
	}
	w.send()
	for range 200 {
		for w.deliver() {
		}
		next, timed := w.session.Deadline()
		if !timed && w.session.Quiet() {
			return
		}
		if timed && next.After(w.now) {
			w.now = next
		}
		w.send()
	}
	w.t.Fatalf("does not come to rest: %+v", w.session.status())
}

// inSync: the client has what the view has of what it asks for. What the view
// lost it may keep, but not a listener.
func (w *grpcWorld) inSync() {
	for _, k := range clientOrder {
		for name := range w.model.sub[k] {
			want, have := w.desired[w.current][Ref{k.url(), name}], w.model.have[k][name]
			switch {
			case isBad(want) && (have == nil || have.Version != want.Version):
			case want == nil && (have == nil || k != listener):
			case want == nil || have == nil || want.Version != have.Version:
				w.t.Fatalf("%s %s: the client has %+v, the view %+v\n%v", shortOf(k.url()), name, have, want, w.model)
			}
		}
		for _, kept := range []map[string]*Resource{w.face.topics[k].told, w.face.topics[k].doubt} {
			for name := range kept {
				if !w.model.sub[k][name] {
					w.t.Fatalf("the face keeps %s %s, which nobody asks for", shortOf(k.url()), name)
				}
			}
		}
	}
}

// TestWorldInterleavings: whatever is published, asked for, rejected,
// reconnected, held or moved, a gRPC client ends with what the view has, never
// loses a cluster that it uses and is never told that a held name is gone.
func TestWorldInterleavings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newGRPCWorld(t)
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

func TestWorldRefusesWildcards(t *testing.T) {
	for _, names := range [][]string{nil, {"*"}, {"a", "*"}} {
		w := NewWorld(Limits{})
		if err := w.Request(time.Time{}, Request{Type: Listener, Names: names}); err == nil {
			t.Errorf("%v was not refused", names)
		}
	}
}

// TestWorldVersion: equal content has an equal version in any order and on any
// stream, other content another one.
func TestWorldVersion(t *testing.T) {
	a, b := &Resource{Name: "a", Version: "1"}, &Resource{Name: "b", Version: "1"}
	one, two := sumUp(Cluster, "1", []*Resource{a, b}), sumUp(Cluster, "2", []*Resource{b, a})
	if one.Version != two.Version || !slices.Equal(one.Resources, two.Resources) {
		t.Error("the order matters")
	}
	if other := sumUp(Cluster, "1", []*Resource{a}); other.Version == one.Version || other.Version == "" {
		t.Error("the content does not matter")
	}
}

// TestWorldIsWokenWhenAHoldEnds: the stream that waited is told, although no
// resource changed.
func TestWorldIsWokenWhenAHoldEnds(t *testing.T) {
	store := NewStore()
	store.PublishHeld("v", nil, func(TypeURL, string) bool { return true })
	w := NewWorld(Limits{})
	m := &member{session: w.base, wake: make(chan struct{}, 1)}
	store.follow(m, "v")
	ready := func() (out []Response) {
		m.step(func(*Session) { out = w.Ready(time.Time{}) })
		return out
	}
	m.step(func(*Session) {
		if err := w.Request(time.Time{}, Request{Type: Listener, Names: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
	})
	if out := ready(); len(out) > 0 {
		t.Errorf("told %v while held", out)
	}
	store.PublishHeld("v", nil, nil)
	if len(m.wake) == 0 {
		t.Error("the stream is not woken")
	}
	if out := ready(); len(out) != 1 || len(out[0].Resources) > 0 {
		t.Errorf("told %v of a listener that is not there", out)
	}
	store.leave(m)
}
