package app

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// rolling is an Ingress that two members have, one in the first wave and one in the last.
type rolling struct {
	*world
	*rollouts
	t      *testing.T
	tables *leaf.Tables
	now    time.Time
	listed bool
	root   model.Object
}

func newRolling(t *testing.T) *rolling {
	h := &rolling{world: newWorld(), t: t, now: time.Unix(1_900_000_000, 0), listed: true}
	h.tables = leaf.Declare(h.g, h.world.p, leaf.Outputs{})
	now := func() time.Time { return h.now }
	h.rollouts = newRollouts(h.world.p, h.tables, now, func() bool { return h.listed })
	lastRollouts(h.world.p, h.tables, now).carry(h.put)
	in := &h.world.p.In
	h.g.Commit(func(tx *inc.Tx) {
		in.Configs.Set(tx, "leaves", model.ConfigSpec{Leaf: &model.LeafSpec{}})
		in.Classes.Set(tx, "leaves", model.ClassSpec{Config: "leaves"})
		for i, m := range []model.Member{"eu-1", "eu-2"} {
			labels := model.Labels{}
			if i == 0 {
				labels["wave"] = "one"
			}
			in.Members.Set(tx, m, model.MemberSpec{Place: model.Place{Region: "eu"}, Networks: []string{"default"}, Labels: labels})
			in.Sources.Set(tx, m, model.Source{Connected: true})
			in.Services.Set(tx, model.MemberService{Service: model.ServiceOf("shop", "web"), Member: m}, model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
		}
		in.Placements.Set(tx, model.Object{Kind: model.PlacementKind, Namespace: "shop", Name: "waves"}, model.PlacementSpec{
			Targets: []model.Object{{Kind: "Namespace", Name: "shop"}}, Rollout: &model.RolloutSpec{Pause: 5 * time.Minute, Waves: []model.WaveSpec{{Selector: "wave=one"}}},
		})
	})
	h.edit("a")
	h.applied("eu-1", "eu-2")
	return h
}

// settle carries back what is remembered until that is so.
func (h *rolling) settle() {
	for range 4 {
		h.turn()
	}
}

// edit has the Ingress say something.
func (h *rolling) edit(label string) {
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Labels: map[string]string{"v": label}}}
	o.Spec.IngressClassName = new("leaves")
	port := networkingv1.ServiceBackendPort{Number: 80}
	o.Spec.Rules = []networkingv1.IngressRule{{Host: "shop.example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: port}}}},
	}}}}
	id, root, rules, _ := ingest.Ingress(o)
	_, manifest := ingest.Manifest(o, nil)
	h.root = id
	h.g.Commit(func(tx *inc.Tx) {
		in := &h.world.p.In
		in.Roots.Set(tx, id, root)
		for _, r := range rules {
			in.Rules.Set(tx, model.RulesID{Root: id, Host: r.Host}, r.Rules)
		}
		in.Manifests.Set(tx, id, manifest)
	})
	h.settle()
}

// applied has members have what is wanted.
func (h *rolling) applied(members ...model.Member) {
	h.g.Commit(func(tx *inc.Tx) {
		for _, m := range members {
			id := model.LeafID{Member: m, Root: h.root}
			row, ok := h.tables.Leaves.Get(nil, id)
			if !ok {
				h.t.Errorf("%s should have no leaf", m)
			}
			h.world.p.In.LeafStates.Set(tx, id, model.LeafState{Reason: "Applied", There: true, Edition: row.Edition})
		}
	})
	h.settle()
}

