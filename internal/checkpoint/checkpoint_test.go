package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a program with a store.
type world struct {
	g     *inc.Graph
	in    *fleet.Inputs
	s     *Store
	log   *bytes.Buffer
	found bool
}

func register(s *Store, p *fleet.Program) {
	in := &p.In
	RegisterRoots(s, "roots", in.Roots, in.Rules, p.RulesOf)
	Register(s, "problems", in.Problems)
	Register(s, "classes", in.Classes)
	Register(s, "configs", in.Configs)
	Register(s, "edges", in.Edges)
	Register(s, "zones", in.Zones)
	Register(s, "certificates", in.Certificates)
	Register(s, "members", in.Members)
	Register(s, "sources", in.Sources)
	Register(s, "services", in.Services)
	Register(s, "slices", in.Slices)
	RegisterAcks(s, "acks", in.Acks)
	Register(s, "rejections", in.Rejections)
	Register(s, "gateway-classes", in.GatewayClasses)
	Register(s, "gateways", in.Gateways)
	Register(s, "listener-sets", in.ListenerSets)
	Register(s, "grants", in.Grants)
	Register(s, "namespaces", in.Namespaces)
	Register(s, "bundles", in.Bundles)
	Register(s, "releases", in.Releases)
	Register(s, "tls-policies", in.TLSPolicies)
	Register(s, "placements", in.Placements)
	Register(s, "kept", in.Kept)
	Register(s, "rollouts", in.Rollouts)
}

