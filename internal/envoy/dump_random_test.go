package envoy

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

var dumpSeed = flag.Uint64("dump-seed", 0, "the only seed of TestConfigDumpEqualsView; 0: some fixed ones and a new one")

// drainTime is for how long a listener drains, which the control plane waits for.
const drainTime = time.Second

// dumpRun is a world whose inputs a seed writes, a real Envoy that follows it,
// and a control plane that comes and goes.
type dumpRun struct {
	*rig
	t      *testing.T
	rng    *rand.Rand
	socket string
	busy   int // a port that Envoy can't have
	free   int

	restarts int
	nacks    map[string]int // by type
}

// TestConfigDumpEqualsView: however rows change, whatever is refused, and
// however often the control plane ends and starts, with its store or with a new
// one, in the end Envoy holds what the view says, resource by resource.
func TestConfigDumpEqualsView(t *testing.T) {
	seeds := []uint64{1, 2, 3, 1124911432, rand.Uint64N(1 << 32)}
	if *dumpSeed != 0 {
		seeds = []uint64{*dumpSeed}
	}
	runs := make([]*dumpRun, len(seeds))
	t.Run("all", func(t *testing.T) {
		for i, seed := range seeds {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel() // they wait most of the time
				runs[i] = newDumpRun(t, seed)
				for range 2 {
					for range 60 {
						runs[i].step()
					}
					runs[i].mend()
					runs[i].equal()
				}
				t.Logf("%d restarts; Envoy refused %v", runs[i].restarts, runs[i].nacks)
			})
		}
	})
	refused, restarts := map[string]int{}, 0
	for _, r := range runs {
		for what, n := range r.nacks {
			refused[what] += n
		}
		restarts += r.restarts
	}
	if *dumpSeed == 0 && (len(refused) < 3 || restarts < 10) {
		t.Errorf("too little happened for this to show anything: %d restarts, refused %v", restarts, refused)
	}
}

func newDumpRun(t *testing.T, seed uint64) *dumpRun {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &dumpRun{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), socket: filepath.Join(t.TempDir(), "xds.sock"),
		busy: l.Addr().(*net.TCPAddr).Port, free: envoytest.FreePort(t), nacks: map[string]int{},
		rig: &rig{feed: newFeed(usual, (*Tables).Types), http: envoytest.FreePort(t), https: envoytest.FreePort(t)},
	}
	r.commit(func(tx *inc.Tx) {
		r.classWith(tx, testClass, 1, uint16(r.http), uint16(r.https), static, true)
		r.edge(tx, "fra", testView)
	})
	r.serve()
	t.Cleanup(func() { r.stop() })
	admin := envoytest.Loopback(t)
	boot, err := bootstrap.Render(bootstrap.Options{Edge: "fra", NodeID: "test", XDSSocket: r.socket, AdminAddress: admin})
	if err != nil {
		t.Fatal(err)
	}
	r.proc = envoytest.Start(t, boot, admin, "--drain-time-s", fmt.Sprint(drainTime.Seconds())) // a listener that drains keeps its secrets
	envoytest.Until(t, "Envoy to listen", func() bool { return r.listens(r.http) })
	return r
}

// serve starts a control plane on the store.
func (r *dumpRun) serve() {
	r.t.Helper()
	l, err := xds.ListenUnix(r.socket)
	if err != nil {
		r.t.Fatal(err)
	}
	r.stop = r.rig.serve(r.t, l, xds.Config{Limits: xds.Limits{Grace: 100 * time.Millisecond, Drain: drainTime}})
}

// restart ends the control plane and starts another one; a fresh one knows
// nothing but the tables.
func (r *dumpRun) restart(fresh bool, while func()) {
	r.restarts++
	r.stop()
	while()
	if fresh {
		r.store = xds.NewStore()
		for _, typ := range r.rig.t.Types() {
			for _, key := range typ.Table.Keys() {
				res, _ := typ.Table.Get(nil, key)
				r.collect(typ.URL, []inc.Change[Key, Resource]{{Key: key, New: &res}})
			}
		}
		r.publish()
	}
	r.serve()
}

func (r *dumpRun) one(of ...string) string { return of[r.rng.IntN(len(of))] }

// step changes rows, lets Envoy take what there is, or ends the control plane.
func (r *dumpRun) step() {
	switch n := r.rng.IntN(20); {
	case n == 0:
		r.restart(r.rng.IntN(2) == 0, func() {
			for range r.rng.IntN(4) {
				r.commit(r.edit())
			}
		})
	case n < 4:
		r.taken()
	default:
		edits := make([]func(*inc.Tx), 1+r.rng.IntN(3))
		for i := range edits {
			edits[i] = r.edit()
		}
		r.commit(func(tx *inc.Tx) {
			for _, f := range edits {
				f(tx)
			}
		})
	}
	_, verdicts := r.reports.Take()
	for _, v := range verdicts {
		if v.Error != "" {
			r.nacks[string(v.Type[strings.LastIndexByte(string(v.Type), '.')+1:])]++
		}
	}
}

// taken waits until Envoy has answered whatever there is to send, be it that it
// refuses a listener.
func (r *dumpRun) taken() {
	r.t.Helper()
	envoytest.Until(r.t, "Envoy to answer", func() bool {
		streams := r.server.Streams()
		return len(streams) == 1 && len(streams[0].Types) > 0 && !slices.ContainsFunc(streams[0].Types, func(s xds.TopicStatus) bool {
			return s.Pending+s.Gated+s.Waiting > 0
		})
	})
}

