package leaf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

var web = model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}

// drawSituation is a root with hosts, edges in any state, and what its status
// says now.
func drawSituation(t *rapid.T) []string {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	lines := []string{"class spillway default", "ingress shop/old c.example/->web:80"}
	root := "ingress shop/web"
	for _, h := range []string{"a.example", "b.example", "c.example"} {
		if rapid.Bool().Draw(t, h) {
			root += " " + h + "/->web:80"
		}
	}
	var published []string
	for i := range 3 {
		edge, address := fmt.Sprintf("e%d", i), fmt.Sprintf("192.0.2.%d", i)
		if pick("edge", "yes", "yes", "no") == "yes" {
			lines = append(lines, "edge "+edge+" region=eu addresses="+address, "streams "+edge+" "+pick("streams", "-", "0", "1/0", "1/1"))
		}
		for _, h := range []string{"a.example", "b.example", "c.example"} {
			if rapid.Bool().Draw(t, "acknowledged") {
				lines = append(lines, "ack "+edge+" "+h)
			}
		}
		if rapid.Bool().Draw(t, "published") {
			published = append(published, address)
		}
	}
	return append(lines, root+" published="+strings.Join(published, ","))
}

type world struct {
	*fleettest.World
	t *leaf.Tables
}

func newWorld(t *rapid.T, lines ...string) world {
	var w world
	w.World = fleettest.New(func(g *inc.Graph, p *fleet.Program) map[string]fleettest.Command {
		w.t = leaf.Declare(g, p, leaf.Outputs{})
		return nil
	})
	w.do(t, lines...)
	return w
}

func (w world) do(t *rapid.T, lines ...string) {
	if _, err := w.Do(lines...); err != nil {
		t.Fatal(err)
	}
	w.Commit()
}

func (w world) addresses() []string {
	row, _ := w.t.Roots.Get(nil, web)
	return row.Addresses.List()
}

// TestAddressesTwin says of each edge alone whether its address is listed.
func TestAddressesTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawSituation(t)...)
		p := w.Program
		root, _ := p.In.Roots.Get(nil, web)
		var want []string
		for _, e := range p.In.Edges.Keys() {
			spec, _ := p.In.Edges.Get(nil, e)
			won, known := 0, 0
			for _, rules := range p.RulesOf.Keys(nil, web) {
				if rules.Host == "c.example" {
					continue // the older root has it
				}
				won++
				if by, _ := p.In.Acks.Get(nil, model.HostKey{Class: "spillway", Host: rules.Host}); by.Has(e) {
					known++
				}
			}
			s, _ := p.In.Streams.Get(nil, e)
			address := spec.PublicAddresses()[0]
			there := root.Published.Has(address)
			silent := s.Synced == 0
			if won > 0 && (known == won || there && (known > 0 || silent)) {
				want = append(want, address)
			}
		}
		if got := w.addresses(); !slices.Equal(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
	})
}

// TestSilenceTakesNothingAway: whatever was listed and is in the status stays
// when every stream is lost.
func TestSilenceTakesNothingAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawSituation(t)...)
		root, _ := w.Program.In.Roots.Get(nil, web)
		before := w.addresses()
		for _, e := range w.Program.In.Edges.Keys() {
			w.do(t, fmt.Sprintf("streams %s %s", e, rapid.SampledFrom([]string{"0", "-"}).Draw(t, "lost")))
		}
		for _, a := range before {
			if root.Published.Has(a) && !slices.Contains(w.addresses(), a) {
				t.Fatalf("%s went with the streams", a)
			}
		}
	})
}

// TestWritingTheStatusSettlesIt: once what is wanted is in the status, no more
// is wanted.
func TestWritingTheStatusSettlesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawSituation(t)...)
		root, _ := w.Program.In.Roots.Get(nil, web)
		want := w.addresses()
		root.Published = model.TextsOf(want)
		w.Graph.Commit(func(tx *inc.Tx) { w.Program.In.Roots.Set(tx, web, root) })
		if got := w.addresses(); !slices.Equal(got, want) {
			t.Fatalf("after %v was written, %v is wanted", want, got)
		}
		if row, _ := w.t.Roots.Get(nil, web); !row.Settled {
			t.Fatalf("%v is not settled", want)
		}
	})
}

func TestCountsFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 20).Draw(t, "edits") {
			member := rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "member")
			service := rapid.SampledFrom([]string{"ns/a", "ns/b"}).Draw(t, "service")
			line := rapid.SampledFrom([]string{"pods %s %s 10.0.0.1", "pods %s %s 10.0.0.1 10.0.0.2", "delete service %s %s", "delete slice %s %s only"}).Draw(t, "edit")
			w.do(t, fmt.Sprintf(line, member, service))
		}
		for _, m := range []model.Member{"m1", "m2"} {
			var want leaf.Count
			for _, k := range w.Program.In.Services.Keys() {
				if k.Member == m {
					want.Services++
				}
			}
			for _, k := range w.Program.In.Slices.Keys() {
				if s, _ := w.Program.In.Slices.Get(nil, k); k.Member == m {
					want.Endpoints += s.Endpoints.Len()
				}
			}
			if got := w.t.Counts.Of(m); got != want {
				t.Fatalf("%s: %+v, not %+v", m, got, want)
			}
		}
	})
}
