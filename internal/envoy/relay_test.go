package envoy

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// relayed adds a host that hands connections or datagrams to backends by weight.
func (r *rig) relayed(tx *inc.Tx, class model.Class, name model.Host, pass bool, to ...model.WeightedBackend) {
	h := fleet.Host{Traffic: max(model.Connections, to[0].Backend.Port().For), Pass: pass, Roots: []model.Object{rootObject("web")}}
	h.Routes = []fleet.Route{{Match: model.Everything, Target: fleet.Target{Root: rootObject("web"), Action: model.Action{Backends: to}}}}
	r.p.Hosts.Set(tx, model.HostKey{Class: class, Host: name}, h)
}

func to(name string, weight uint32) model.WeightedBackend {
	return model.WeightedBackend{Backend: backend(name), Weight: weight}
}

// pods makes a backend of one endpoint.
func (r *rig) pods(tx *inc.Tx, name string, at model.Endpoint) {
	view, _ := r.p.Views.Get(nil, "fra")
	r.use(tx, view.Key, name, "")
	r.group(tx, name, "eu-1", at)
	r.plan(tx, view.Key, name, share("eu-1", 0))
}

// TestTLSRelays: connections go by the name that a client asks for, the closest first;
// TLS ends at the pod or at the proxy, beside hosts of HTTPS on the same port; what no
// listener is for, and what nobody gets, is closed.
func TestTLSRelays(t *testing.T) {
	for _, certificates := range []delivery{static, onDemand} {
		t.Run(certificates.String(), func(t *testing.T) {
			t.Parallel()
			secure := newTLSPod(t, "", "pass.example")
			plain, web := newPod(t, "plain@eu-1"), newPod(t, "web@eu-1")
			r := newRigWith(t, timingForTests, certificates, usual)
			r.commit(func(tx *inc.Tx) {
				r.pods(tx, "shop/secure/tls:tls", secure.endpoint())
				r.pods(tx, "shop/plain/tcp:tcp", plain.endpoint())
				r.pods(tx, "shop/web/http", web.endpoint())
				r.relayed(tx, testClass, "pass.example", true, to("shop/secure/tls:tls", 1))
				r.relayed(tx, testClass, "**.pass.example", true, to("shop/secure/tls:tls", 1))
				r.relayed(tx, testClass, "end.pass.example", false, to("shop/plain/tcp:tcp", 1))
				r.relayed(tx, testClass, "none.pass.example", true, model.WeightedBackend{Weight: 1})
				r.host(tx, testClass, "www.example", nil, fleet.Route{Match: prefix("/"), Target: target("web", "shop/web/http")})
				for host, name := range map[model.Host]string{"end.pass.example": "end", "www.example": "www"} {
					id := model.SecretID{Namespace: "shop", Name: name}
					r.p.In.Certificates.Set(tx, id, selfSigned(t, name))
					r.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: host}, fleet.Chain{Secrets: []model.SecretID{id}})
				}
			})
			validateAll(t, r.world)
			r.settled(t)
			for sni, want := range map[string]string{
				"pass.example": "pass.example by", "a.b.pass.example": "a.b.pass.example by", "PASS.example": "pass.example by", "end.pass.example": "plain@eu-1",
				"www.example": "web@eu-1", "none.pass.example": "refused", "else.example": "refused",
			} {
				got := r.ask(t, request{tls: true, sni: sni, host: strings.ToLower(sni), path: "/"})
				if by := cmp.Or(got.by, map[bool]string{true: "refused"}[got.err != nil]); !strings.HasPrefix(strings.ToLower(by), want) {
					t.Errorf("%s is answered by %q (%d, %v), want %s", sni, by, got.status, got.err, want)
				}
			}
		})
	}
}

// TestUnnamedRelayOnDemand: TLS for all names, of who shares a port and may not have it
// there, leaves a port with certificates on demand as it is.
func TestUnnamedRelayOnDemand(t *testing.T) {
	w := newWorld()
	w.g.Commit(func(tx *inc.Tx) {
		w.classWith(tx, testClass, 1, httpPort, httpsPort, onDemand, true)
		w.edge(tx, "fra", testView)
	})
	name := fmt.Sprintf("https-%d", httpsPort)
	before := w.get(t, w.t.Listeners, name)
	w.g.Commit(func(tx *inc.Tx) {
		w.use(tx, testView, "shop/web/tls:tls", "")
		of := fleet.Host{Traffic: model.Connections, Pass: true, Roots: []model.Object{rootObject("web")}}
		of.Routes = []fleet.Route{{Match: model.Everything, Target: target("web", "shop/web/tls:tls")}}
		w.p.Hosts.Set(tx, model.HostKey{Class: testClass}, of)
	})
	validateAll(t, w)
	if now := w.get(t, w.t.Listeners, name); now.Version != before.Version || len(w.g.Faults()) > 0 {
		t.Errorf("the listener changed, at fault: %v", w.g.Faults())
	}
}

