package app

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/zone"
)

// watched is a world with witnesses of fra and nyc, which both serve at first.
type watched struct {
	*world
	*witnesses
	t       *testing.T
	now     time.Time
	targets []probe.Target
}

func newWatched(t *testing.T) *watched {
	w := &watched{world: newWorld(), t: t, now: time.Unix(1000, 0)}
	w.witnesses = newWitnesses(w.world.p, w.world.zones, func() time.Time { return w.now }, func() {})
	w.probeNotices = 5 * time.Second
	w.setTargets = func(e model.Edge, t []probe.Target) {
		w.targets = slices.DeleteFunc(w.targets, func(t probe.Target) bool { return t.Edge == e })
		w.targets = append(w.targets, t...)
	}
	w.load()
	w.flush()
	w.stream("nyc", 9, xds.Serving{Serves: true, Loaded: true})
	w.probed(w.targets[1], probe.Verdict{Health: model.Up})
	return w
}

func (w *watched) stream(edge string, n uint64, what xds.Serving) {
	w.g.Commit(func(tx *inc.Tx) {
		w.streamed(tx, []xds.StreamChange{{Proxy: xds.Proxy{Edge: edge, Node: edge}, Stream: n, Open: true, Serving: what}})
	})
}

// expect tells what is known of fra after some time, and whether DNS names it.
func (w *watched) expect(when string, after time.Duration, want zone.Reason) {
	w.t.Helper()
	w.now = w.now.Add(after)
	writes, _ := w.due(w.now)
	w.g.Commit(func(tx *inc.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
	row, _ := w.world.zones.Witnesses.Get(nil, "fra")
	if _, why := (zone.EdgeState{Edge: "fra", Stream: row.Stream, Probe: row.Probe}).Standing(); why != want {
		w.t.Errorf("%s: %s, want %s; %+v", when, why, want, row)
	}
	named := "fra nyc"
	if want == zone.Gone || want == zone.GoneAlone {
		named = "nyc"
	}
	if r, _ := w.world.zones.Records.Get(nil, "shop.example"); r.Set.String() != named {
		w.t.Errorf("%s: DNS names %s, want %s", when, r.Set, named)
	}
}

// TestAnEdgeThatServesNothingLeavesDNS, though its streams are up: no proxy of
// it has a listener, and its addresses do not answer.
func TestAnEdgeThatServesNothingLeavesDNS(t *testing.T) {
	w := newWatched(t)
	w.stream("fra", 1, xds.Serving{Serves: true, Loaded: true})
	w.probed(w.targets[0], probe.Verdict{Health: model.Up})
	w.expect("all is well", 0, zone.Serving)
	w.stream("fra", 1, xds.Serving{})
	w.expect("no proxy has a listener, but somebody answers", time.Hour, zone.Serving)
	w.probed(w.targets[0], probe.Verdict{Health: model.Down, Since: w.now})
	w.expect("nobody answers", 0, zone.Gone)
	w.stream("fra", 2, xds.Serving{})
	w.expect("one more that serves nothing", 0, zone.Gone)
	if row, _ := w.world.p.In.Streams.Get(nil, "fra"); row != (model.Streams{Connected: 1}) {
		t.Errorf("%+v", row)
	}
	w.stream("fra", 2, xds.Serving{Serves: true})
	w.expect("it has a listener", 0, zone.Unproven)
	w.expect("it has a listener, but nobody answers for long", 16*time.Second, zone.GoneAlone)
	w.probed(w.targets[0], probe.Verdict{Health: model.Up})
	w.expect("it answers", 0, zone.Serving)
}

// TestAnEdgeWhosePortsRefuseLeavesDNS after three times the time it takes to
// notice, though its streams are up and its proxies have listeners.
func TestAnEdgeWhosePortsRefuseLeavesDNS(t *testing.T) {
	for _, c := range []struct {
		name   string
		before model.Health
		why    string
		want   zone.Reason
	}{
		{"it answered before", model.Up, "timeout", zone.GoneAlone},
		{"it refuses", model.Unknown, probe.Refused, zone.GoneAlone},
		{"it was never reached: a firewall", model.Unknown, "timeout", zone.Unproven},
	} {
		w := newWatched(t)
		w.stream("fra", 1, xds.Serving{Serves: true, Loaded: true})
		w.probed(w.targets[0], probe.Verdict{Health: c.before})
		w.expect(c.name, 0, zone.Serving)
		w.probed(w.targets[0], probe.Verdict{Health: model.Down, Since: w.now, Why: c.why})
		w.expect(c.name+", not for long", 14*time.Second, zone.Unproven)
		w.expect(c.name, 2*time.Second, c.want)
	}
}

// TestStreamsAreCounted: what an edge has is what its open streams say, whatever
// they said before.
func TestStreamsAreCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		wit := newWitnesses(w.p, w.zones, func() time.Time { return time.Unix(1000, 0) }, func() {})
		open := map[uint64]xds.StreamChange{}
		for range rapid.IntRange(1, 30).Draw(rt, "changes") {
			n := rapid.Uint64Range(1, 6).Draw(rt, "stream")
			loaded := rapid.Bool().Draw(rt, "loaded")
			s := xds.StreamChange{Proxy: xds.Proxy{Edge: []string{"fra", "nyc"}[n%2], Node: fmt.Sprint(n / 3)}, Stream: n,
				Open: rapid.Bool().Draw(rt, "open"), Serving: xds.Serving{Serves: loaded || rapid.Bool().Draw(rt, "serves"), Loaded: loaded}}
			if delete(open, n); s.Open {
				open[n] = s
			}
			w.g.Commit(func(tx *inc.Tx) { wit.streamed(tx, []xds.StreamChange{s}) })
			nodes, synced, serves := map[string]bool{}, map[string]bool{}, false
			for _, o := range open {
				if o.Edge != s.Edge {
					continue
				}
				nodes[o.Node] = true
				if o.Loaded {
					synced[o.Node] = true
				}
				serves = serves || o.Serves
			}
			got, _ := w.p.In.Streams.Get(nil, model.Edge(s.Edge))
			if want := (model.Streams{Connected: len(nodes), Synced: len(synced)}); got != want {
				rt.Fatalf("%s has %+v, want %+v of %v", s.Edge, got, want, open)
			}
			if up := wit.streams[model.Edge(s.Edge)].Health == model.Up; up != serves {
				rt.Fatalf("%s serves: %t, want %t of %v", s.Edge, up, serves, open)
			}
		}
	})
}