func open(t testing.TB, dir string) *world {
	t.Helper()
	w := &world{g: inc.New(), log: &bytes.Buffer{}}
	p := fleet.Declare(w.g)
	w.in = &p.In
	var err error
	w.s, err = Open(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	register(w.s, p)
	w.found = w.s.Restore(w.g)
	return w
}

// commit commits as the app does.
func (w *world) commit(f func(*inc.Tx)) {
	w.g.Commit(f)
	w.s.Committed()
}

// text is all input rows, in order.
func (w *world) text(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, s := range w.g.Tables() {
		if s.Input {
			fmt.Fprintf(&b, "== %s\n", s.Name)
			if err := w.g.WriteText(&b, s.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.String()
}

var (
	webID = model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}
	view  = model.ViewKey{Classes: "c", VantageKey: model.VantageKey{Networks: "default", Place: model.Place{Region: "eu", Latitude: 50.1, Longitude: 8, Located: true}}}.View()
)

// everything writes a row with every field set, of each table.
func everything(in *fleet.Inputs) func(*inc.Tx) {
	backend := model.BackendKey{Service: model.ServiceOf("shop", "web"), Port: model.PortRef{Name: "http", Number: 80}}.Backend()
	ms := model.MemberService{Service: backend.Service(), Member: "eu-1"}
	return func(tx *inc.Tx) {
		in.Roots.Set(tx, webID, model.Root{
			Created: 7, Classes: "c",
			Default: &backend, TLS: []model.TLS{{Hosts: []model.Host{"a"}, Secret: model.SecretID{Namespace: "shop", Name: "cert"}, Field: "g"}},
			Published: model.TextsOf([]string{"192.0.2.1"}), Ours: true,
		})
		in.Rules.Set(tx, model.RulesID{Root: webID, Host: "shop.example"}, model.Rules{
			{Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backend, Weight: 3}}}, Field: "f"},
			{Name: "n", Matches: []model.Match{
				{Kind: model.PathRegex, Path: "/a.*", When: model.ConditionsKey{Method: "POST", Headers: model.ValuesOf(model.ValueMatch{Name: "x", Value: "1"})}.Conditions()},
				{Kind: model.PathExact, Path: "/a"},
			}, Action: model.Action{Reply: &model.Reply{Status: 308, Redirect: &model.Redirect{Scheme: "https", Path: "/b", Prefix: true}}}, Field: "g"},
			{Matches: []model.Match{{Kind: model.PathExact, Path: "/c"}}, Field: "g"},
		})
		route := model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "web"}
		in.Roots.Set(tx, route, model.Root{Created: 7, Published: model.TextsOf([]string{"said"}), Ours: true, Route: &model.RouteSpec{
			Generation: 2, Parents: []model.Parent{{Group: model.GatewayGroup, Kind: "Gateway", Namespace: "infra", Name: "web", Section: "http", Port: 80}},
			Broken: model.Refusal{Reason: "b", Message: "broken"}, Refused: model.Refusal{Reason: "r", Message: "refused"},
		}})
		in.Rules.Set(tx, model.RulesID{Root: route, Host: "**.shop.example"}, model.Rules{
			{Matches: []model.Match{model.Everything}, Action: model.Action{Backends: []model.WeightedBackend{{Weight: 1}, {Backend: backend, Weight: 2}}}, Field: "f"},
		})
		in.GatewayClasses.Set(tx, "c", model.GatewayClassSpec{Generation: 1, Config: "d"})
		web := model.GatewayID{Workspace: "w", Namespace: "shop", Name: "web"}
		listeners := []model.Listener{{
			Name: "https", Port: 443, Protocol: model.HTTPS, Host: "**.shop.example", Secrets: []model.SecretID{{Namespace: "shop", Name: "cert"}},
			Routes:  model.Attachable{From: model.SelectedNamespaces, Selector: "a=b", Kinds: model.TextsOf([]string{"HTTPRoute"})},
			Refused: model.Refusal{Reason: "r", Message: "refused"}, Broken: model.Refusal{Reason: "b", Message: "broken"}, Field: "f",
		}}
		in.Gateways.Set(tx, web, model.GatewaySpec{Created: 1, Generation: 2, Class: "c", Listeners: listeners, Sets: &model.Attachable{From: model.SelectedNamespaces, Selector: "a=b"}})
		in.ListenerSets.Set(tx, model.Object{Workspace: "w", Kind: model.ListenerSetKind, Namespace: "shop", Name: "web"}, model.ListenerSetSpec{Created: 1, Generation: 2, Gateway: web, Listeners: listeners})
		in.Grants.Set(tx, model.Object{Kind: "ReferenceGrant", Namespace: "shop", Name: "web"}, model.Grant{From: []model.GrantFrom{{Kind: "a"}}, To: []model.GrantTo{{Kind: "b", Name: "c"}}})
		in.Namespaces.Set(tx, model.NamespaceID{Workspace: "w", Name: "shop"}, model.Labels{"a": "b", "c": "d"})
		in.Releases.Set(tx, model.GatewayDefinition("w"), model.Release{Version: "v1.7.0", Channel: "standard"})
		in.Problems.Set(tx, webID, model.Findings{model.WarningOf(webID, "x", "y", "z")})
		in.Classes.Set(tx, "c", model.ClassSpec{Origin: model.Origin{Created: 1}, Default: true, Config: "d"})
		in.Configs.Set(tx, "d", model.ConfigSpec{Edges: "a=b", EdgeNames: []string{"fra"}, HTTPPort: 80, Zones: []model.ZoneID{{Name: "z"}}, Timing: model.Timing{ConnectTimeout: 5}})
		in.Edges.Set(tx, "fra", model.EdgeSpec{Labels: map[string]string{"a": "b"}, Place: view.Place(), Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::1")}})
		in.Zones.Set(tx, model.ZoneID{Name: "z"}, model.ZoneSpec{Domain: "shop.example", NameServers: []model.NameServer{{Host: "ns", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}}, SOA: model.SOA{Refresh: 1}, ServerTTL: 60})
		in.Certificates.Set(tx, model.SecretID{Namespace: "shop", Name: "cert"}, model.Certificate{Chain: []byte("CHAIN"), Key: []byte("hidden"), Names: []string{"a"}, NotAfter: 9})
		in.Members.Set(tx, "eu-1", model.MemberSpec{Created: 3, Place: view.Place(), Networks: []string{"default"}, Seen: true})
		in.Sources.Set(tx, "eu-1", model.Source{Connected: true})
		in.Services.Set(tx, ms, model.ServiceSpec{Kind: model.ServiceHeadless, Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
		in.Slices.Set(tx, model.SliceID{MemberService: ms, Name: "web-1"}, model.Slice{
			Ports:     []model.SlicePort{{Name: "http", Number: 8080}},
			Endpoints: model.EndpointsOf(model.Endpoint{Addr: netip.MustParseAddr("10.1.0.1"), Zone: model.ZoneOf("eu-a"), State: model.EndpointDraining}),
		})
		in.Acks.Set(tx, model.HostKey{Class: "c", Host: "shop.example"}, model.EdgesOf("fra", "nyc"))
		in.Rollouts.Set(tx, webID, model.Rollout{
			Editions: []model.Edition{{ID: "a", Body: "b"}, {ID: "c", Body: "d", Reach: 1, Stopped: model.Stop{Member: "eu-1", Why: "e", Wave: 1}, Stops: 2}},
			Waves:    3, Since: 7, Over: true, Back: true, Bases: []model.Basis{{Member: "eu-1", Fine: model.TextsOf([]string{"f"}), Lost: model.TextsOf([]string{"g"})}},
		})
		in.Kept.Set(tx, backend, model.Kept{{Member: "eu-1"}, {Member: "eu-2", Since: 5, Over: true}})
		in.Rejections.Set(tx, model.RejectionID{Edge: "fra", Type: "t", Name: "n", GRPC: true}, model.Rejection{Version: "1", Error: "bad", By: []model.Refuser{{Node: "fra-1", Version: "1.40"}}})
	}
}

// TestEverything: every row comes back as it was, keys of certificates too;
// nothing of it can be read in the files, which are ours alone.
func TestEverything(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	if w.found {
		t.Error("found something in an empty folder")
	}
	w.commit(everything(w.in))
	if err := w.s.flush(); err != nil || w.s.file != nil {
		t.Fatalf("written before the rows are complete: %v", err)
	}
	w.s.Complete()
	w.s.Committed()
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	want := w.text(t)
	w.s.close()
	for _, name := range []string{fileName, keyName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hidden", "CHAIN", "shop"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s shows %q", name, secret)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	again := open(t, dir)
	defer again.s.close()
	if got := again.text(t); got != want || !again.found {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if c, _ := again.in.Certificates.Get(nil, model.SecretID{Namespace: "shop", Name: "cert"}); string(c.Key) != "hidden" {
		t.Error("the certificate lost its key")
	}
	again.s.Committed()
	if len(again.s.pending) > 0 {
		t.Error("what was restored would be written again")
	}
}

// TestCrash: whatever a crash leaves of the file, a start finds the state
// after one of the commits that were flushed, or nothing and says so; never a
// mixture. A byte that flipped is no different.
func TestCrash(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		w := open(t, dir)
		w.s.Complete()
		states := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "flushes") {
			for range rapid.IntRange(1, 3).Draw(rt, "commits") {
				w.commit(func(tx *inc.Tx) {
					for range rapid.IntRange(1, 4).Draw(rt, "writes") {
						m := rapid.SampledFrom([]model.Member{"a", "b", "c"}).Draw(rt, "member")
						if rapid.Bool().Draw(rt, "delete") {
							w.in.Members.Delete(tx, m)
							w.in.Sources.Delete(tx, m)
						} else {
							n := rapid.Int64Range(1, 1e6).Draw(rt, "n")
							w.in.Members.Set(tx, m, model.MemberSpec{Created: n})
							w.in.Sources.Set(tx, m, model.Source{StaleSince: n})
						}
					}
				})
			}
			if err := w.s.flush(); err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 5).Draw(rt, "compact") == 0 && w.s.file != nil {
				if err := w.s.compact(); err != nil {
					rt.Fatal(err)
				}
				clear(states)
			}
			states[w.text(t)] = true
		}
		last := w.text(t)
		w.s.close()
		path := filepath.Join(dir, fileName)
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return // nothing ever changed
		}
		cut := rapid.IntRange(0, len(data)).Draw(rt, "cut")
		harmed := bytes.Clone(data[:cut])
		if flip := rapid.IntRange(-1, len(harmed)-1).Draw(rt, "flip"); flip >= 0 && rapid.Bool().Draw(rt, "flips") {
			harmed[flip] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		if err := os.WriteFile(path, harmed, 0o600); err != nil {
			rt.Fatal(err)
		}
		again := open(t, dir)
		defer again.s.close()
		got := again.text(t)
		switch {
		case bytes.Equal(harmed, data):
			if got != last || !again.found {
				rt.Fatalf("an intact file gave\n%s\nwant\n%s", got, last)
			}
		case again.found && !states[got]:
			rt.Fatalf("a state that never was:\n%s", got)
		case !again.found && !strings.Contains(again.log.String(), "can't be used"):
			rt.Fatal("it was dropped without a word")
		}
		// And the store goes on from there.
		again.s.Complete()
		again.commit(func(tx *inc.Tx) { again.in.Members.Set(tx, "z", model.MemberSpec{Created: 1}) })
		if err := again.s.flush(); err != nil {
			rt.Fatal(err)
		}
		want := again.text(t)
		again.s.close()
		third := open(t, dir)
		defer third.s.close()
		if got := third.text(t); got != want {
			rt.Fatalf("after going on:\n%s\nwant\n%s", got, want)
		}
	})
}

