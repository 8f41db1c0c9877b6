package xds

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// within is how long a change may take to every proxy that takes it.
const within = 2 * time.Second

// fleetOf is a server with strict clients over gRPC, all in memory: it runs in
// a bubble of synctest, so time is exact.
type fleetOf struct {
	t       *testing.T
	limits  Limits
	store   *Store
	reports *Reports
	server  *Server
	pipe    *bufconn.Listener
	stop    func()
	content map[Ref]*Resource
	all     map[Ref]map[string]*Resource // by version: what was ever published
	proxies map[string]*fakeProxy
}

// fakeProxy is a client and its stream.
type fakeProxy struct {
	envoyModel *envoyModel
	node       *core.Node
	delay      time.Duration // before it answers
	mu         sync.Mutex
	close      func()
}

func newFleetOf(t *testing.T) *fleetOf {
	f := &fleetOf{t: t, content: map[Ref]*Resource{}, all: map[Ref]map[string]*Resource{}, proxies: map[string]*fakeProxy{}}
	f.start()
	return f
}

// start begins a server that knows what the last one published.
func (f *fleetOf) start() {
	f.store, f.reports, f.pipe = NewStore(), &Reports{}, bufconn.Listen(1<<20)
	var changes []Change
	for ref, res := range f.content {
		changes = append(changes, Change{ref.Type, ref.Name, res})
	}
	f.store.Publish("view", changes)
	f.server = NewServer(Config{Store: f.store, Reports: f.reports, Limits: f.limits, ViewOf: func(string) (string, bool) { return "view", true }})
	f.stop = run(f.t, f.server, &Endpoint{Listener: f.pipe, creds: insecure.NewCredentials()})
}

// restart is a new server; the proxies connect again, in this order, a moment
// after each other.
func (f *fleetOf) restart(order ...string) {
	for _, p := range f.proxies {
		p.close()
	}
	f.stop()
	f.start()
	for _, name := range order {
		f.connect(name)
	}
}

func (f *fleetOf) end() {
	for _, p := range f.proxies {
		p.close()
	}
	f.stop()
}

// proxy starts a proxy that has nothing.
func (f *fleetOf) proxy(name string, set func(*fakeProxy)) {
	p := &fakeProxy{close: func() {}, node: &core.Node{Id: name, Cluster: "fra", UserAgentVersionType: &core.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &core.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}}}}}
	p.envoyModel = newEnvoyModel(func(int) int { return 0 }, func(TypeURL) bool { return false })
	set(p)
	f.proxies[name] = p
	f.connect(name)
}

func honest(*fakeProxy) {}
func grim(p *fakeProxy) { p.envoyModel.grim = true }

// grimOf is a proxy of another edge that refuses everything.
func grimOf(edge string) func(*fakeProxy) {
	return func(p *fakeProxy) { p.envoyModel.grim, p.node.Cluster = true, edge }
}

// leave ends a proxy for good.
func (f *fleetOf) leave(name string) {
	f.proxies[name].close()
	delete(f.proxies, name)
	synctest.Wait()
}

// connect opens the stream of a proxy, which says what it has.
func (f *fleetOf) connect(name string) {
	p := f.proxies[name]
	pipe := f.pipe
	conn, err := grpc.NewClient("passthrough:///serve", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.speak(p, str) })
	p.close = func() {
		cancel()
		wg.Wait()
		_ = conn.Close()
		p.close = func() {}
	}
	synctest.Wait()
}

// speak answers what comes until the stream ends.
func (f *fleetOf) speak(p *fakeProxy, str discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient) {
	p.envoyModel.connect()
	node := p.node
	for {
		p.mu.Lock()
		out := p.envoyModel.out
		p.envoyModel.out = nil
		p.mu.Unlock()
		for _, r := range out {
			m := &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: string(r.Type), ResourceNamesSubscribe: r.Subscribe,
				ResourceNamesUnsubscribe: r.Unsubscribe, InitialResourceVersions: r.Initial, ResponseNonce: r.Nonce}
			if r.Rejected {
				m.ErrorDetail = &status.Status{Message: r.Error}
			}
			node = nil
			_ = str.Send(m) // Recv says why
		}
		m, err := str.Recv()
		if err != nil {
			return
		}
		time.Sleep(p.delay)
		p.mu.Lock()
		if err := p.envoyModel.receive(f.response(m)); err != nil {
			f.t.Errorf("%s: %v", p.node.GetId(), err)
		}
		p.mu.Unlock()
	}
}

// response is what was sent, with the references that are not on the wire.
func (f *fleetOf) response(m *discovery.DeltaDiscoveryResponse) Response {
	r := Response{Type: TypeURL(m.GetTypeUrl()), Nonce: m.GetNonce(), Removed: m.GetRemovedResources()}
	for _, res := range m.GetResources() {
		r.Resources = append(r.Resources, f.all[Ref{Type: r.Type, Name: res.GetName()}][res.GetVersion()])
	}
	return r
}

