package app

import (
	"slices"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// holding is a Placement of two members of three that have its Service, and what holds
// their places.
type holding struct {
	*world
	*kept
	t      *testing.T
	now    time.Time
	listed bool
	web    model.Service
	id     model.Object
}

func newHolding(t *testing.T) *holding {
	h := &holding{world: newWorld(), t: t, now: time.Unix(1_900_000_000, 0), listed: true, web: model.ServiceOf("shop", "web")}
	now := func() time.Time { return h.now }
	h.kept = newKept(h.world.p, now, func() bool { return h.listed })
	lastKept(h.world.p, now).carry(h.put)
	h.load()
	h.id = model.Object{Kind: model.PlacementKind, Namespace: "shop", Name: "two"}
	h.g.Commit(func(tx *inc.Tx) {
		for _, m := range []model.Member{"eu-2", "eu-3"} {
			h.world.p.In.Members.Set(tx, m, model.MemberSpec{Place: model.Place{Region: "eu"}, Networks: []string{"default"}})
			h.world.p.In.Sources.Set(tx, m, model.Source{Connected: true})
			h.has(tx, m)
		}
	})
	h.place(5 * time.Minute)
	return h
}

func (h *holding) place(hold time.Duration) {
	h.g.Commit(func(tx *inc.Tx) {
		h.world.p.In.Placements.Set(tx, h.id, model.PlacementSpec{Targets: []model.Object{{Kind: "Ingress", Namespace: "shop", Name: "shop"}}, Count: 2, Hold: hold})
	})
	h.turn()
}

func (h *holding) has(tx *inc.Tx, m model.Member) {
	h.world.p.In.Services.Set(tx, model.MemberService{Service: h.web, Member: m}, model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
}

// gone has the first member that is chosen lose its Service.
func (h *holding) gone() model.Member {
	h.t.Helper()
	row := h.row()
	if len(row.Members) != 2 {
		h.t.Fatalf("chosen are %v", row.Members)
	}
	m := row.Members[0]
	h.g.Commit(func(tx *inc.Tx) {
		h.world.p.In.Services.Delete(tx, model.MemberService{Service: h.web, Member: m})
	})
	h.turn()
	return m
}

func (h *holding) back(m model.Member) {
	h.g.Commit(func(tx *inc.Tx) { h.has(tx, m) })
	h.turn()
}

func (h *holding) row() fleet.Backend {
	var out fleet.Backend
	for _, b := range h.world.p.Backends.Keys() {
		if b.Placed() != "" {
			out, _ = h.world.p.Backends.Get(nil, b)
		}
	}
	return out
}

// after lets time pass, with more written in the commit in which it ends holds, and
// returns when the next is due.
func (h *holding) after(d time.Duration, more ...func(*inc.Tx)) (next time.Duration) {
	h.now = h.now.Add(d)
	writes, at := h.due(h.now)
	h.g.Commit(func(tx *inc.Tx) {
		for _, write := range slices.Concat(more, writes) {
			write(tx)
		}
	})
	h.turn()
	if at.IsZero() {
		return 0
	}
	return at.Sub(h.now)
}

// expect says who serves, and who keeps a place without.
func (h *holding) expect(when string, members int, held ...model.Member) {
	h.t.Helper()
	row := h.row()
	if len(row.Members) != members || !slices.Equal(row.Placing.Held, held) {
		h.t.Errorf("%s: %v serve, and %v are held, want %d and %v", when, row.Members, row.Placing.Held, members, held)
	}
}

func TestPlacesAreHeld(t *testing.T) {
	h := newHolding(t)
	h.expect("from the start", 2)
	m := h.gone()
	h.expect("its Service is gone", 1, m)
	if next := h.after(4 * time.Minute); next != time.Minute {
		t.Errorf("the next is due in %s", next)
	}
	h.expect("a minute before", 1, m)
	h.back(m)
	h.expect("it is back", 2)
	if next := h.after(time.Hour); next != 0 {
		t.Errorf("something is due in %s", next)
	}
	if got := h.gone(); got != m {
		t.Errorf("%s moved when %s was away", got, m)
	}
	h.after(5*time.Minute - time.Millisecond)
	h.expect("a moment before", 1, m)
	if next := h.after(time.Millisecond); next != 0 {
		t.Errorf("something is due in %s", next)
	}
	h.expect("it is over", 2)
	for _, b := range h.world.p.In.Kept.Keys() {
		if row, _ := h.world.p.In.Kept.Get(nil, b); len(row) != 2 {
			t.Errorf("%s: %v is remembered", b, row)
		}
	}
}

// TestHoldEndsAsItComesBack: whoever has the Service again in the commit in which its
// time is over has its place.
func TestHoldEndsAsItComesBack(t *testing.T) {
	h := newHolding(t)
	m := h.gone()
	h.after(5*time.Minute, func(tx *inc.Tx) { h.has(tx, m) })
	h.expect("it is back", 2)
	if !slices.Contains(h.row().Members, m) {
		t.Errorf("%s lost its place to %v", m, h.row().Members)
	}
}

// TestHoldFollowsItsPlacement: a hold that is edited ends by what is written now.
func TestHoldFollowsItsPlacement(t *testing.T) {
	h := newHolding(t)
	m := h.gone()
	h.after(4 * time.Minute)
	h.place(10 * time.Minute)
	if next := h.after(5 * time.Minute); next != time.Minute {
		t.Errorf("the next is due in %s", next)
	}
	h.expect("it is longer", 1, m)
	h.place(8 * time.Minute)
	h.after(0)
	h.expect("it is shorter", 2)
	h.gone()
	h.place(0)
	if next := h.after(0); next != 0 || h.world.p.In.Kept.Len() != 0 {
		t.Errorf("there is none, and the next ends in %s, of %v", next, h.world.p.In.Kept.Keys())
	}
	h.expect("there is none", 1)
}

// TestLastPlaceStays: the last one has its place until somebody has the Service.
func TestLastPlaceStays(t *testing.T) {
	h := newHolding(t)
	m := h.gone()
	var others []model.Member
	h.g.Commit(func(tx *inc.Tx) {
		for _, id := range h.world.p.In.Services.Keys() {
			others = append(others, id.Member)
			h.world.p.In.Services.Delete(tx, id)
		}
	})
	h.turn()
	h.after(time.Hour)
	if row := h.row(); len(row.Members) != 0 || len(row.Placing.Held) != 2 || !slices.Contains(row.Placing.Held, m) {
		t.Errorf("%v serve, %v are held", row.Members, row.Placing.Held)
	}
	h.back(others[0])
	h.expect("another has it", 1)
}

// TestHoldOverARestart: a process that finds a hold goes on with it, and ends none before
// it knows what members have; a clock that was set back makes it no longer than anew.
func TestHoldOverARestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		away   time.Duration // between the two processes
		listed bool
		held   bool
		then   time.Duration // until it ends
	}{
		{"at once", 0, true, true, 5 * time.Minute},
		{"later", 4 * time.Minute, true, true, time.Minute},
		{"too late", time.Hour, true, false, 0},
		{"too late, and nothing is known yet", time.Hour, false, true, 0},
		{"with another clock", -time.Hour, true, true, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := newHolding(t)
			m := before.gone()
			h := newHolding(t)
			h.listed, h.now = c.listed, before.now.Add(c.away)
			h.g.Commit(func(tx *inc.Tx) {
				for _, b := range before.world.p.In.Kept.Keys() {
					row, _ := before.world.p.In.Kept.Get(nil, b)
					h.world.p.In.Kept.Set(tx, b, row)
				}
				h.world.p.In.Services.Delete(tx, model.MemberService{Service: h.web, Member: m})
			})
			h.turn()
			next := h.after(0)
			if held := slices.Contains(h.row().Placing.Held, m); held != c.held || next != c.then {
				t.Errorf("it is held: %v, for %s", held, next)
			}
			h.listed = true
			h.after(c.then)
			h.expect("afterwards", 2)
		})
	}
}

// TestPlacesOfNobodyAreForgotten: a process that ended between two commits left a row
// that nothing changes any more.
func TestPlacesOfNobodyAreForgotten(t *testing.T) {
	h := newHolding(t)
	left := model.BackendKey{Service: h.web, Port: model.PortRef{Name: "gone"}}.Backend()
	h.g.Commit(func(tx *inc.Tx) { h.world.p.In.Kept.Set(tx, left, model.Kept{{Member: "eu-1"}}) })
	h.g.Commit(h.adopt)
	if _, ok := h.world.p.In.Kept.Get(nil, left); ok || h.world.p.In.Kept.Len() != 1 {
		t.Errorf("%v are remembered", h.world.p.In.Kept.Keys())
	}
}
