package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
)

// running is a server whose loop runs, with a host, and proxies that follow it.
type running struct {
	*big
	t       *testing.T
	proxies []*follower
	commits int // since it was last set to 0
}

// follower is a proxy that takes all that it is sent.
type follower struct {
	stream *xds.Local
	out    []*xds.Request // what it is to say next
	asked  map[xds.Ref]bool
	has    map[xds.Ref]string
}

func run(t *testing.T, ctx context.Context, proxies int) *running {
	s := &server{log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(), now: time.Now, known: true, opened: make(chan struct{}), eased: func() {}}
	s.assemble()
	s.watch.setTargets = func(model.Edge, []probe.Target) {}
	s.loop.due = s.lapse
	r := &running{big: &big{server: s, n: 1}, t: t}
	publish := s.loop.publish
	s.loop.publish = func(stats inc.Stats) { r.commits++; publish(stats) }
	go s.loop.run(ctx)
	go s.heed(ctx)
	s.put("fleet", func(tx *inc.Tx) {
		in := &s.prog.In
		in.Classes.Set(tx, "spillway", model.ClassSpec{Default: true, Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "spillway"}}})
		for i, m := range memberNames {
			in.Members.Set(tx, m, memberAt(i, string(m[:2])))
			in.Sources.Set(tx, m, model.Source{Connected: true})
		}
		in.Edges.Set(tx, "fra", edgeAt(0, "eu"))
		r.host(tx, 0)
	})
	synctest.Wait()
	for i := range proxies {
		l, err := s.xds.Local(xds.Proxy{Edge: "fra", Node: fmt.Sprint(i)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := &follower{stream: l, asked: map[xds.Ref]bool{}, has: map[xds.Ref]string{}}
		for _, typ := range []xds.TypeURL{xds.Cluster, xds.Listener, xds.ScopedRoute} {
			f.out = append(f.out, &xds.Request{Type: typ})
		}
		r.proxies = append(r.proxies, f)
	}
	return r
}

// step takes what is to be taken, and answers what was sent before that.
func (f *follower) step(t *testing.T) {
	var next []*xds.Request
	for _, req := range append(f.out, nil) {
		out, _, err := f.stream.Step(req)
		if err != nil {
			t.Fatal(err)
		}
		for _, resp := range out {
			next = append(next, &xds.Request{Type: resp.Type, Nonce: resp.Nonce})
			for _, res := range resp.Resources {
				f.has[xds.Ref{Type: resp.Type, Name: res.Name}] = res.Version
				for _, ref := range res.Refs() {
					if named := ref.Type == xds.ClusterLoadAssignment || ref.Type == xds.RouteConfiguration || ref.Type == xds.Secret; named && !f.asked[ref] {
						f.asked[ref] = true
						next = append(next, &xds.Request{Type: ref.Type, Subscribe: []string{ref.Name}})
					}
				}
			}
		}
	}
	f.out = next
}

// pass lets time pass: each proxy acts once, apart from the others.
func (r *running) pass(d time.Duration) {
	for _, f := range r.proxies {
		time.Sleep(d / time.Duration(len(r.proxies)))
		f.step(r.t)
	}
	synctest.Wait()
}

// holds is the version of each resource of a type that a proxy has, by name.
func (f *follower) holds(typ xds.TypeURL) map[string]string {
	out := map[string]string{}
	for ref, version := range f.has {
		if ref.Type == typ {
			out[ref.Name] = version
		}
	}
	return out
}

// acknowledged is what the loop knows of the host at the edge.
func (r *running) acknowledged() bool { return r.prog.In.Acks.Len() == 1 }

// TestTurnsFollowChanges: the loop turns for what changes. What ten proxies
// acknowledge of it costs no turn each, and nothing where it is never asked for:
// a change of endpoints every 5 ms is one commit every 5 ms.
func TestTurnsFollowChanges(t *testing.T) {
	const proxies, changes, every = 10, 201, 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer func() { end(); synctest.Wait() }()
		r := run(t, ctx, proxies)
		for range 100 {
			r.pass(10 * time.Millisecond)
		}
		if !r.acknowledged() || len(r.proxies[9].holds(xds.RouteConfiguration)) != 2 { // of the host, and of the walk
			t.Fatalf("not in sync: %v", r.proxies[9].has)
		}

		before := r.proxies[9].holds(xds.ClusterLoadAssignment)
		r.commits = 0
		for i := range changes {
			r.put(i, func(tx *inc.Tx) { r.slice(tx, 0, 0, i+1) })
			r.pass(every)
		}
		for range 20 {
			r.pass(every)
		}
		if r.commits != changes {
			t.Errorf("%d changes of endpoints are %d commits", changes, r.commits)
		}
		if after := r.proxies[9].holds(xds.ClusterLoadAssignment); len(after) != 1 || fmt.Sprint(after) == fmt.Sprint(before) {
			t.Errorf("a proxy has %v after %v", after, before)
		}

		// One asks for another path: the first proxy answers, then the others, each
		// at its time.
		r.commits = 0
		r.put("path", func(tx *inc.Tx) { r.path(tx, "/other") })
		for range 20 {
			r.pass(20 * time.Millisecond)
		}
		if most := 1 + 2*2; r.commits > most {
			t.Errorf("a change of routes is %d commits, want at most %d for %d proxies", r.commits, most, proxies)
		}
		r.commits = 0
		for i := range changes {
			r.put("path", func(tx *inc.Tx) { r.path(tx, fmt.Sprint("/", i)) })
			r.pass(every)
		}
		if most := changes + changes/2; r.commits > most {
			t.Errorf("%d changes of routes are %d commits, want at most %d", changes, r.commits, most)
		}
	})
}

