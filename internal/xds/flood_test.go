package xds

import (
	"fmt"
	"iter"
	"maps"
	"testing"
)

// TestAFloodOfNamesTakesNothingFromOthers: a client asks for 400,000 made-up
// names under a wildcard. Another one keeps the certificates of its names, is
// told nothing, gets new ones at once, and a publish looks at no more names than
// clients may have between them.
func TestAFloodOfNamesTakesNothingFromOthers(t *testing.T) {
	const limit, names, atOnce = 100, 400_000, 1000
	aliases := byParent(limit)
	looked, of := 0, aliases.For
	aliases.For = func(name string) iter.Seq[string] { looked++; return of(name) }
	s, advance := aliasStore(limit)
	s.Alias(aliases)
	s.Publish("v", []Change{secretNamed("*.a", "1"), secretNamed("own.a", "own")})

	victim, want := newAsker(t, s, "v"), map[string]string{"own.a": "own"}
	victim.ask("own.a")
	for i := range limit / 2 {
		name := fmt.Sprintf("v%d.a", i)
		victim.ask(name)
		want[name] = "1 for " + name
	}
	victim.settle(advance)
	if !maps.Equal(victim.holds, want) {
		t.Fatalf("at first it holds %v", victim.holds)
	}
	for i := range 3 * limit { // names that nobody has take no room, not even its own
		victim.ask(fmt.Sprintf("v%d.unknown", i))
		victim.settle(advance)
	}
	for _, name := range victim.refused {
		victim.leave(name)
	}
	if !maps.Equal(victim.holds, want) {
		t.Fatalf("after unknown names it holds %v", victim.holds)
	}

	flood := newAsker(t, s, "v")
	for i := 0; i < names; i += atOnce {
		batch := make([]string, atOnce)
		for j := range batch {
			batch[j] = fmt.Sprintf("x%d.a", i+j)
		}
		flood.ask(batch...)
		flood.settle(advance)
		for _, name := range flood.refused { // as Envoy does
			flood.leave(name)
		}
		flood.refused = nil
		victim.look()
		if len(victim.flight) > 0 {
			t.Fatalf("after %d names the other one is told %+v", i+atOnce, victim.flight)
		}
	}
	if n := len(flood.holds); n != limit {
		t.Errorf("the flood is left with %d names, want %d", n, limit)
	}

	victim.ask("new.a")
	victim.look()
	if len(victim.flight) != 1 || len(victim.flight[0].Resources) != 1 {
		t.Fatalf("a name that is new is answered %+v", victim.flight)
	}
	victim.settle(advance)
	looked = 0
	s.Publish("v", []Change{secretNamed("*.a", "2")})
	if most := limit + limit/2 + 1; looked > most {
		t.Errorf("a rotation looked at %d names, want at most %d", looked, most)
	}
	victim.settle(advance)
	for name := range victim.wants {
		if name != "own.a" {
			want[name] = "2 for " + name
		}
	}
	if !maps.Equal(victim.holds, want) {
		t.Errorf("in the end it holds %v, want %v", victim.holds, want)
	}
	if n := len(s.see("v").aliases.rows); n > limit+len(want) {
		t.Errorf("there are %d aliases", n)
	}
}

// TestOneRequestForManyNames: of what a client asks for at once it gets its limit,
// and is told of all others that there is none. It is told of one that is
// published after all.
func TestOneRequestForManyNames(t *testing.T) {
	const limit, names = 10, 5000
	s, advance := aliasStore(limit)
	s.Publish("v", []Change{secretNamed("*.a", "1")})
	b := newAsker(t, s, "v")
	all := make([]string, names)
	for i := range all {
		all[i] = fmt.Sprintf("x%d.a", i)
	}
	b.ask(all...)
	b.settle(advance)
	if len(b.holds) != limit || len(b.refused) != names-limit {
		t.Errorf("it holds %d names, and was told that there are none for %d", len(b.holds), len(b.refused))
	}
	s.Publish("v", []Change{secretNamed("x0.a", "own")})
	b.settle(advance)
	if b.holds["x0.a"] != "own" {
		t.Error("it is not told of a name that is published")
	}
	b.ask("x1.a")
	b.settle(advance)
	if b.holds["x1.a"] == "" || len(b.holds) != limit+1 {
		t.Errorf("of a name that it asked for again it holds %q; %d in all", b.holds["x1.a"], len(b.holds))
	}
}