// TestKeyAndLock: another key, a bad key, two processes.
func TestKeyAndLock(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	w.s.Complete()
	w.commit(everything(w.in))
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("two stores in one folder: %v", err)
	}
	w.s.close()
	if err := os.Remove(filepath.Join(dir, keyName)); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir)
	if other.found || strings.Count(other.log.String(), "\n") != 1 {
		t.Errorf("with another key: found %v, log %q", other.found, other.log)
	}
	other.s.close()
	if err := os.WriteFile(filepath.Join(dir, keyName), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), keyName) {
		t.Errorf("a bad key: %v", err)
	}
}

// TestUnreadableRow: one row that can't be read is no half start.
func TestUnreadableRow(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	w.s.Complete()
	w.commit(everything(w.in))
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.s.file.append(time.Now(), listed(record{Table: "members", Key: []byte{0x63, 'x', 'y', 'z'}, Value: []byte{0x01}})); err != nil {
		t.Fatal(err)
	}
	w.s.close()
	again := open(t, dir)
	defer again.s.close()
	if again.found || again.in.Roots.Len() != 0 || !strings.Contains(again.log.String(), "members") {
		t.Errorf("found %v, roots %d, log %q", again.found, again.in.Roots.Len(), again.log)
	}
}

// TestFailingDisk: what can't be written is kept, once per row, and written later.
func TestFailingDisk(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	w.s.Complete()
	set := func(m model.Member, n int64) {
		w.commit(func(tx *inc.Tx) { w.in.Members.Set(tx, m, model.MemberSpec{Created: n}) })
	}
	set("a", 1)
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	good := w.s.file.file
	closed, err := os.Open(filepath.Join(dir, fileName)) // can't be written
	if err != nil {
		t.Fatal(err)
	}
	w.s.file.file = closed
	set("b", 1)
	if w.s.flush() == nil {
		t.Fatal("written to a file that can't be")
	}
	set("b", 2)
	if w.s.flush() == nil || len(w.s.pending) != 1 {
		t.Fatalf("%d rows pending", len(w.s.pending))
	}
	_ = closed.Close()
	w.s.file.file = good
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	want := w.text(t)
	w.s.close()
	again := open(t, dir)
	defer again.s.close()
	if got := again.text(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestRun: many commits are few writes, and the end writes what is left.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, dir)
		w.s.Complete()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.s.Run(ctx); close(done) }()
		start := time.Now()
		for i := range int64(100) {
			w.commit(func(tx *inc.Tx) { w.in.Members.Set(tx, "a", model.MemberSpec{Created: i}) })
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if most := uint64(time.Since(start)/every) + 2; w.s.file.frames > most {
			t.Errorf("%d writes in %v", w.s.file.frames, time.Since(start))
		}
		w.commit(func(tx *inc.Tx) { w.in.Members.Set(tx, "last", model.MemberSpec{}) })
		end()
		<-done
	})
	again := open(t, dir)
	defer again.s.close()
	if m, _ := again.in.Members.Get(nil, "a"); m.Created != 99 || again.in.Members.Len() != 2 {
		t.Errorf("a is %+v, %d rows", m, again.in.Members.Len())
	}
}

