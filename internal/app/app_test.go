package app

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/hds"
	"github.com/spillway-dev/spillway/internal/zone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestValidate(t *testing.T) {
	ok := Config{AdminAddress: "127.0.0.1:18080", EnvoyListenerPort: 80, TrustDomain: "spillway.local"}
	for _, c := range []struct {
		name string
		edit func(*Config)
		want string // part of the error; empty: none
	}{
		{"defaults", func(*Config) {}, ""},
		{"a part of mTLS", func(c *Config) { c.XDSAddress, c.XDSCert = ":18000", "x" }, "--xds-client-ca"},
		{"plaintext by omission", func(c *Config) { c.XDSAddress = "127.0.0.1:18000" }, "--xds-cert"},
		{"mTLS without an address", func(c *Config) { c.XDSCert, c.XDSKey, c.XDSClientCA = "x", "x", "x" }, "--xds-address"},
		{"plaintext and mTLS", func(c *Config) { c.EnvoyXDS, c.XDSCert, c.XDSKey, c.XDSClientCA = true, "x", "x", "x" }, "plaintext"},
		{"plaintext on loopback", func(c *Config) { c.EnvoyXDS = true }, ""},
		{"plaintext off loopback", func(c *Config) { c.EnvoyXDS, c.XDSAddress = true, "0.0.0.0:18000" }, "not loopback"},
		{"a key of nothing", func(c *Config) { c.StateKey = "x" }, "--state-dir"},
		{"half a certificate", func(c *Config) { c.AdminCert = "x" }, "--admin-key"},
		{"port", func(c *Config) { c.EnvoyListenerPort = 70000 }, "1 to 65535"},
		{"trust domain", func(c *Config) { c.TrustDomain = "a b" }, `--trust-domain "a b"`},
		{"trust domain as an id", func(c *Config) { c.TrustDomain = "spiffe://a" }, "--trust-domain"},
		{"a trust domain", func(c *Config) { c.TrustDomain = "spillway.local" }, ""},
		{"socket", func(c *Config) { c.XDSSocket = "rel/path" }, "not an absolute path"},
		{"a socket", func(c *Config) { c.XDSSocket = "/run/spillway/xds.sock" }, ""},
		{"admin off loopback", func(c *Config) { c.AdminAddress = "0.0.0.0:18080" }, "--admin-cert"},
		{"admin address", func(c *Config) { c.AdminAddress = "localhost" }, "IP:PORT"},
	} {
		cfg := ok
		c.edit(&cfg)
		err := cfg.validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// number is a key and a value for the engine.
type number int

func (a number) Compare(b number) int { return int(a) - int(b) }
func (a number) Equal(b number) bool  { return a == b }

func TestLoopCommitsWhatCameAsOneAndWakesForWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, mail := inc.New(), cluster.NewMailbox()
		table := inc.Input[number, number](g, "numbers")
		l := newLoop(g, mail, slog.New(slog.DiscardHandler))
		turns := 0
		l.publish = func(inc.Stats) { turns++ }
		deadline := time.Now().Add(time.Minute)
		l.due = func(now time.Time) ([]func(*inc.Tx), time.Time) {
			if now.Before(deadline) {
				return nil, deadline
			}
			return []func(*inc.Tx){func(tx *inc.Tx) { table.Set(tx, 99, 99) }}, time.Time{}
		}
		for i := range number(3) {
			mail.Put(urgent, i, func(tx *inc.Tx) { table.Set(tx, i, i) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		go l.run(ctx)
		synctest.Wait()
		rows := func() (n int) {
			if err := l.look(t.Context(), func() { n = table.Len() }); err != nil {
				t.Error(err)
			}
			return n
		}
		if turns != 1 || rows() != 3 {
			t.Errorf("%d turns, %d rows: want one turn with all three", turns, rows())
		}
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		if rows() != 4 {
			t.Errorf("%d rows after what was due", rows())
		}
		cancel()
		synctest.Wait()
		if err := l.look(t.Context(), func() {}); !errors.Is(err, errStopped) {
			t.Errorf("looking at a loop that ended: %v", err)
		}
	})
}

// world is a program with its outputs, committed by hand.
type world struct {
	g     *inc.Graph
	p     *fleet.Program
	zones *zone.Tables
	envoy *envoy.Tables
	mail  *cluster.Mailbox
}

func newWorld() *world {
	g := inc.New()
	p := fleet.Declare(g)
	return &world{g: g, p: p, envoy: envoy.Declare(g, p), zones: zone.Declare(g, p), mail: cluster.NewMailbox()}
}

func (w *world) put(key any, write func(*inc.Tx)) { w.mail.Put(urgent, key, write) }

// turn commits what is in the mailbox.
func (w *world) turn() {
	writes := w.mail.Take()
	w.g.Commit(func(tx *inc.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
}

const viewOfFra = "eu/eu-a classes=spillway networks=default"

// load writes one host at one member, behind edges at two places.
func (w *world) load() {
	svc := model.ServiceOf("shop", "web")
	backend := model.BackendKey{Service: svc, Port: model.PortRef{Name: "http"}}.Backend()
	id := model.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}
	at := model.MemberService{Service: svc, Member: "eu-1"}
	w.g.Commit(func(tx *inc.Tx) {
		in := &w.p.In
		in.Classes.Set(tx, "spillway", model.ClassSpec{Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "spillway"}}, Default: true})
		in.Zones.Set(tx, model.ZoneID{Namespace: "s", Name: "example"}, model.ZoneSpec{Domain: "example", TTL: 5, SOA: model.SOA{Minimum: 5}})
		for i, e := range []model.Edge{"fra", "nyc"} {
			place := []model.Place{{Region: "eu", Zone: "eu-a"}, {Region: "us", Zone: "us-a"}}[i]
			in.Edges.Set(tx, e, model.EdgeSpec{Place: place, Networks: []string{"default"}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}})
		}
		in.Members.Set(tx, "eu-1", model.MemberSpec{Place: model.Place{Region: "eu"}, Networks: []string{"default"}})
		in.Sources.Set(tx, "eu-1", model.Source{Connected: true})
		in.Roots.Set(tx, id, model.Root{})
		in.Rules.Set(tx, model.RulesID{Root: id, Host: "shop.example"}, model.Rules{{
			Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backend, Weight: 1}}},
		}})
		in.Services.Set(tx, at, model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
		in.Slices.Set(tx, model.SliceID{MemberService: at, Name: "x"}, model.Slice{
			Ports: []model.SlicePort{{Name: "http", Number: 8080}}, Endpoints: model.EndpointsOf(model.Endpoint{Addr: netip.MustParseAddr("10.1.0.1")}),
		})
	})
}

