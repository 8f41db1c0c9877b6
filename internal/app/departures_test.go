package app

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// heldBack is a hub that notes who is held back.
type heldBack map[model.Member]bool

func (h heldBack) Guard(m model.Member)        { h[m] = true }
func (h heldBack) Release(m model.Member)      { delete(h, m) }
func (h heldBack) ForgetMember(m model.Member) { delete(h, m) }

func (h heldBack) names() string { return fmt.Sprint(slices.Sorted(maps.Keys(h))) }

// TestDepartures: a member that is deleted stays while it is the last that serves, unless
// it is forced; one that nobody needs goes. What is not known is waited for, and not longer
// than plans wait for it.
func TestDepartures(t *testing.T) {
	g := inc.New()
	p := fleet.Declare(g)
	hub, known, now := heldBack{}, false, time.Unix(1e9, 0)
	d := newDepartures(p, hub, func() bool { return known })
	service := model.ServiceOf("shop", "web")
	backend := model.BackendKey{Service: service, Port: model.PortRef{Number: 80}}.Backend()
	in := &p.In
	serve := func(tx *inc.Tx, m model.Member) {
		id := model.MemberService{Service: service, Member: m}
		in.Services.Set(tx, id, model.ServiceSpec{Ports: []model.ServicePort{{Number: 80, Protocol: "TCP"}}})
		in.Slices.Set(tx, model.SliceID{MemberService: id, Name: "web"}, model.Slice{
			Ports:     []model.SlicePort{{Number: 8080}},
			Endpoints: model.EndpointsOf(model.Endpoint{Addr: netip.MustParseAddr("10.1.0.1")}),
		})
		in.Sources.Set(tx, m, model.Source{Connected: true})
	}
	member := func(tx *inc.Tx, m model.Member, edit func(*model.MemberSpec)) {
		spec := model.MemberSpec{Networks: []string{"default"}, Seen: true, Stays: hub[m]}
		edit(&spec)
		in.Members.Set(tx, m, spec)
	}
	plain := func(*model.MemberSpec) {}
	leaves := func(s *model.MemberSpec) { s.Leaving = true }
	forced := func(s *model.MemberSpec) { s.Leaving, s.Forced = true, true }
	g.Commit(func(tx *inc.Tx) {
		in.Edges.Set(tx, "fra", model.EdgeSpec{Networks: []string{"default"}})
		in.Classes.Set(tx, "spillway", model.ClassSpec{})
		in.Roots.Set(tx, model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}, model.Root{Classes: "spillway", Default: &backend})
		for _, m := range []model.Member{"eu-1", "us-1"} {
			member(tx, m, plain)
			serve(tx, m)
		}
		member(tx, "idle", plain)
		in.Sources.Set(tx, "idle", model.Source{Connected: true})
	})
	look := func() (next time.Duration) {
		now = now.Add(departLast)
		writes, at := d.due(now)
		g.Commit(func(tx *inc.Tx) {
			for _, write := range writes {
				write(tx)
			}
		})
		if at.IsZero() {
			return 0
		}
		return at.Sub(now)
	}
	for _, c := range []struct {
		when  string
		do    func(tx *inc.Tx)
		holds string // who is held back after it
		last  string // of whom it is said
	}{
		{"all are held back", func(*inc.Tx) {}, "[eu-1 idle us-1]", ""},
		{"before all is known", func(tx *inc.Tx) { member(tx, "idle", leaves) }, "[eu-1 idle us-1]", ""},
		{"it is known", func(*inc.Tx) { known = true }, "[eu-1 us-1]", ""},
		{"it is gone", func(tx *inc.Tx) { in.Members.Delete(tx, "idle") }, "[eu-1 us-1]", ""},
		{"rows of another are missing", func(tx *inc.Tx) { member(tx, "ap-1", plain); member(tx, "us-1", leaves) }, "[ap-1 eu-1 us-1]", ""},
		{"they are waited for no more", func(tx *inc.Tx) { in.Overdue.Set(tx, "ap-1", model.There{}) }, "[ap-1 eu-1]", ""},
		{"the last one stays", func(tx *inc.Tx) { in.Members.Delete(tx, "us-1"); member(tx, "eu-1", leaves) }, "[ap-1 eu-1]", "eu-1"},
		{"another has the Service", func(tx *inc.Tx) { serve(tx, "ap-1") }, "[ap-1]", ""},
		{"the last one", func(tx *inc.Tx) { in.Members.Delete(tx, "eu-1"); member(tx, "ap-1", leaves) }, "[ap-1]", "ap-1"},
		{"is forced", func(tx *inc.Tx) { member(tx, "ap-1", forced) }, "[]", ""},
		{"its finalizer is on it yet", func(*inc.Tx) {}, "[]", ""},
		{"all are gone", func(tx *inc.Tx) { in.Members.Delete(tx, "ap-1") }, "[]", ""},
		{"an unread one", func(tx *inc.Tx) { member(tx, "ap-2", plain) }, "[ap-2]", ""},
		{"stays until it is read", func(tx *inc.Tx) { member(tx, "ap-2", leaves) }, "[ap-2]", ""},
		{"or waited for no more", func(tx *inc.Tx) { in.Overdue.Set(tx, "ap-2", model.There{}) }, "[]", ""},
	} {
		g.Commit(c.do)
		look()
		if got := hub.names(); got != c.holds {
			t.Errorf("%s: %s are held back, want %s", c.when, got, c.holds)
		}
		if keys := in.LastSites.Keys(); strings.Trim(fmt.Sprint(keys), "[]") != c.last {
			t.Errorf("%s: last sites %v, want %s", c.when, keys, c.last)
		}
		for _, m := range in.LastSites.Keys() {
			if row, _ := in.LastSites.Get(nil, m); fmt.Sprint(row.V.List()) != "[shop/web/80]" {
				t.Errorf("%s: the last of %v", c.when, row.V.List())
			}
		}
	}
	g.Commit(func(tx *inc.Tx) { in.Members.Delete(tx, "ap-2") })
	if next := look(); next != 0 {
		t.Errorf("nobody leaves, and it is looked in %s", next)
	}
}