// TestProbesGoWhereHTTPIs: a port that a class wants for HTTP, and another has for
// HTTPS, says nothing of the edge.
func TestProbesGoWhereHTTPIs(t *testing.T) {
	w := newWatched(t)
	of := func() (ports []uint16) {
		w.flush()
		for _, target := range w.targets {
			if target.Edge == "fra" {
				ports = append(ports, target.Addr.Port())
			}
		}
		return ports
	}
	before := of()
	w.g.Commit(func(tx *inc.Tx) {
		in, config := &w.world.p.In, w.world.p.Defaults
		config.HTTPPort, config.HTTPSPort = config.HTTPSPort, 0
		in.Configs.Set(tx, "crossed", config)
		config.HTTPPort = 8080
		in.Configs.Set(tx, "other", config)
		for i, name := range []model.Class{"crossed", "other"} {
			in.Classes.Set(tx, name, model.ClassSpec{Config: model.Config(name), Origin: model.Origin{Created: int64(9 + i), Object: model.Object{Kind: "IngressClass", Name: string(name)}}})
		}
	})
	if after := of(); !slices.Equal(after, append(before, 8080)) {
		t.Errorf("probes go to ports %v, before %v", after, before)
	}
}

// TestOnlyWhatChangedIsAimedAt: a class that comes to or leaves addresses of its own
// touches its own targets, and a verdict about one that is gone is not kept.
func TestOnlyWhatChangedIsAimedAt(t *testing.T) {
	w := newWatched(t)
	told := map[model.Edge]int{}
	w.setTargets = func(e model.Edge, t []probe.Target) { told[e] += 1 + len(t) }
	pool := func(size int) {
		w.g.Commit(func(tx *inc.Tx) {
			spec, _ := w.world.p.In.Edges.Get(nil, "fra")
			spec.Pool = nil
			for n := range size {
				ip := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + n)})
				spec.Pool = append(spec.Pool, model.PoolEntry{PoolAddress: model.PoolAddress{Address: ip, Bind: ip}})
			}
			w.world.p.In.Edges.Set(tx, "fra", spec)
		})
		clear(told)
		w.flush()
	}
	class := func(name model.Class, config model.Config) {
		w.g.Commit(func(tx *inc.Tx) {
			w.world.p.In.Classes.Set(tx, name, model.ClassSpec{Config: config, Origin: model.Origin{Created: 9, Object: name.Object()}})
		})
		clear(told)
		w.flush()
	}
	w.g.Commit(func(tx *inc.Tx) { w.world.p.In.Configs.Set(tx, "own", model.ConfigSpec{Own: true, HTTPPort: 8080}) })
	pool(2)
	class("one", "own")
	first := probe.Target{Edge: "fra@one", Addr: w.witnesses.targets["fra@one"][0].Addr}
	w.probed(first, probe.Verdict{Health: model.Up})
	class("two", "own")
	if len(told) != 1 || told["fra@two"] != 2 {
		t.Errorf("another class came: told %v, want one target of fra@two", told)
	}
	if w.tally[first].Health != model.Up {
		t.Error("the verdict about another class is lost")
	}
	pool(1)
	class("one", "")
	w.probed(first, probe.Verdict{Health: model.Down, Since: w.now})
	if _, kept := w.tally[first]; kept || len(w.seats["fra"]) > 1 {
		t.Errorf("%v is kept, seats %v", first, w.seats["fra"])
	}
}