func TestEvidenceCostsACommitOnlyWhenItDiffersAndExpires(t *testing.T) {
	w := newWorld()
	e := newEvidence(w.p.In.Reports, w.put)
	start := time.Unix(1000, 0)
	report := func(at time.Time, healthy ...bool) {
		r := hds.Report{Proxy: xds.Proxy{Edge: "fra", Node: "1"}, At: at}
		for i, h := range healthy {
			r.Canaries = append(r.Canaries, hds.CanaryHealth{Canary: hds.Canary{Member: "eu-1", Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(i))}, Healthy: h})
		}
		e.heard(r)
	}
	id := model.ReportID{Edge: "fra", Proxy: "1", Member: "eu-1"}
	report(start, true, false, false)
	if w.mail.Len() != 1 {
		t.Fatalf("%d letters", w.mail.Len())
	}
	w.turn()
	if row, _ := w.p.In.Reports.Get(nil, id); row != (model.Report{Canaries: 3, Failing: 2}) {
		t.Errorf("row %+v", row)
	}
	report(start.Add(time.Second), false, true, false)
	if w.mail.Len() != 0 {
		t.Error("the same counts cost a commit")
	}
	writes, next := e.expire(start.Add(reportTTL))
	if len(writes) != 0 || !next.Equal(start.Add(time.Second+reportTTL)) {
		t.Errorf("%d writes, next %v: a repeated report lives on", len(writes), next)
	}
	writes, next = e.expire(next)
	if len(writes) != 1 || !next.IsZero() {
		t.Fatalf("%d writes, next %v", len(writes), next)
	}
	w.g.Commit(writes[0])
	if _, ok := w.p.In.Reports.Get(nil, id); ok {
		t.Error("an expired report is still evidence")
	}
}