// publish sets resources to a version; each uses what the table says.
func (f *fleetOf) publish(version int, refs map[Ref][]Ref) {
	var changes []Change
	for ref, uses := range refs {
		res := makeResource(f.t, ref.Name, fmt.Sprint("v", version), &core.Node{Id: fmt.Sprint(version)}, uses...)
		f.content[ref] = res
		if f.all[ref] == nil {
			f.all[ref] = map[string]*Resource{}
		}
		f.all[ref][res.Version] = res
		changes = append(changes, Change{ref.Type, ref.Name, res})
	}
	f.store.Publish("view", changes)
}

// change publishes a new host, and changes the listener and the first host.
func (f *fleetOf) change(n int) {
	host := func(n int) (Ref, Ref, Ref) {
		name := fmt.Sprint("h", n)
		return Ref{Type: Cluster, Name: name}, Ref{Type: ClusterLoadAssignment, Name: name}, Ref{Type: RouteConfiguration, Name: name}
	}
	refs := map[Ref][]Ref{}
	var all []Ref
	for _, i := range []int{0, n} {
		c, a, r := host(i)
		refs[c], refs[a], refs[r] = []Ref{a}, nil, []Ref{c}
	}
	for i := range n + 1 {
		_, _, r := host(i)
		all = append(all, r)
	}
	refs[Ref{Type: Listener, Name: "l"}] = all
	f.publish(n, refs)
}

// served checks that all honest proxies have everything, now.
func (f *fleetOf) served(when string) {
	f.t.Helper()
	synctest.Wait()
	for name, p := range f.proxies {
		if p.envoyModel.grim {
			continue
		}
		p.mu.Lock()
		for ref, res := range f.content {
			if have := p.envoyModel.have[kindOf[ref.Type]][ref.Name]; have != res {
				f.t.Errorf("%s: %s has %+v of %s %s, not %s", when, name, have, shortOf(ref.Type), ref.Name, res.Version)
			}
		}
		p.mu.Unlock()
	}
}

// TestAProxyThatRefusesEverythingHoldsNobodyUp: connected first or last, leaving
// or staying, over restarts of the server, with one or two others beside it:
// each of them has every change within two seconds.
func TestAProxyThatRefusesEverythingHoldsNobodyUp(t *testing.T) {
	for _, c := range []struct {
		first, leaves, restart bool
		others                 int
	}{
		{true, true, true, 1}, {true, true, false, 1}, {true, false, true, 1}, {true, false, false, 1},
		{false, true, true, 1}, {false, true, false, 1}, {false, false, true, 1}, {false, false, false, 1},
		{true, true, true, 2}, {true, true, false, 2}, {true, false, true, 2}, {true, false, false, 2},
		{false, true, true, 2}, {false, true, false, 2}, {false, false, true, 2}, {false, false, false, 2},
	} {
		t.Run(fmt.Sprintf("first=%v leaves=%v restart=%v others=%d", c.first, c.leaves, c.restart, c.others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleetOf(t)
				defer f.end()
				n := 1
				changes := func(when string) {
					t.Helper()
					for range 4 {
						f.change(n)
						time.Sleep(within)
						f.served(fmt.Sprint(when, ", change ", n))
						n++
					}
				}
				f.change(n)
				n++
				var order []string
				join := func(name string, set func(*fakeProxy)) {
					f.proxy(name, set)
					order = append(order, name)
					time.Sleep(within)
					f.served(name + " joined")
				}
				if c.first {
					join("bad", grim)
				}
				for i := range c.others {
					join(fmt.Sprint("good", i), honest)
				}
				if !c.first {
					join("bad", grim)
				}
				changes("all are there")
				if c.restart {
					f.restart(order...)
					time.Sleep(within)
					f.served("restarted")
					changes("restarted")
				}
				if c.leaves {
					f.leave("bad")
					changes("it left")
				}
				f.leave("good0")
				f.change(n) // the last change that only some saw
				n++
				f.proxy("good0", honest)
				time.Sleep(within)
				f.served("a proxy began anew")
				changes("a proxy began anew")
				f.nobodyBlamed()
			})
		})
	}
}

// TestRefusalsStayInTheirEdge: a client that refuses everything under three node
// names decides nothing for the proxies of another edge, whoever is there first.
func TestRefusalsStayInTheirEdge(t *testing.T) {
	for _, order := range [][]string{
		{"x0", "x1", "x2", "good"}, {"x0", "good", "x1", "x2"}, {"good", "x0", "x1", "x2"},
	} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleetOf(t)
				defer f.end()
				f.change(1)
				for _, name := range order {
					set := honest
					if name != "good" {
						set = grimOf("ams")
					}
					f.proxy(name, set)
					time.Sleep(within)
					f.served(name + " joined")
				}
				for n := 2; n < 8; n++ {
					if n == 5 {
						for _, name := range []string{"x0", "x1", "x2"} { // each has a voice again
							f.leave(name)
							f.proxy(name, grimOf("ams"))
						}
					}
					f.change(n)
					time.Sleep(within)
					f.served(fmt.Sprint("change ", n))
				}
				f.onlyOf("ams")
			})
		})
	}
}

