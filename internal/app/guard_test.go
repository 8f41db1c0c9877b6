package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func TestHubServer(t *testing.T) {
	for host, want := range map[string]string{
		"https://203.0.113.5:6443": "203.0.113.5:6443", "https://[2001:db8::5]:6443/k8s/clusters/c-1": "[2001:db8::5]:6443",
		"https://Hub.Example.": "hub.example:443", "http://127.0.0.1": "127.0.0.1:80", "hub.example:8443": "hub.example:8443",
	} {
		if got, err := hubServer(&rest.Config{Host: host}); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", host, got, err, want)
		}
	}
	if got, err := hubServer(&rest.Config{Host: "https://hub:port"}); err == nil {
		t.Errorf("no port is %v", got)
	}
}

// guarded are the addresses that are guarded now, with their servers.
func (w *world) guarded() string {
	var out []string
	for _, k := range w.p.In.Guarded.Keys() {
		row, _ := w.p.In.Guarded.Get(nil, k)
		out = append(out, fmt.Sprintf("%s %v", k, row.Addresses))
	}
	return strings.Join(out, "; ")
}

func (w *world) guard(host string) *guard {
	return &guard{guarded: fleet.Guarded{Host: host, Port: 6443}, table: w.p.In.Guarded, put: w.put, log: slog.New(slog.DiscardHandler)}
}

// TestTheHubsNameIsLookedUp: also when it moves, and what is known is kept while
// nobody answers.
func TestTheHubsNameIsLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		g := w.guard("hub.example")
		type answer struct {
			addresses []netip.Addr
			err       error
		}
		answers := make(chan answer)
		g.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			a := <-answers
			return a.addresses, a.err
		}
		if !g.begin() {
			t.Error("a name need not be looked up")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go g.run(ctx)
		expect := func(a answer, want string) {
			t.Helper()
			answers <- a
			synctest.Wait()
			w.turn()
			if got := w.guarded(); got != want {
				t.Errorf("guarded: %s, want %s", got, want)
			}
		}
		addr := netip.MustParseAddr
		known := "hub.example:6443 [203.0.113.5 203.0.113.6]"
		expect(answer{addresses: []netip.Addr{addr("203.0.113.6"), addr("::ffff:203.0.113.5")}}, known)
		expect(answer{err: errors.New("no answer")}, known)
		expect(answer{addresses: []netip.Addr{addr("2001:db8::5")}}, "hub.example:6443 [2001:db8::5]")
		cancel()
	})
}

// TestTheHubIsNoEndpoint: what a slice says of the hub's API server is in no
// assignment. Its address at another port is.
func TestTheHubIsNoEndpoint(t *testing.T) {
	w := newWorld()
	w.load()
	at := model.SliceID{MemberService: model.MemberService{Service: model.ServiceOf("shop", "web"), Member: "eu-1"}, Name: "more"}
	slice := func(port uint16, ips ...string) {
		var all []model.Endpoint
		for _, ip := range ips {
			all = append(all, model.Endpoint{Addr: netip.MustParseAddr(ip)})
		}
		row := model.Slice{Ports: []model.SlicePort{{Name: "http", Number: port}}, Endpoints: model.EndpointsOf(all...)}
		w.g.Commit(func(tx *inc.Tx) { w.p.In.Slices.Set(tx, at, row) })
	}
	assigned := func() string {
		var all []byte
		for _, k := range w.envoy.Assignments.Keys() {
			res, _ := w.envoy.Assignments.Get(nil, k)
			all = append(all, res.Bytes()...)
		}
		return string(all)
	}
	slice(6443, "10.1.0.77", "203.0.113.5")
	if !strings.Contains(assigned(), "203.0.113.5") {
		t.Fatal("nothing is assigned")
	}
	if w.guard("203.0.113.5").begin() {
		t.Error("an address is looked up")
	}
	w.turn()
	if got := assigned(); strings.Contains(got, "203.0.113.5") || !strings.Contains(got, "10.1.0.77") {
		t.Errorf("assigned: %q", got)
	}
	told, _ := w.p.Findings.Get(nil, model.Object{Member: "eu-1", Kind: "EndpointSlice", Namespace: "shop", Name: "more"})
	if len(told) != 1 || told[0].Reason != model.ReasonEndpointRefused {
		t.Errorf("told: %v", told)
	}
	slice(8443, "10.1.0.77", "203.0.113.5")
	if !strings.Contains(assigned(), "203.0.113.5") {
		t.Error("another port is refused too")
	}
}