// TestTheSameReportProlongsTheLastOne: all of it, as long as nothing of it was
// replaced or has ended.
func TestTheSameReportProlongsTheLastOne(t *testing.T) {
	w := newWorld()
	e := newEvidence(w.p.In.Reports, w.put)
	start := time.Unix(1000, 0)
	heard := func(at time.Time, healthy bool, members ...string) func(time.Time) bool {
		r := hds.Report{Proxy: xds.Proxy{Edge: "fra", Node: "1"}, At: at}
		for _, m := range members {
			r.Canaries = append(r.Canaries, hds.CanaryHealth{Canary: hds.Canary{Member: m}, Healthy: healthy})
		}
		return e.heard(r)
	}
	first := heard(start, true, "eu-1", "eu-2", "us-1")
	w.turn()
	at := start.Add(reportTTL / 2)
	if !first(at) || w.mail.Len() != 0 {
		t.Fatalf("the same report: %d letters", w.mail.Len())
	}
	if writes, next := e.expire(start.Add(reportTTL)); len(writes) != 0 || !next.Equal(at.Add(reportTTL)) {
		t.Errorf("%d writes, next %v: it counts on", len(writes), next)
	}
	second := heard(at.Add(1), false, "eu-1") // about a part of what it was about
	if first(at.Add(2)) {
		t.Error("prolonged though it is not the last word of eu-1")
	}
	w.turn()
	last := at.Add(reportTTL - 1)
	if !second(last) {
		t.Error("the last report of eu-1 does not stand")
	}
	if writes, next := e.expire(at.Add(reportTTL)); len(writes) != 2 || !next.Equal(last.Add(reportTTL)) {
		t.Errorf("%d writes, next %v: the others are over", len(writes), next)
	}
	if writes, _ := e.expire(last.Add(reportTTL)); len(writes) != 1 || second(last.Add(reportTTL)) {
		t.Errorf("%d writes, or it goes on after its end", len(writes))
	}
}

// TestAnEdgeNarrowsTheIdentitiesOfItsProxies: and open streams are asked again
// when it does, or goes.
func TestAnEdgeNarrowsTheIdentitiesOfItsProxies(t *testing.T) {
	w := newWorld()
	rechecked := 0
	d := newDirectory(w.p, func(string) string { return "" }, func() {}, func() { rechecked++ })
	w.load()
	d.flush()
	const id, other = "spiffe://one/edge/fra", "spiffe://two/edge/fra"
	if !d.allows("fra", id) || !d.allows("fra", other) || rechecked != 0 {
		t.Errorf("an Edge without a list takes whoever the client CA vouches for; rechecked %d times", rechecked)
	}
	edit := func(f func(*model.EdgeSpec)) {
		w.g.Commit(func(tx *inc.Tx) {
			spec, _ := w.p.In.Edges.Get(nil, "fra")
			f(&spec)
			w.p.In.Edges.Set(tx, "fra", spec)
		})
		d.flush()
	}
	edit(func(e *model.EdgeSpec) { e.Identities = []string{id} })
	if !d.allows("fra", id) || d.allows("fra", other) || rechecked != 1 {
		t.Errorf("a list is not followed, or streams not asked again: %d times", rechecked)
	}
	edit(func(e *model.EdgeSpec) { e.Networks = append(slices.Clone(e.Networks), "more") })
	if rechecked != 1 {
		t.Error("streams are asked again when nobody's right changed")
	}
	w.g.Commit(func(tx *inc.Tx) { w.p.In.Edges.Delete(tx, "fra") })
	d.flush()
	if rechecked != 2 {
		t.Error("streams of an Edge that is gone are not asked again")
	}
}

