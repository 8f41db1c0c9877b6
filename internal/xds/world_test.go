package xds

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// grpcFollower is a gRPC client that follows a world.
type grpcFollower struct {
	*world
	face     Face
	model    *grpcModel
	toClient []sentResponse
}

// sentResponse is a response on its way, and what the view had when it was made.
type sentResponse struct {
	Response
	view map[Ref]*Resource
}

func (w *grpcFollower) open() *Session {
	w.toClient = nil
	w.model.connect()
	w.face = NewWorld(Limits{ResponseBytes: 60})
	return w.face.Base()
}

// ask has a face take a request.
func ask(f Face, now time.Time, r Request) error {
	f.Put(r)
	_, err := f.Take(now, namesAtOnce)
	return err
}

func (w *grpcFollower) waiting() (up, down int) { return len(w.model.out), len(w.toClient) }

func (w *grpcFollower) up() {
	r := w.model.out[0]
	w.model.out = w.model.out[1:]
	w.t.Logf("up   %s %v nonce %s %s", shortOf(r.Type), r.Names, r.Nonce, r.Error)
	if err := ask(w.face, w.now, r); err != nil {
		w.t.Fatal(err)
	}
}

func (w *grpcFollower) down() {
	r := w.toClient[0]
	w.toClient = w.toClient[1:]
	w.t.Logf("down %s nonce %s %s", shortOf(r.Type), r.Nonce, said(r.Resources))
	w.model.lost = func(k kind, name string) bool { return r.view[Ref{Type: k.url(), Name: name}] == nil }
	if err := w.model.receive(r.Response); err != nil {
		w.t.Fatal(err)
	}
}

func (w *grpcFollower) send() {
	for _, r := range w.face.Ready(w.now) {
		w.toClient = append(w.toClient, sentResponse{r, maps.Clone(w.desired[w.current])})
	}
	w.session.Verdicts()
}

// whim begins or ends to ask for a listener.
func (w *grpcFollower) whim() {
	name := fmt.Sprintf("n%d", w.draw("name", domain))
	if w.model.want[name] {
		delete(w.model.want, name)
	} else {
		w.model.want[name] = true
	}
	w.model.follow()
}

// inSync: the client has what the view has of what it asks for. What the view
// lost it may keep, but not a listener.
func (w *grpcFollower) inSync() {
	for _, k := range clientOrder {
		for name := range w.model.sub[k] {
			want, have := w.desired[w.current][Ref{Type: k.url(), Name: name}], w.model.have[k][name]
			switch {
			case isBad(want) && (have == nil || have.Version != want.Version):
			case want == nil && (have == nil || k != listener):
			case want == nil || have == nil || want.Version != have.Version:
				w.t.Fatalf("%s %s: the client has %+v, the view %+v\n%v", shortOf(k.url()), name, have, want, w.model)
			}
		}
		for n := range domain {
			name := fmt.Sprintf("n%d", n)
			if world := w.session.world; world.Whole(k.url()) && world.Told(k.url(), name) && !w.model.sub[k][name] {
				w.t.Fatalf("the face keeps %s %s, which nobody asks for", shortOf(k.url()), name)
			}
		}
	}
}

// TestWorldInterleavings: whatever is published, asked for, rejected,
// reconnected, held or moved, a gRPC client ends with what the view has, never
// loses a cluster that it uses and is never told that a held name is gone.
func TestWorldInterleavings(t *testing.T) {
	interleave(t, func(w *world) follower {
		m := newGRPCModel(w.pick)
		m.silent, m.isHeld = rapid.Bool().Draw(w.t, "silent"), w.isHeld
		return &grpcFollower{world: w, model: m}
	})
}

// TestWorldIsWokenWhenAHoldEnds: the stream that waited is told, although no
// resource changed.
func TestWorldIsWokenWhenAHoldEnds(t *testing.T) {
	store := NewStore()
	store.PublishHeld("v", nil, func(TypeURL, string) bool { return true })
	w := NewWorld(Limits{})
	m, woken := newMember(w.Base())
	store.follow(m, "v", "")
	ready := func() (out []Response) {
		m.step(func(*Session) { out = w.Ready(time.Time{}) })
		return out
	}
	m.step(func(*Session) {
		if err := ask(w, time.Time{}, Request{Type: Listener, Names: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
	})
	if out := ready(); len(out) > 0 {
		t.Errorf("told %v while held", out)
	}
	store.PublishHeld("v", nil, nil)
	if !woken.rang() {
		t.Error("the stream is not woken")
	}
	if out := ready(); len(out) != 1 || len(out[0].Resources) > 0 {
		t.Errorf("told %v of a listener that is not there", out)
	}
	store.leave(m)
}