// TestOneWriteForAChangeAndWhatFollows: a change, and what proxies acknowledge of
// it a moment later, are one write.
func TestOneWriteForAChangeAndWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, t.TempDir())
		w.s.Complete()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.s.Run(ctx); close(done) }()
		change := func(name model.Member) {
			w.commit(func(tx *inc.Tx) { w.in.Members.Set(tx, name, model.MemberSpec{}) })
		}
		change("first")
		time.Sleep(3 * every)
		synctest.Wait()
		before := w.s.file.frames
		change("a")
		time.Sleep(every / 2)
		change("b")
		time.Sleep(3 * every)
		synctest.Wait()
		if n := w.s.file.frames - before; n != 1 {
			t.Errorf("%d writes", n)
		}
		end()
		<-done
	})
}

// TestUnwritableTypes: a type that would lose something is refused when the
// program starts, not found out when it is needed.
func TestUnwritableTypes(t *testing.T) {
	w := open(t, t.TempDir())
	defer w.s.close()
	defer func() {
		if p := recover(); p == nil {
			t.Error("accepted")
		}
	}()
	Register(w.s, "hidden", inc.Input[model.Member, hiding](inc.New(), "hidden"))
}

type hiding struct{ secret int }

func (a hiding) Equal(b hiding) bool { return a.secret == b.secret }

// TestAge: the rows stay, the time is another.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	w.s.Complete()
	w.commit(everything(w.in))
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	want := w.text(t)
	w.s.close()
	if err := Age(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	defer again.s.close()
	if got := again.text(t); got != want || !again.found {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if age := time.Since(again.s.saved); age < time.Hour || age > 2*time.Hour {
		t.Errorf("it is %s old", age)
	}
}