func TestAnEdgeLeavesDNSWhenBothWitnessesAgreeAndComesBack(t *testing.T) {
	w := newWorld()
	now := time.Unix(1000, 0)
	woken := 0
	wit := newWitnesses(w.p, w.zones, func() time.Time { return now }, func() { woken++ })
	wit.probeNotices = 5 * time.Second
	var targets []probe.Target
	wit.setTargets = func(_ model.Edge, t []probe.Target) { targets = append(targets, t...) }
	var snap *zone.Snapshot
	out := newDNS(w.zones, nil, func(s *zone.Snapshot) { snap = s })
	lastAnswer(w.zones).carry(w.put)
	w.load()
	wit.flush()
	if len(targets) != 2 || targets[0].Addr.String() != "192.0.2.1:80" {
		t.Fatalf("targets %v", targets)
	}
	settle := func() string {
		writes, _ := wit.due(now)
		w.g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		w.turn()
		out.flush()
		if snap == nil {
			return "nothing published"
		}
		row, _ := w.zones.Records.Get(nil, "shop.example")
		return row.Set.String()
	}
	stream := func(edge string, n uint64, open bool) {
		w.g.Commit(func(tx *inc.Tx) {
			wit.streamed(tx, []xds.StreamChange{{Proxy: xds.Proxy{Edge: edge, Node: "1"}, Stream: n, Open: open, Serving: xds.Serving{Serves: open, Loaded: open}}})
		})
	}
	expect := func(when, want string) {
		t.Helper()
		if got := settle(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	expect("before anybody saw an edge", "fra nyc")
	stream("fra", 1, true)
	stream("nyc", 2, true)
	wit.probed(targets[0], probe.Verdict{Health: model.Up})
	wit.probed(targets[1], probe.Verdict{Health: model.Up})
	stream("fra", 1, false)
	expect("the stream of fra is gone, its address answers", "fra nyc")
	wit.probed(targets[0], probe.Verdict{Health: model.Down, Since: now})
	expect("both witnesses", "nyc")
	now = now.Add(2 * lossWindow) // two losses at once would be distrusted
	wit.probed(targets[1], probe.Verdict{Health: model.Unknown})
	stream("nyc", 2, false)
	expect("of the last edge one witness is lost", "nyc")
	now = now.Add(time.Minute)
	expect("for long: nobody is left, so the last set stays", "nyc")
	stream("fra", 3, true)
	expect("fra has a proxy again, but its address does not answer", "nyc")
	wit.probed(targets[0], probe.Verdict{Health: model.Up})
	expect("fra is back", "fra")
	if row, _ := w.p.In.Streams.Get(nil, "fra"); row.Connected != 1 {
		t.Errorf("streams %+v", row)
	}
	for _, tell := range []func(){
		func() { wit.probed(targets[0], probe.Verdict{Health: model.Up}) }, func() { stream("fra", 3, false) },
	} {
		woken = 0
		tell()
		if woken != 1 {
			t.Errorf("woken %d times: nobody would judge it", woken)
		}
	}
}

// TestNamesThatACheckpointLacks: hosts may have come since, until the lists are read.
func TestNamesThatACheckpointLacks(t *testing.T) {
	w := newWorld()
	var snap *zone.Snapshot
	out := newDNS(w.zones, nil, func(s *zone.Snapshot) { snap = s })
	says := func(change func(*inc.Tx)) zone.RCode {
		w.g.Commit(change)
		out.flush()
		name, err := zone.ParseName("late.example")
		if err != nil {
			t.Fatal(err)
		}
		return zone.Answer(snap, zone.Question{Name: []byte(name), Type: zone.TypeA, Class: zone.ClassIN}, zone.Client{}).RCode
	}
	if got := says(func(tx *inc.Tx) {
		w.p.In.Zones.Set(tx, model.ZoneID{Name: "main"}, model.ZoneSpec{Domain: "example", TTL: 5})
		w.zones.Unlisted.Set(tx, model.All{}, model.There{})
	}); got != zone.ServFail {
		t.Errorf("before the lists are read: %v", got)
	}
	if got := says(func(tx *inc.Tx) { w.zones.Unlisted.Delete(tx, model.All{}) }); got != zone.NXDomain {
		t.Errorf("afterwards: %v", got)
	}
}

func TestAcknowledgementsAreLatchedAndForgottenWithTheirHost(t *testing.T) {
	w := newWorld()
	a := newAcks(w.p, w.envoy, time.Now, w.put)
	store := xds.NewStore()
	moved := 0
	x := newProxies(w.p, w.envoy, newGaps(w.p), store, func() { moved++ })
	w.load()
	x.flush()
	if moved != 1 || len(store.Views()) != 2 {
		t.Fatalf("moved %d, views %v", moved, store.Views())
	}
	var route xds.ProxyVerdict
	store.Each(viewOfFra, func(typ xds.TypeURL, r *xds.Resource) {
		if typ == xds.RouteConfiguration {
			route = xds.ProxyVerdict{Proxy: xds.Proxy{Edge: "fra", Node: "1"}, View: viewOfFra, Verdict: xds.Verdict{Type: typ, Name: r.Name, Version: r.Version}}
		}
	})
	if route.Name == "" {
		t.Fatal("no routes were published")
	}
	apply := func(v xds.ProxyVerdict) {
		w.g.Commit(func(tx *inc.Tx) { a.apply(tx, []xds.ProxyVerdict{v}) })
	}
	other := route
	other.Version = "of a version that is not published"
	apply(other)
	if n := w.p.In.Acks.Len(); n != 0 {
		t.Errorf("%d rows for another version", n)
	}
	apply(route)
	host := model.HostKey{Class: "spillway", Host: "shop.example"}
	if by, _ := w.p.In.Acks.Get(nil, host); by != model.EdgesOf("fra") {
		t.Errorf("acknowledged by %v", by)
	}
	bad := route
	bad.Error = "no"
	apply(bad)
	if w.p.In.Rejections.Len() != 1 || w.p.In.Acks.Len() == 0 {
		t.Error("a rejection is a row and takes no acknowledgement away")
	}
	w.g.Commit(func(tx *inc.Tx) { a.forget(tx, []model.HostKey{host}, nil) })
	if _, ok := w.p.In.Acks.Get(nil, host); ok {
		t.Error("a host that is gone is still acknowledged")
	}
	w.g.Commit(func(tx *inc.Tx) { w.p.In.Edges.Delete(tx, "nyc") })
	x.flush()
	if len(store.Views()) != 1 {
		t.Errorf("views %v", store.Views())
	}
}

// TestARejectionIsToldOnceAndForgotten: whoever rejects a version, its owner is
// told once; that ends with the version, and the row with what came after it.
func TestARejectionIsToldOnceAndForgotten(t *testing.T) {
	w := newWorld()
	a := newAcks(w.p, w.envoy, time.Now, w.put)
	w.load()
	root := model.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}
	view, _ := w.p.Views.Get(nil, "fra")
	say := func(node, words string) {
		res, _ := w.envoy.Find(nil, view.Key, envoy.RouteType, "shop.example", false)
		w.g.Commit(func(tx *inc.Tx) {
			a.apply(tx, []xds.ProxyVerdict{{Proxy: xds.Proxy{Edge: "fra", Node: node}, View: viewOfFra, Verdict: xds.Verdict{
				Type: xds.RouteConfiguration, Name: "shop.example", Version: res.Version, Error: words,
			}}})
		})
	}
	rule := func(path string) {
		w.g.Commit(func(tx *inc.Tx) {
			id := model.RulesID{Root: root, Host: "shop.example"}
			rules, _ := w.p.In.Rules.Get(nil, id)
			r := rules[0]
			r.Matches = []model.Match{{Kind: model.PathPrefix, Path: path}}
			w.p.In.Rules.Set(tx, id, model.Rules{r})
		})
	}
	expect := func(when string, findings, rows int) {
		t.Helper()
		w.turn()
		told, _ := w.envoy.Findings.Get(nil, root)
		if len(told) != findings || w.p.In.Rejections.Len() != rows {
			t.Errorf("%s: told %v, %d rows", when, told, w.p.In.Rejections.Len())
		}
	}
	say("1", "no such thing")
	expect("one rejects", 1, 1)
	say("2", "no such thing")
	expect("another rejects it too", 1, 1)
	rule("/new")
	expect("there is a new version", 0, 0)
	say("2", "")
	expect("it was acknowledged", 0, 0)
	say("1", "again")
	expect("another rejects it", 1, 1)
	w.g.Commit(func(tx *inc.Tx) { w.p.In.Roots.Delete(tx, root) })
	expect("the host is gone", 0, 0)
}

// TestAHostThatChangesItsClassStaysAcknowledged: the bytes stay the same, so no
// proxy will say anything about it.
func TestAHostThatChangesItsClassStaysAcknowledged(t *testing.T) {
	w := newWorld()
	a := newAcks(w.p, w.envoy, time.Now, w.put)
	w.g.Commit(func(tx *inc.Tx) {
		w.p.In.Classes.Set(tx, "second", model.ClassSpec{Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "second"}}})
	})
	w.load()
	verdicts := func() (out []xds.ProxyVerdict) {
		for _, key := range w.envoy.Routes.Keys() {
			r, _ := w.envoy.Routes.Get(nil, key)
			for _, edge := range a.edgesWith(key.Collection) {
				view, _ := w.p.Views.Get(nil, edge)
				out = append(out, xds.ProxyVerdict{Proxy: xds.Proxy{Edge: string(edge)}, View: view.Key.String(), Verdict: xds.Verdict{Type: xds.RouteConfiguration, Name: r.Name, Version: r.Version}})
			}
		}
		return out
	}
	before := verdicts()
	w.g.Commit(func(tx *inc.Tx) { a.apply(tx, before) })
	w.g.Commit(func(tx *inc.Tx) {
		for _, id := range w.p.In.Roots.Keys() {
			root, _ := w.p.In.Roots.Get(nil, id)
			root.Classes = "second"
			w.p.In.Roots.Set(tx, id, root)
		}
	})
	if after := verdicts(); !slices.Equal(before, after) {
		t.Fatalf("versions differ: %v, %v", before, after)
	}
	w.turn()
	second := model.HostKey{Class: "second", Host: "shop.example"}
	if by, _ := w.p.In.Acks.Get(nil, second); by != model.EdgesOf("fra", "nyc") {
		t.Errorf("acknowledged by %v", by)
	}
	w.g.Commit(func(tx *inc.Tx) { a.forget(tx, nil, []model.Edge{"fra"}) })
	if by, _ := w.p.In.Acks.Get(nil, second); by != model.EdgesOf("nyc") {
		t.Errorf("once an edge is gone, acknowledged by %v", by)
	}
	w.g.Commit(func(tx *inc.Tx) { a.forget(tx, nil, []model.Edge{"nyc"}) })
	if n := w.p.In.Acks.Len(); n != 0 {
		t.Errorf("%d hosts without edges are acknowledged", n)
	}
}

