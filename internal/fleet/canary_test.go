package fleet

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// canaryWorld has one member with services of one endpoint each.
func canaryWorld(n int) (*inc.Graph, *Program, *inc.Table[model.Member, Canaries]) {
	g := inc.New()
	p := Declare(g)
	canaries := DeclareCanaries(g, p)
	g.Commit(func(tx *inc.Tx) {
		p.In.Members.Set(tx, "eu-1", model.MemberSpec{Networks: []string{"default"}})
		p.In.Classes.Set(tx, "c", model.ClassSpec{Default: true})
		p.In.Edges.Set(tx, "fra", model.EdgeSpec{Networks: []string{"default"}})
		for i := range n {
			setCanary(tx, p, i, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), model.EndpointReady)
		}
	})
	return g, p, canaries
}

func setCanary(tx *inc.Tx, p *Program, i int, addr netip.Addr, state model.EndpointState) {
	svc := model.Service{Namespace: "n", Name: fmt.Sprintf("s%05d", i)}
	id := model.Object{Kind: "Ingress", Namespace: "n", Name: svc.Name}
	backend := model.Backend{Service: svc, Port: model.PortRef{Number: 80}}
	p.In.Roots.Set(tx, id, model.Root{Origin: model.Origin{Object: id}, Rules: []model.Rule{{
		Host: model.Host(svc.Name + ".example"), Match: model.Match{Kind: model.PathPrefix, Path: "/"},
		Backends: []model.WeightedBackend{{Backend: backend, Weight: 1}},
	}}})
	at := model.MemberService{Service: svc, Member: "eu-1"}
	p.In.Services.Set(tx, at, model.ServiceSpec{Ports: []model.ServicePort{{Number: 80, Protocol: "TCP"}}})
	p.In.Slices.Set(tx, model.SliceID{MemberService: at, Name: "x"}, model.Slice{
		Ports: []model.SlicePort{{Number: 8080}}, Endpoints: []model.Endpoint{{Addr: addr, State: state}},
	})
}

func TestCanariesAreOfDifferentBackends(t *testing.T) {
	_, _, canaries := canaryWorld(500)
	got, ok := canaries.Get(nil, "eu-1")
	if !ok || len(got) != canaryCount {
		t.Fatalf("canaries %v", got)
	}
	seen := map[netip.AddrPort]bool{}
	for _, c := range got {
		if c.Port() != 8080 || seen[c] {
			t.Errorf("canaries %v", got)
		}
		seen[c] = true
	}
}

func TestCanaryThatDrainsIsReplaced(t *testing.T) {
	g, p, canaries := canaryWorld(5)
	was, _ := canaries.Get(nil, "eu-1")
	gone := was[0].Addr()
	g.Commit(func(tx *inc.Tx) { setCanary(tx, p, int(gone.As4()[3]), gone, model.EndpointDraining) })
	now, _ := canaries.Get(nil, "eu-1")
	if len(now) != canaryCount {
		t.Fatalf("canaries %v", now)
	}
	for _, c := range now {
		if c.Addr() == gone {
			t.Errorf("%v drains and is still a canary: %v", gone, now)
		}
	}
}

func TestMemberWithoutEndpointsHasNoCanaries(t *testing.T) {
	_, _, canaries := canaryWorld(0)
	if got, ok := canaries.Get(nil, "eu-1"); ok {
		t.Errorf("canaries %v", got)
	}
}

// TestCanaryCost asserts that a changed endpoint costs the tree's height, not
// the member's backends.
func TestCanaryCost(t *testing.T) {
	g, p, canaries := canaryWorld(3000)
	was, _ := canaries.Get(nil, "eu-1")
	for i := range 50 {
		stats := g.Commit(func(tx *inc.Tx) {
			setCanary(tx, p, i, netip.AddrFrom4([4]byte{10, 9, 0, byte(i)}), model.EndpointReady)
		})
		if stats.Evaluated > 20 {
			t.Errorf("change %d evaluated %d rows", i, stats.Evaluated)
		}
	}
	if now, _ := canaries.Get(nil, "eu-1"); len(now) != len(was) {
		t.Errorf("canaries %v", now)
	}
}