// TestAClassLeavesDNSWithItsAddress: an address that a class has for itself is
// probed, and answered by what is known of it. Three of four are lost at once, and
// the observer is believed: they are of one edge of two.
func TestAClassLeavesDNSWithItsAddress(t *testing.T) {
	w := newWatched(t)
	own := model.ConfigSpec{Own: true, HTTPPort: 8080, HTTPSPort: 8443}
	w.g.Commit(func(tx *inc.Tx) {
		in := &w.world.p.In
		in.Configs.Set(tx, "own", own)
		for i, class := range []model.Class{"spillway", "second", "third"} {
			in.Classes.Set(tx, class, model.ClassSpec{Config: "own", Default: i == 0, Origin: model.Origin{Created: int64(i), Object: class.Object()}})
		}
		for i, e := range []model.Edge{"fra", "nyc"} {
			spec, _ := in.Edges.Get(nil, e)
			for n := range 3 {
				ip := netip.AddrFrom4([4]byte{192, 0, 2, byte(10*(i+1) + n)})
				spec.Pool = append(spec.Pool, model.PoolEntry{PoolAddress: model.PoolAddress{Address: ip, Bind: ip}})
			}
			in.Edges.Set(tx, e, spec)
		}
	})
	w.flush()
	w.stream("fra", 1, xds.Serving{})
	say := func(edge model.Edge, v probe.Verdict) (n int) {
		for _, target := range w.targets {
			if at, seat := target.Edge.Leased(); seat && at.Edge == edge {
				if target.Addr.Port() != own.HTTPPort {
					t.Errorf("%s is probed", target.Addr)
				}
				w.probed(target, v)
				n++
			}
		}
		return n
	}
	named := func(when, want string) {
		t.Helper()
		writes, _ := w.due(w.now)
		w.g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		if r, _ := w.world.zones.Records.Get(nil, "shop.example"); r.Set.String() != want {
			t.Errorf("%s: DNS names %s, want %s", when, r.Set, want)
		}
	}
	if a, b := say("fra", probe.Verdict{Health: model.Up}), say("nyc", probe.Verdict{Health: model.Up}); a != 3 || b != 3 {
		t.Fatalf("%d and %d seats", a, b)
	}
	named("all is well", "fra@spillway nyc@spillway")
	say("fra", probe.Verdict{Health: model.Down, Since: w.now})
	named("fra is lost", "nyc@spillway")
	say("nyc", probe.Verdict{Health: model.Down, Since: w.now})
	named("all are lost: it is us", "fra@spillway nyc@spillway")
}

