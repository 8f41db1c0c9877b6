package fleet

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// canaryWorld has one member with services of one endpoint each.
func canaryWorld(n int) (*inc.Graph, *Program, map[model.Member]Canaries) {
	g := inc.New()
	p := Declare(g)
	canaries := map[model.Member]Canaries{}
	WatchCanaries(p, func(m model.Member, c Canaries) { canaries[m] = c })
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
	svc := model.ServiceOf("n", fmt.Sprintf("s%05d", i))
	id := model.Object{Kind: "Ingress", Namespace: "n", Name: svc.Name()}
	backend := model.BackendKey{Service: svc, Port: model.PortRef{Number: 80}}.Backend()
	p.In.Roots.Set(tx, id, model.Root{})
	p.In.Rules.Set(tx, model.RulesID{Root: id, Host: model.Host(svc.Name() + ".example")}, model.Rules{{
		Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backend, Weight: 1}}},
	}})
	at := model.MemberService{Service: svc, Member: "eu-1"}
	p.In.Services.Set(tx, at, model.ServiceSpec{Ports: []model.ServicePort{{Number: 80, Protocol: "TCP"}}})
	p.In.Slices.Set(tx, model.SliceID{MemberService: at, Name: "x"}, model.Slice{
		Ports: []model.SlicePort{{Number: 8080}}, Endpoints: model.EndpointsOf(model.Endpoint{Addr: addr, State: state}),
	})
}

func TestCanariesAreOfDifferentBackends(t *testing.T) {
	_, _, canaries := canaryWorld(500)
	got := canaries["eu-1"]
	if len(got) != canaryCount {
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
	was := canaries["eu-1"]
	gone := was[0].Addr()
	g.Commit(func(tx *inc.Tx) { setCanary(tx, p, int(gone.As4()[3]), gone, model.EndpointDraining) })
	now := canaries["eu-1"]
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
	if got, ok := canaries["eu-1"]; ok {
		t.Errorf("canaries %v", got)
	}
}

// TestCanaryCost: a changed endpoint is looked at, and no other group of its
// member; only when most of those that are kept in mind are gone, all are, once.
func TestCanaryCost(t *testing.T) {
	const n = 3000
	g := inc.New()
	p := Declare(g)
	c := &canaries{groups: p.Groups, of: map[model.Member]*candidates{}}
	p.Groups.Watch(func(changes []inc.Change[GroupID, Group]) {
		for _, m := range c.apply(changes) {
			c.choose(m)
		}
	})
	set := func(from, to int, state model.EndpointState) {
		g.Commit(func(tx *inc.Tx) {
			for i := from; i < to; i++ {
				setCanary(tx, p, i, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), state)
			}
		})
	}
	g.Commit(func(tx *inc.Tx) {
		p.In.Members.Set(tx, "eu-1", model.MemberSpec{Networks: []string{"default"}})
		p.In.Classes.Set(tx, "c", model.ClassSpec{Default: true})
		p.In.Edges.Set(tx, "fra", model.EdgeSpec{Networks: []string{"default"}})
	})
	set(0, n, model.EndpointReady)
	for i := range 500 { // pods are replaced, one Service after the other
		set(i, i+1, model.EndpointDraining)
		set(i, i+1, model.EndpointReady)
	}
	if c.looked != 0 || len(c.of["eu-1"].first) != keptCandidates {
		t.Errorf("%d groups looked at, %d kept in mind", c.looked, len(c.of["eu-1"].first))
	}
	set(0, n-5, model.EndpointDraining)
	if c.looked == 0 || c.looked > 2*n || len(c.of["eu-1"].shown) != canaryCount {
		t.Errorf("%d groups looked at, canaries %v", c.looked, c.of["eu-1"].shown)
	}
	set(n-5, n, model.EndpointDraining)
	if len(c.of) != 0 {
		t.Errorf("a member without canaries is kept in mind: %v", c.of)
	}
}

// TestCanariesAreAPureFunction: whatever came before, canaries are those of a
// program that starts with the same endpoints. Addresses repeat, as those of
// Services that select the same pods.
func TestCanariesAreAPureFunction(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	g, p, got := canaryWorld(0)
	type end struct {
		addr  byte
		state model.EndpointState
	}
	ends := map[int]end{}
	write := func(tx *inc.Tx, p *Program, i int) {
		setCanary(tx, p, i, netip.AddrFrom4([4]byte{10, 0, 0, ends[i].addr}), ends[i].state)
	}
	for step := range 150 {
		addresses := []int{2, 40, 200}[step/50]
		g.Commit(func(tx *inc.Tx) {
			for range 1 + rnd.IntN(40) {
				i := rnd.IntN(60)
				ends[i] = end{byte(rnd.IntN(addresses)), []model.EndpointState{model.EndpointReady, model.EndpointDraining}[rnd.IntN(2)]}
				write(tx, p, i)
			}
		})
		g2, p2, want := canaryWorld(0)
		g2.Commit(func(tx *inc.Tx) {
			for i := range ends {
				write(tx, p2, i)
			}
		})
		if !got["eu-1"].Equal(want["eu-1"]) {
			t.Fatalf("step %d: %v, from scratch %v", step, got["eu-1"], want["eu-1"])
		}
	}
}
