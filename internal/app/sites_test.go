package app

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/zone"
)

// leafed adds a class that members serve to a world, with a host and its leaf in eu-1, at
// an address of loopback.
func (w *world) leafed(ports model.ConfigSpec, class model.Class, root string, host model.Host, created int64) model.LeafID {
	id := model.LeafID{Member: "eu-1", Root: model.Object{Kind: "Ingress", Namespace: root, Name: root}}
	backend := model.BackendKey{Service: model.ServiceOf("shop", "web"), Port: model.PortRef{Name: "http"}}.Backend()
	ports.Leaf = &model.LeafSpec{}
	w.g.Commit(func(tx *inc.Tx) {
		in := &w.p.In
		in.Configs.Set(tx, "members", ports)
		in.Classes.Set(tx, class, model.ClassSpec{Config: "members", Origin: model.Origin{Created: 5, Object: model.Object{Kind: "IngressClass", Name: string(class)}}})
		spec, _ := in.Members.Get(nil, "eu-1")
		spec.Leaves = model.LeafAddresses{Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		in.Members.Set(tx, "eu-1", spec)
		in.Roots.Set(tx, id.Root, model.Root{Created: created, Classes: model.ClassesOf(class), TLS: []model.TLS{{Hosts: []model.Host{host}}}})
		in.Rules.Set(tx, model.RulesID{Root: id.Root, Host: host}, model.Rules{{
			Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backend, Weight: 1}}},
		}})
		in.LeafStates.Set(tx, id, model.LeafState{Reason: "Applied", There: true, Addresses: model.TextsOf([]string{"127.0.0.1"})})
	})
	return id
}

// site is the only one of eu-1.
const siteOfLoopback = model.Edge("eu-1!127.0.0.1")

// picky is a server for some hosts: to others it says nothing and hangs up.
type picky struct {
	mu    sync.Mutex
	hosts map[string]bool
}

func (p *picky) serve(hosts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts = map[string]bool{}
	for _, h := range hosts {
		p.hosts[h] = true
	}
}

func (p *picky) has(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[host]
}

func (p *picky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.has(r.Host) {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNotFound)
}

// TestSitesAreProbedByTheirHosts: with the real prober, by Host and by SNI, a site is up
// while its controller has a host of it, and lost when it knows none any more.
func TestSitesAreProbedByTheirHosts(t *testing.T) {
	has := &picky{}
	has.serve("leaf.example")
	plain := httptest.NewServer(has)
	defer plain.Close()
	secure := httptest.NewUnstartedServer(has)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if !has.has(hello.ServerName) {
			_ = hello.Conn.Close()
		}
		return nil, nil
	}}
	secure.StartTLS()
	defer secure.Close()

	w := newWorld()
	wit := newWitnesses(w.p, w.zones, time.Now, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	prober := probe.New(ctx, probe.Config{Interval: 5 * time.Millisecond, Timeout: time.Second, Report: wit.probed})
	defer func() { cancel(); prober.Wait() }()
	wit.probeNotices = time.Hour // a verdict counts at once where both ports agree; alone never
	var aimed []probe.Target
	wit.setTargets = func(e model.Edge, all []probe.Target) {
		if _, site := e.Site(); site {
			aimed = all
			prober.Set(e, all)
		}
	}
	w.load()
	w.leafed(model.ConfigSpec{HTTPPort: portOf(plain.Listener), HTTPSPort: portOf(secure.Listener)}, "members", "blog", "leaf.example", 1)
	wit.flush()
	if len(aimed) != 2 || aimed[0].Host != "leaf.example" || aimed[0].TLS == aimed[1].TLS {
		t.Fatalf("aimed at %+v", aimed)
	}
	health := func(want model.Health) {
		t.Helper()
		eventually.True(t, "the prober has seen it", func() bool {
			wit.mu.Lock()
			defer wit.mu.Unlock()
			return wit.probeOf(siteOfLoopback).Health == want
		})
	}
	health(model.Up)
	has.serve("other.example")
	health(model.Down)
	has.serve("leaf.example")
	health(model.Up)
	w.g.Commit(func(tx *inc.Tx) {
		w.p.In.Roots.Delete(tx, model.Object{Kind: "Ingress", Namespace: "blog", Name: "blog"})
	})
	wit.flush()
	if len(aimed) != 0 || len(wit.sites) != 0 {
		t.Errorf("still aimed at %+v, sites %v", aimed, wit.sites)
	}
}

func portOf(l net.Listener) uint16 { return l.Addr().(*net.TCPAddr).AddrPort().Port() }

// TestFewHostsOfASiteAreProbed: of any number of roots at an address two are asked for on
// each port, the oldest ones of two namespaces; one tenant whose host answers nobody takes
// nobody out of DNS.
func TestFewHostsOfASiteAreProbed(t *testing.T) {
	w := newWatched(t)
	ports := model.ConfigSpec{HTTPPort: 80, HTTPSPort: 443}
	for i, name := range []string{"one", "two", "three", "four"} {
		w.leafed(ports, "members", name, model.Host(name+".example"), int64(i+1))
	}
	w.flush()
	targets := w.witnesses.targets[siteOfLoopback]
	var asked []string
	for _, target := range targets {
		asked = append(asked, target.Host)
	}
	if want := []string{"one.example", "two.example", "one.example", "two.example"}; !slices.Equal(asked, want) {
		t.Fatalf("asked for %v, want %v", asked, want)
	}
	for _, target := range targets {
		health := model.Up
		if target.Host == "one.example" {
			health = model.Down
		}
		w.probed(target, probe.Verdict{Health: health, Since: w.now})
	}
	if got := w.probeOf(siteOfLoopback); got.Health != model.Up {
		t.Errorf("one tenant is silent, and the site is %+v", got)
	}
	for _, target := range targets {
		if target.Host == "two.example" && target.TLS {
			w.probed(target, probe.Verdict{Health: model.Down, Since: w.now})
		}
	}
	if got := w.probeOf(siteOfLoopback); got.Health == model.Up {
		t.Errorf("nobody answers on HTTPS, and the site is %+v", got)
	}
}