// TestEveryPortIsProbed: a port for HTTPS as soon as it has something to present, of
// an edge and of a class with addresses of its own; an edge that lost one of its
// ports is lost.
func TestEveryPortIsProbed(t *testing.T) {
	w := newWatched(t)
	commit := func(write func(*inc.Tx, *fleet.Inputs)) {
		w.g.Commit(func(tx *inc.Tx) { write(tx, &w.world.p.In) })
		w.flush()
	}
	of := func(at model.Edge) string {
		var out []string
		for _, target := range w.witnesses.targets[at] {
			out = append(out, fmt.Sprint(target.Addr, target.TLS))
		}
		return strings.Join(out, " ")
	}
	expect := func(when string, at model.Edge, want string) {
		t.Helper()
		if got := of(at); got != want {
			t.Errorf("%s: of %s %q is probed, want %q", when, at, got, want)
		}
	}
	commit(func(tx *inc.Tx, in *fleet.Inputs) {
		in.Configs.Set(tx, "both", model.ConfigSpec{HTTPPort: 8080, HTTPSPort: 8443})
		in.Configs.Set(tx, "own", model.ConfigSpec{Own: true, HTTPPort: 8080, HTTPSPort: 8443})
		class, _ := in.Classes.Get(nil, "spillway")
		class.Config = "both"
		in.Classes.Set(tx, "spillway", class)
		in.Classes.Set(tx, "own", model.ClassSpec{Config: "own", Origin: model.Origin{Created: 9, Object: model.Object{Kind: "IngressClass", Name: "own"}}})
		spec, _ := in.Edges.Get(nil, "fra")
		ip := netip.MustParseAddr("192.0.2.9")
		spec.Pool = []model.PoolEntry{{PoolAddress: model.PoolAddress{Address: ip, Bind: ip}}}
		in.Edges.Set(tx, "fra", spec)
	})
	expect("no certificate", "fra", "192.0.2.1:8080 false")
	expect("no certificate", "fra@own", "192.0.2.9:8080 false")

	root := model.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}
	id := model.SecretID{Namespace: "shop", Name: "cert"}
	commit(func(tx *inc.Tx, in *fleet.Inputs) {
		in.Certificates.Set(tx, id, model.Certificate{Chain: []byte("chain"), Key: []byte("key"), Names: []string{"shop.example"}})
		in.Roots.Set(tx, root, model.Root{TLS: []model.TLS{{Hosts: []model.Host{"shop.example"}, Secret: id}}})
	})
	expect("a certificate", "fra", "192.0.2.1:8080 false 192.0.2.1:8443 true")
	expect("a certificate of another class", "fra@own", "192.0.2.9:8080 false")
	commit(func(tx *inc.Tx, in *fleet.Inputs) {
		in.Roots.Set(tx, root, model.Root{Classes: model.ClassesOf("own"), TLS: []model.TLS{{Hosts: []model.Host{"shop.example"}, Secret: id}}})
	})
	expect("the other class has it now", "fra", "192.0.2.1:8080 false")
	expect("the other class has it now", "fra@own", "192.0.2.9:8080 false 192.0.2.9:8443 true")

	commit(func(tx *inc.Tx, in *fleet.Inputs) {
		in.Roots.Set(tx, root, model.Root{TLS: []model.TLS{{Hosts: []model.Host{"shop.example"}, Secret: id}}})
	})
	plain, secure := w.witnesses.targets["fra"][0], w.witnesses.targets["fra"][1]
	w.stream("fra", 1, xds.Serving{Serves: true, Loaded: true})
	w.probed(plain, probe.Verdict{Health: model.Up})
	w.probed(secure, probe.Verdict{Health: model.Down, Since: w.now, Why: probe.Refused})
	w.expect("nobody ever answered on HTTPS", time.Hour, zone.Serving)
	w.probed(secure, probe.Verdict{Health: model.Up})
	w.probed(secure, probe.Verdict{Health: model.Down, Since: w.now})
	w.expect("HTTPS was lost", 0, zone.Unproven)
	w.expect("it stays so", 15*time.Second, zone.GoneAlone)
	w.probed(secure, probe.Verdict{Health: model.Up})
	w.expect("it is back", 0, zone.Serving)
}