// nobodyBlamed: of what somebody accepted it is told that nobody refuses it.
func (f *fleetOf) nobodyBlamed() {
	_, said := f.reports.Take()
	for _, v := range said {
		if v.Error != "" && !v.Lone {
			f.t.Errorf("told that %s refuses %s %s", v.Node, shortOf(v.Type), v.Name)
		}
	}
}

// onlyOf: what proxies of an edge refuse is told of that edge alone.
func (f *fleetOf) onlyOf(edge string) {
	_, said := f.reports.Take()
	told := false
	for _, v := range said {
		told = told || v.Edge == edge && v.Error != "" && !v.Lone
		if v.Error != "" && v.Edge != edge {
			f.t.Errorf("told that %s refuses %s %s", v.Node, shortOf(v.Type), v.Name)
		}
	}
	if !told {
		f.t.Errorf("it is not told that all proxies of %s refuse everything", edge)
	}
}

// lead is the proxy that was asked last.
func (f *fleetOf) lead() string {
	f.store.lock()
	last := f.store.group(groupKey{"view", "fra"}).content.rollout.lead
	f.store.unlock()
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	for _, st := range f.server.streams {
		if st.member.session == last {
			return st.proxy.Node
		}
	}
	return ""
}

// TestASlowLeadDelaysOnce: a proxy that begins to answer each response after
// 1.9 s delays one change, by half a second, and is not asked first again while
// there is a faster one.
func TestASlowLeadDelaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetOf(t)
		defer f.end()
		f.change(1)
		for _, name := range []string{"a", "b", "c"} {
			f.proxy(name, honest)
		}
		time.Sleep(within)
		f.change(2)
		time.Sleep(within)
		slow := f.lead()
		f.proxies[slow].delay = 1900 * time.Millisecond
		delayed := 0
		for n := 3; n < 12; n++ {
			f.change(n)
			for waited := time.Duration(0); ; waited += 10 * time.Millisecond {
				synctest.Wait()
				if f.othersServe(slow) {
					if waited > 0 {
						delayed++
					}
					if waited > 510*time.Millisecond {
						t.Errorf("change %d took %v", n, waited)
					}
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			f.served("at rest")
		}
		if delayed > 1 {
			t.Errorf("%d changes waited for the slow one", delayed)
		}
	})
}

// othersServe tells whether all proxies but one have the current listener.
func (f *fleetOf) othersServe(but string) bool {
	for name, p := range f.proxies {
		p.mu.Lock()
		have := p.envoyModel.have[listener]["l"]
		p.mu.Unlock()
		if name != but && have != f.content[Ref{Type: Listener, Name: "l"}] {
			return false
		}
	}
	return true
}

// TestTheOneAskedFirstIsNotAlwaysTheSame, among those that are fit for it.
func TestTheOneAskedFirstIsNotAlwaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetOf(t)
		defer f.end()
		f.change(1)
		for _, name := range []string{"a", "b", "c"} {
			f.proxy(name, honest)
		}
		time.Sleep(time.Minute)
		asked := map[string]int{}
		for n := 2; n < 11; n++ {
			f.change(n)
			asked[f.lead()]++
			time.Sleep(within)
			f.served("changed")
		}
		if want := map[string]int{"a": 3, "b": 3, "c": 3}; !maps.Equal(asked, want) {
			t.Errorf("asked %v", asked)
		}
	})
}

// TestAProxyWithoutListenersServesNothing, and is not in sync: it is told as
// soon as that changes.
func TestAProxyWithoutListenersServesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetOf(t)
		defer f.end()
		expect := func(when string, want map[string]Serving) {
			t.Helper()
			time.Sleep(within)
			synctest.Wait()
			got := map[string]Serving{}
			changes, _ := f.reports.Take()
			for _, c := range changes {
				got[c.Node] = c.Serving
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
			for _, st := range f.server.Streams() {
				if s, told := want[st.Node]; told && st.InSync != s.Loaded {
					t.Errorf("%s: %s in sync: %v", when, st.Node, st.InSync)
				}
			}
		}
		f.proxy("bad", grim)
		f.proxy("good", honest)
		expect("there are no listeners", map[string]Serving{"bad": {true, true}, "good": {true, true}})
		f.change(1)
		expect("the first listener", map[string]Serving{"bad": {}, "good": {true, true}})
		f.proxies["bad"].envoyModel.grim = false
		f.change(2)
		expect("it takes one", map[string]Serving{"bad": {true, true}})
		f.proxies["bad"].envoyModel.grim = true
		f.change(3)
		expect("it keeps what it has", map[string]Serving{})
	})
}