// TestSitesHaveTwoWitnesses: what proxies of edges say of the way to the member, and our
// probe of the addresses that its leaves name.
func TestSitesHaveTwoWitnesses(t *testing.T) {
	w := newWatched(t)
	w.leafed(model.ConfigSpec{HTTPPort: 80}, "members", "blog", "leaf.example", 1)
	w.flush()
	reported := func(failing int) {
		w.g.Commit(func(tx *inc.Tx) {
			id := model.ReportID{Edge: "fra", Proxy: "one", Member: "eu-1"}
			if failing < 0 {
				w.world.p.In.Reports.Delete(tx, id)
				return
			}
			w.world.p.In.Reports.Set(tx, id, model.Report{Canaries: 1, Failing: failing})
		})
	}
	is := func(when string, want zone.Reason) {
		t.Helper()
		writes, _ := w.due(w.now)
		w.g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		row, _ := w.world.zones.Witnesses.Get(nil, siteOfLoopback)
		if _, why := (zone.EdgeState{Stream: row.Stream, Probe: row.Probe}).Standing(); why != want {
			t.Errorf("%s: %s, want %s: %+v", when, why, want, row)
		}
	}
	probed := func(h model.Health) {
		for _, target := range w.witnesses.targets[siteOfLoopback] {
			w.probed(target, probe.Verdict{Health: h, Since: w.now})
		}
	}
	is("nothing is known", zone.Serving)
	reported(1)
	is("all canaries fail", zone.Unproven)
	probed(model.Down)
	is("and it does not answer", zone.Gone)
	reported(0)
	is("canaries answer, and the probe was never let in", zone.Unproven)
	w.now = w.now.Add(time.Hour)
	is("the same, for long", zone.Unproven)
	probed(model.Up)
	is("it answers", zone.Serving)
	reported(1)
	w.now = w.now.Add(time.Hour)
	is("all canaries fail for long, and clients are answered", zone.Serving)
	reported(-1)
	probed(model.Down)
	w.now = w.now.Add(time.Hour)
	is("nobody reports any more", zone.GoneAlone)
}

// TestNamesOfZonesOfOursAreKnown: at any depth, and not those beside.
func TestNamesOfZonesOfOursAreKnown(t *testing.T) {
	w := newWorld()
	d := newDNS(w.zones, nil, func(*zone.Snapshot) {})
	if d.serves("example") {
		t.Error("there is no zone yet")
	}
	w.load()
	for name, want := range map[string]bool{"example": true, "a.b.example": true, "example.net": false, "anexample": false, "": false} {
		if got := d.serves(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	w.g.Commit(func(tx *inc.Tx) { w.p.In.Zones.Delete(tx, model.ZoneID{Namespace: "s", Name: "example"}) })
	if d.serves("a.example") {
		t.Error("the zone is gone")
	}
}

// TestHostNamesFollowTheProgram: what leaves name is looked up, where it leads to is kept,
// and both go with the leaf.
func TestHostNamesFollowTheProgram(t *testing.T) {
	w := newWorld()
	var asked []string
	n := newHostNames(w.zones, w.put)
	n.set = func(all []string) { asked = all }
	w.load()
	id := w.leafed(model.ConfigSpec{HTTPPort: 80}, "members", "blog", "leaf.example", 1)
	named := func(addresses ...string) {
		w.g.Commit(func(tx *inc.Tx) {
			spec, _ := w.p.In.Members.Get(nil, "eu-1")
			spec.Leaves.Names = []string{"*.net", "*.example"}
			w.p.In.Members.Set(tx, "eu-1", spec)
			w.p.In.LeafStates.Set(tx, id, model.LeafState{There: true, Addresses: model.TextsOf(addresses)})
		})
		w.turn()
		n.flush()
	}
	answer := func() string {
		row, _ := w.zones.Records.Get(nil, "leaf.example")
		return row.Set.String()
	}
	named("LB.net", "inside.example")
	if !slices.Equal(asked, []string{"lb.net"}) {
		t.Fatalf("looked up: %v", asked)
	}
	if got := answer(); got != "held" {
		t.Errorf("nothing is known: %s", got)
	}
	n.found("lb.net", []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("198.51.100.1")})
	n.found("late.net", []netip.Addr{netip.MustParseAddr("198.51.100.3")})
	w.turn()
	if got := answer(); got != "eu-1!inside.example+lb.net" {
		t.Errorf("it is known: %s", got)
	}
	if w.zones.Names.Len() != 1 {
		t.Errorf("%d names are kept", w.zones.Names.Len())
	}
	named()
	if w.zones.Names.Len() != 0 || len(asked) != 0 {
		t.Errorf("%d names are kept, %v looked up", w.zones.Names.Len(), asked)
	}
}