var (
	dumpHosts    = []string{"", "a.example", "b.example", "*.example", "**.example", "**.c.example"}
	dumpBackends = []string{"ns/x/http", "ns/y/http", "ns/z/http"}
	dumpSecrets  = []string{"cert0", "cert1"}
)

// edit draws a change of rows from a small domain; some are such that Envoy
// refuses what is made of them.
func (r *dumpRun) edit() func(*inc.Tx) {
	host, b, secret := model.Host(r.one(dumpHosts...)), r.one(dumpBackends...), r.one(dumpSecrets...)
	key, n, gone := model.HostKey{Class: testClass, Host: host}, r.rng.IntN(5), r.rng.IntN(3) == 0
	switch r.rng.IntN(10) {
	case 0, 1, 2:
		if gone {
			return func(tx *inc.Tx) { r.p.Hosts.Delete(tx, key) }
		}
		def, path := target("r", b), fmt.Sprint("/p", n)
		if n == 4 {
			path = "/p#" // no prefix has a fragment
		}
		return func(tx *inc.Tx) {
			r.useAll(tx)
			r.host(tx, testClass, host, &def, fleet.Route{Match: prefix(path), Target: target("r", dumpBackends[:n%4]...)})
		}
	case 3:
		return func(tx *inc.Tx) { r.use(tx, testView, b, []string{"", "kubernetes.io/h2c", "kubernetes.io/ws"}[n%3]) }
	case 4, 5:
		member, net := model.Member("eu-1"), 1
		if gone {
			member, net = "us-1", 2
		}
		var eps []model.Endpoint
		for i := range n {
			eps = append(eps, endpointAt(fmt.Sprintf("127.0.%d.%d", net, 1+i), uint16(1+r.rng.IntN(3))))
		}
		return func(tx *inc.Tx) { r.group(tx, b, member, eps...) }
	case 6:
		far := share("us-1", n%2)
		far.State = steer.State(n % 3)
		return func(tx *inc.Tx) { r.plan(tx, testView, b, share("eu-1", 0), far) }
	case 7:
		return r.certificateEdit(secret, n == 4)
	case 8:
		key.Host = host.TLSName()
		if gone {
			return func(tx *inc.Tx) { r.p.Chains.Delete(tx, key) }
		}
		return func(tx *inc.Tx) {
			r.p.Chains.Set(tx, key, fleet.Chain{Secrets: []model.SecretID{{Namespace: "shop", Name: secret}}})
		}
	}
	switch n {
	case 0:
		return r.younger(r.busy)
	case 1, 2:
		return r.younger(r.free)
	case 3:
		return r.alone
	}
	return r.timing(int64(100 + 100*r.rng.IntN(4)))
}

// useAll is fleet's promise: a backend of a host is used.
func (r *dumpRun) useAll(tx *inc.Tx) {
	for _, b := range dumpBackends {
		id := need{view: testView, backend: backend(b)}
		if _, ok := r.needs.Get(nil, id); !ok {
			r.use(tx, testView, b, "")
		}
	}
}

func (r *dumpRun) certificateEdit(secret string, bad bool) func(*inc.Tx) {
	return func(tx *inc.Tx) {
		c := selfSigned(r.t, secret)
		if bad {
			c.Chain = []byte("noise")
		}
		r.p.In.Certificates.Set(tx, model.SecretID{Namespace: "shop", Name: secret}, c)
	}
}

// younger adds a class with a port of its own, or changes its port.
func (r *dumpRun) younger(port int) func(*inc.Tx) {
	return func(tx *inc.Tx) {
		r.class(tx, "younger", 2, uint16(port), uint16(r.https))
		r.together(tx, "younger")
		def := target("r", dumpBackends[0])
		r.useAll(tx)
		r.host(tx, "younger", "younger.example", &def)
	}
}

// alone takes the younger class away.
func (r *dumpRun) alone(tx *inc.Tx) {
	r.together(tx)
	r.p.Hosts.Delete(tx, model.HostKey{Class: "younger", Host: "younger.example"})
	r.specs.Delete(tx, "younger")
}

func (r *dumpRun) timing(connect int64) func(*inc.Tx) {
	return func(tx *inc.Tx) {
		row, _ := r.p.ClassInfo.Get(nil, testClass)
		row.Config.Timing = model.Timing{ConnectTimeout: connect, PerTryTimeout: 400}
		r.specs.Set(tx, testClass, row)
	}
}

// mend takes away what Envoy refuses.
func (r *dumpRun) mend() {
	r.commit(func(tx *inc.Tx) {
		for _, secret := range dumpSecrets {
			r.certificateEdit(secret, false)(tx)
		}
		for _, key := range r.p.Hosts.Keys() {
			row, _ := r.p.Hosts.Get(nil, key)
			for _, route := range row.Routes {
				if strings.Contains(route.Match.Path, "#") {
					row.Routes = nil
				}
			}
			r.p.Hosts.Set(tx, key, row)
		}
		if row, ok := r.p.ClassInfo.Get(nil, "younger"); ok && int(row.Config.HTTPPort) == r.busy {
			r.younger(r.free)(tx)
		}
	})
}

// equal waits until Envoy holds what the view says.
func (r *dumpRun) equal() {
	r.t.Helper()
	var last []string
	defer func() {
		if r.t.Failed() {
			streams, _ := json.MarshalIndent(r.server.Streams(), "", " ")
			r.t.Logf("again with -dump-seed; Envoy differs in:\n%s\nstreams:\n%s", strings.Join(last, "\n"), streams)
		}
	}()
	envoytest.Until(r.t, "Envoy to hold the view", func() bool {
		last = r.differences(r.t, r.proc)
		return len(last) == 0
	})
}