// after lets time pass, and returns when something is due.
func (h *rolling) after(d time.Duration) (next time.Duration) {
	h.now = h.now.Add(d)
	writes, at := h.due(h.now)
	h.g.Commit(func(tx *inc.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
	h.settle()
	if at.IsZero() {
		return 0
	}
	return at.Sub(h.now)
}

// expect says how many members should have the edition of the first.
func (h *rolling) expect(when string, state string, alike bool) {
	h.t.Helper()
	row, _ := h.tables.Rollouts.Get(nil, h.root)
	a, _ := h.tables.Leaves.Get(nil, model.LeafID{Member: "eu-1", Root: h.root})
	b, _ := h.tables.Leaves.Get(nil, model.LeafID{Member: "eu-2", Root: h.root})
	if row.State != state || (a.Body == b.Body) != alike || a.Keep || b.Keep {
		h.t.Errorf("%s: it is %q, %+v; members have %v and %v", when, row.State, row, a, b)
	}
	counted := map[string]int{}
	for _, k := range h.tables.Rollouts.Keys() {
		if r, _ := h.tables.Rollouts.Get(nil, k); r.State != "" {
			counted[r.State]++
		}
	}
	for reason, n := range h.states {
		if n != counted[reason] {
			h.t.Errorf("%s: %d are %s by the metric, and %d by the table", when, n, reason, counted[reason])
		}
	}
}

func TestPausesBetweenWaves(t *testing.T) {
	h := newRolling(t)
	h.expect("it is new", "", true)
	if next := h.after(time.Hour); next != 0 {
		t.Errorf("something is due in %s", next)
	}
	h.edit("b")
	h.expect("it was edited", "InWave", false)
	if next := h.after(time.Hour); next != 0 {
		t.Errorf("nobody has it, and something is due in %s", next)
	}
	h.applied("eu-1")
	if next := h.after(4 * time.Minute); next != time.Minute {
		t.Errorf("the pause is over in %s", next)
	}
	h.expect("a minute before", "InWave", false)
	h.after(time.Minute - time.Millisecond)
	h.expect("a moment before", "InWave", false)
	h.after(time.Millisecond)
	h.expect("it is over", "InWave", true)
	h.applied("eu-2")
	h.after(5*time.Minute - time.Millisecond)
	h.expect("a moment before all is", "InWave", true)
	h.after(time.Millisecond)
	h.expect("all is over", "", true)
	if row, _ := h.world.p.In.Rollouts.Get(nil, h.root); len(row.Editions) != 1 || row.Since != 0 {
		t.Errorf("%+v is remembered", row)
	}
}

// TestPausesOverARestart: a process that finds a pause goes on with it, and ends none before
// it knows what the hub says.
func TestPausesOverARestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		away   time.Duration // between the two processes
		listed bool
		alike  bool
		then   time.Duration // until it ends
	}{
		{"at once", 0, true, false, 5 * time.Minute},
		{"later", 4 * time.Minute, true, false, time.Minute},
		{"too late", time.Hour, true, true, 0},
		{"too late, and nothing is known yet", time.Hour, false, false, 0},
		{"with another clock", -time.Hour, true, false, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := newRolling(t)
			before.edit("b")
			before.applied("eu-1")
			h := newRolling(t)
			h.listed, h.now = c.listed, before.now.Add(c.away)
			row, _ := before.world.p.In.Rollouts.Get(nil, before.root)
			h.edit("b")
			h.applied("eu-1")
			h.g.Commit(func(tx *inc.Tx) { h.world.p.In.Rollouts.Set(tx, h.root, row) })
			h.settle()
			next := h.after(0)
			h.expect("then", "InWave", c.alike)
			if next != c.then {
				t.Errorf("the pause is over in %s", next)
			}
		})
	}
}

func TestEditsOfNobodyAreForgotten(t *testing.T) {
	h := newRolling(t)
	left := model.Object{Kind: "Ingress", Namespace: "shop", Name: "gone"}
	h.g.Commit(func(tx *inc.Tx) {
		h.world.p.In.Rollouts.Set(tx, left, model.Rollout{Editions: []model.Edition{{ID: "a"}}})
	})
	h.g.Commit(h.adopt)
	if keys := h.world.p.In.Rollouts.Keys(); !slices.Equal(keys, []model.Object{h.root}) {
		t.Errorf("%v are remembered", keys)
	}
}