// TestTCPRelays: all connections of a port go to backends by weight, a server may speak
// first, and the part of a backend that is not valid is closed.
func TestTCPRelays(t *testing.T) {
	r := newRig(t, timingForTests)
	port := envoytest.FreePort(t)
	r.commit(func(tx *inc.Tx) {
		r.listenFor(tx, "tcp", model.Socket{Number: uint16(port), Traffic: model.Connections})
		r.pods(tx, "shop/a/tcp:a", greeter(t, "a"))
		r.pods(tx, "shop/b/tcp:b", greeter(t, "b"))
		r.relayed(tx, "tcp", "", false, to("shop/a/tcp:a", 6), to("shop/b/tcp:b", 2), model.WeightedBackend{Weight: 2}, to("shop/b/tcp:b", 0))
	})
	validateAll(t, r.world)
	r.settled(t)
	counts := map[string]int{}
	for range 500 {
		counts[greeting(port)]++
	}
	within(t, counts, map[string]float64{"a": 0.6, "b": 0.2, "": 0.2})
	r.commit(func(tx *inc.Tx) {
		h, _ := r.p.Hosts.Get(nil, model.HostKey{Class: "tcp"})
		h.Routes = nil
		r.p.Hosts.Set(tx, model.HostKey{Class: "tcp"}, h)
	})
	r.settled(t)
	envoytest.Until(t, "connections to be closed", func() bool { return greeting(port) == "" })
}

// TestUDPRelays: datagrams go to backends by weight, those of one client to one pod.
func TestUDPRelays(t *testing.T) {
	r := newRig(t, timingForTests)
	port := envoytest.FreePort(t)
	r.commit(func(tx *inc.Tx) {
		r.listenFor(tx, "udp", model.Socket{Number: uint16(port), Traffic: model.Datagrams})
		for _, name := range []string{"a", "b", "c"} {
			r.pods(tx, "shop/"+name+"/udp:"+name, answerer(t, name))
		}
		r.relayed(tx, "udp", "", false, to("shop/a/udp:a", 7), to("shop/b/udp:b", 3), to("shop/c/udp:c", 0))
	})
	validateAll(t, r.world)
	r.settled(t)
	counts := map[string]int{}
	for range 500 {
		first := answers(t, port, 3)
		if first[0] != first[1] || first[1] != first[2] {
			t.Fatalf("one client was answered by %v", first)
		}
		counts[first[0]]++
	}
	within(t, counts, map[string]float64{"a": 0.7, "b": 0.3})
	r.commit(func(tx *inc.Tx) { r.relayed(tx, "udp", "", false, to("shop/c/udp:c", 1)) })
	r.settled(t)
	envoytest.Until(t, "datagrams to go to the new backend", func() bool { return answers(t, port, 1)[0] == "c" })
}

// listenFor adds a class of one port that takes no requests.
func (r *rig) listenFor(tx *inc.Tx, class model.Class, s model.Socket) {
	r.specs.Set(tx, class, fleet.ClassInfo{
		Spec: model.ClassSpec{Origin: model.Origin{Created: 2, Object: model.Object{Kind: "Gateway", Name: string(class)}}}, Relay: s, Lines: true,
		Config: model.ConfigSpec{Timing: timingForTests},
	})
	r.together(tx, string(class))
}

// within checks shares to four standard deviations.
func within(t *testing.T, counts map[string]int, want map[string]float64) {
	t.Helper()
	all := 0
	for _, n := range counts {
		all += n
	}
	for name, n := range counts {
		p := want[name]
		if off := 4 * math.Sqrt(float64(all)*p*(1-p)); math.Abs(float64(n)-float64(all)*p) > off {
			t.Errorf("%q got %d of %d, want a part of %v", name, n, all, p)
		}
	}
}

// greeter is a pod that speaks first: it says its name, and hangs up.
func greeter(t *testing.T, name string) model.Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(c, name)
			_ = c.Close()
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	return model.Endpoint{Addr: at.Addr(), Port: at.Port()}
}

// greeting is what a client hears that says nothing; empty: the connection is closed.
func greeting(port int) string {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

// answerer is a pod that answers each datagram with its name.
func answerer(t *testing.T, name string) model.Endpoint {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(name), from)
		}
	}()
	at := netip.MustParseAddrPort(c.LocalAddr().String())
	return model.Endpoint{Addr: at.Addr(), Port: at.Port()}
}

// answers are those that one client gets to some datagrams.
func answers(t *testing.T, port, n int) []string {
	t.Helper()
	c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	out := make([]string, n)
	for i := range out {
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		_, _ = c.Write([]byte("hello"))
		buf := make([]byte, 64)
		got, _ := c.Read(buf)
		out[i] = string(buf[:got])
	}
	return out
}