func TestDirectoryProbesMembersThatAnEdgeDials(t *testing.T) {
	w := &world{g: inc.New(), mail: cluster.NewMailbox()}
	w.p = fleet.Declare(w.g)
	w.zones = zone.Declare(w.g, w.p)
	changed := 0
	d := newDirectory(w.p, func(string) string { return viewOfFra }, func() { changed++ }, func() {})
	w.load()
	d.flush()
	d.flush()
	if changed != 1 {
		t.Errorf("told %d times", changed)
	}
	want := hds.Canary{Member: "eu-1", Addr: netip.MustParseAddrPort("10.1.0.1:8080")}
	if got := d.probes("fra"); len(got) != 1 || got[0] != want {
		t.Errorf("probes %v", got)
	}
	if view, ok := d.viewOf("fra"); !ok || view != viewOfFra {
		t.Errorf("view %q %v", view, ok)
	}
	if _, ok := d.viewOf("none"); ok || d.probes("none") != nil {
		t.Error("an edge that is not there has a view or probes")
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.p.In.Members.Set(tx, "eu-1", model.MemberSpec{Place: model.Place{Region: "eu"}, Networks: []string{"other"}})
	})
	if got := d.probes("fra"); len(got) != 0 {
		t.Errorf("a member of another network is probed: %v", got)
	}
}