// path gives the host one path.
func (b *big) path(tx *inc.Tx, path string) {
	svc := serviceOf(0)
	id := model.Object{Kind: "Ingress", Namespace: svc.Namespace(), Name: svc.Name()}
	at := b.prog.RulesOf.Keys(nil, id)[0]
	rules, _ := b.prog.In.Rules.Get(nil, at)
	rule := rules[0]
	rule.Matches = []model.Match{{Kind: model.PathPrefix, Path: path}}
	b.prog.In.Rules.Set(tx, at, model.Rules{rule})
}

// TestBulkGathers: what comes in bulk, piece by piece, is a batch every batchTime,
// the first at once; what is urgent waits for none of it, and what fills a batch
// does not wait either.
func TestBulkGathers(t *testing.T) {
	const every, pieces = 5 * time.Millisecond, 200
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer func() { end(); synctest.Wait() }()
		r := run(t, ctx, 0)
		time.Sleep(time.Second)
		var mu sync.Mutex
		times := map[any]time.Time{}
		put := func(u cluster.Urgency, key any) {
			r.mail.Put(u, key, func(*inc.Tx) {
				mu.Lock()
				defer mu.Unlock()
				times[key] = time.Now()
			})
		}
		look := func() map[any]time.Time { // when the loop has nothing to do
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(times)
		}
		r.commits = 0
		began := time.Now()
		for i := range pieces {
			put(cluster.Bulk, i)
			time.Sleep(every)
		}
		time.Sleep(batchTime)
		done := look()
		if want := int(pieces*every/batchTime) + 1; len(done) != pieces || r.commits > want || !done[0].Equal(began) {
			t.Errorf("%d of %d pieces were done in %d commits, want %d, the first after %v", len(done), pieces, r.commits, want, done[0].Sub(began))
		}

		began = time.Now()
		put(cluster.Bulk, "a")
		synctest.Wait()
		put(cluster.Bulk, "b")
		put(cluster.Urgent, "edit")
		done = look()
		if at, late := done["edit"], done["b"]; !at.Equal(began) || !late.IsZero() {
			t.Errorf("an edit was done after %v, bulk beside it at %v", at.Sub(began), late)
		}
		const many = 70_000 // more than the largest batch: turns take no time here
		for i := range many {
			put(cluster.Bulk, pieces+i)
		}
		if now := len(look()); now < many/2 {
			t.Errorf("of what fills a batch %d pieces were done at once", now)
		}
		time.Sleep(batchTime)
		if now, want := len(look()), pieces+many+len([]string{"a", "b", "edit"}); now != want {
			t.Errorf("%d pieces were done, want %d", now, want)
		}
	})
}