// The number of parts of a backend stays while its endpoints come and go a little.
func TestPartsAreRemembered(t *testing.T) {
	w := newWorld()
	lastParts(w.envoy).carry(w.put)
	w.load()
	b := model.BackendKey{Service: model.ServiceOf("shop", "web"), Port: model.PortRef{Name: "http"}}.Backend()
	id := w.p.In.Slices.Keys()[0]
	for _, c := range []struct {
		endpoints int
		want      envoy.Parts
	}{{1200, 2}, {900, 2}, {1200, 2}, {600, 0}, {900, 0}} {
		w.g.Commit(func(tx *inc.Tx) {
			slice, _ := w.p.In.Slices.Get(nil, id)
			first, all := slice.Endpoints.List()[0], []model.Endpoint(nil)
			for i := range c.endpoints {
				first.Addr = netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)})
				all = append(all, first)
			}
			slice.Endpoints = model.EndpointsOf(all...)
			w.p.In.Slices.Set(tx, id, slice)
		})
		w.turn()
		w.turn() // what it remembered changes nothing
		if got, _ := w.envoy.Parts.Get(nil, b); got != c.want {
			t.Errorf("%d endpoints are in %d parts, want %d", c.endpoints, got, c.want)
		}
		if got, _ := w.envoy.LastParts.Get(nil, b); got != c.want {
			t.Errorf("remembered %d, want %d", got, c.want)
		}
	}
}
