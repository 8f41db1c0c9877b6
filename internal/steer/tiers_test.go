package steer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/model"
)

var (
	fra  = model.Place{Region: "eu", Zone: "fra", Latitude: 50, Longitude: 8, Located: true}
	fra2 = model.Place{Region: "eu", Zone: "fra2", Latitude: 50, Longitude: 8, Located: true}
	lon  = model.Place{Region: "uk", Zone: "lon", Latitude: 51, Longitude: 0, Located: true}
	lon2 = model.Place{Region: "uk", Zone: "lon2", Latitude: 51, Longitude: 0, Located: true}
	nyc  = model.Place{Region: "us", Zone: "nyc", Latitude: 40, Longitude: -74, Located: true}
	lost = model.Place{Region: "elsewhere"}
)

func (p Plan) text() string {
	var out []string
	for _, s := range p.Shares {
		line := fmt.Sprintf("%d %s %s %s %d", s.Tier, s.Member, s.Place.Place().Zone, s.State, s.Weight)
		if s.Terminating {
			line += " terminating"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestTiers(t *testing.T) {
	on := func(m model.Member, p model.Place, ready int) Candidate {
		return Candidate{Member: m, Place: p, Ready: ready, Serves: true}
	}
	with := func(c Candidate, f func(*Candidate)) Candidate { f(&c); return c }
	isDown := func(c *Candidate) { c.Health = model.Down }
	isStale := func(c *Candidate) { c.Stale = true }
	isDrained := func(c *Candidate) { c.Serves = false }
	isTainted := func(c *Candidate) { c.Serves, c.Barred = false, true }
	ends := func(c *Candidate) { c.Draining, c.Ready = c.Ready, 0 }
	cases := []struct {
		name string
		in   []Candidate
		want string
	}{
		{"nobody", nil, ""},
		{"no endpoints", []Candidate{on("a", fra, 0)}, ""},
		{"zone, region, distance, unknown", []Candidate{on("e", lost, 1), on("d", nyc, 1), on("c", lon, 1), on("b", fra2, 1), on("a", fra, 1)},
			"0 a fra Serving 1\n1 b fra2 Serving 1\n2 c lon Serving 1\n3 d nyc Serving 1\n4 e  Serving 1"},
		{"equally far, by endpoints", []Candidate{on("c", lon, 3), on("d", lon2, 1)}, "0 c lon Serving 3\n0 d lon2 Serving 1"},
		{"a path that is down", []Candidate{with(on("a", fra, 9), isDown), on("d", nyc, 1)}, "1 d nyc Serving 1\n0 a fra Failed 0"},
		{"a drain", []Candidate{with(on("a", fra, 9), isDrained), on("d", nyc, 1)}, "1 d nyc Serving 1\n0 a fra Drained 0"},
		{"down is behind, drained is last", []Candidate{with(on("a", fra, 9), isDrained), with(on("b", fra2, 9), isDown), on("d", nyc, 1)},
			"2 d nyc Serving 1\n1 b fra2 Failed 0\n0 a fra Drained 0"},
		{"all paths down: as if none were", []Candidate{with(on("a", fra, 2), isDown), with(on("d", nyc, 1), isDown)},
			"0 a fra Serving 2\n1 d nyc Serving 1"},
		{"all drained: as if none were", []Candidate{with(on("a", fra, 2), isDrained), with(on("d", nyc, 1), isDrained)},
			"0 a fra Serving 2\n1 d nyc Serving 1"},
		{"a drained one before one that is down", []Candidate{with(on("a", fra, 2), isDown), with(on("d", nyc, 1), isDrained)},
			"1 d nyc Serving 1\n0 a fra Failed 0"},
		{"a tainted one never", []Candidate{with(on("a", fra, 2), isDown), with(on("d", nyc, 1), isTainted)},
			"0 a fra Serving 2\n1 d nyc Drained 0"},
		{"all tainted", []Candidate{with(on("d", nyc, 1), isTainted)}, "0 d nyc Drained 0"},
		{"terminating ones elsewhere are better left", []Candidate{with(on("a", fra, 5), ends), on("d", nyc, 1)},
			"1 d nyc Serving 1\n0 a fra Drained 0"},
		{"terminating ones if there are no others", []Candidate{with(on("a", fra, 5), ends), with(on("d", nyc, 1), isTainted)},
			"0 a fra Serving 5 terminating\n1 d nyc Drained 0"},
		{"terminating ones before a drained member", []Candidate{with(on("a", fra, 5), ends), with(on("d", nyc, 1), isDrained)},
			"0 a fra Serving 5 terminating\n1 d nyc Drained 0"},
		{"a stale one behind a fresh one", []Candidate{with(on("a", fra, 2), isStale), on("d", nyc, 1)},
			"1 d nyc Serving 1\n0 a fra Drained 0"},
		{"a stale one behind one that is drained", []Candidate{with(on("a", fra, 2), isStale), with(on("d", nyc, 1), isDrained)},
			"1 d nyc Serving 1\n0 a fra Drained 0"},
		{"a stale one behind terminating ones", []Candidate{with(on("a", fra, 2), isStale), with(on("d", nyc, 1), ends)},
			"1 d nyc Serving 1 terminating\n0 a fra Drained 0"},
		{"a stale one before one that is down", []Candidate{with(on("a", fra, 2), isStale), with(on("d", nyc, 1), isDown)},
			"0 a fra Serving 2\n1 d nyc Failed 0"},
		{"all stale: as if none were", []Candidate{with(on("a", fra, 2), isStale), with(on("d", nyc, 1), isStale)},
			"0 a fra Serving 2\n1 d nyc Serving 1"},
		{"one member and place is one", []Candidate{on("a", fra, 2), on("a", fra, 3)}, "0 a fra Serving 5"},
	}
	for _, c := range cases {
		if got := Tiers(fra, c.in).text(); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

func TestTiersAreBounded(t *testing.T) {
	var in []Candidate
	for i := range 300 {
		p := model.Place{Region: fmt.Sprint("r", i), Latitude: 50, Longitude: 8 + float64(i)/2, Located: true}
		in = append(in, Candidate{Member: model.Member(fmt.Sprint("m", i)), Place: p, Ready: 1, Serves: true})
	}
	shares := Tiers(fra, in).Shares
	if last := shares[len(shares)-1].Tier; last != maxTiers-1 {
		t.Errorf("the last tier is %d", last)
	}
}

// drawCandidates draws from a domain so small that members, places and
// distances collide.
func drawCandidates(t *rapid.T) []Candidate {
	places := []model.Place{fra, fra2, lon, lon2, nyc, lost, {}}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Candidate {
		barred := rapid.IntRange(0, 5).Draw(t, "barred") == 0
		return Candidate{
			Member:   model.Member(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "member")),
			Place:    rapid.SampledFrom(places).Draw(t, "place"),
			Ready:    rapid.IntRange(0, 3).Draw(t, "ready"),
			Draining: rapid.IntRange(0, 2).Draw(t, "draining"),
			Health:   rapid.SampledFrom([]model.Health{model.Unknown, model.Up, model.Down}).Draw(t, "health"),
			Serves:   !barred && rapid.IntRange(0, 3).Draw(t, "serves") > 0,
			Stale:    rapid.IntRange(0, 3).Draw(t, "stale") == 0,
			Barred:   barred,
		}
	}), 0, 6).Draw(t, "candidates")
}

// consistent makes health and the state of a member the same in all its
// candidates, as they are of a member, and drops all but the first of a place.
func consistent(all []Candidate) []Candidate {
	var out []Candidate
	first := map[model.Member]Candidate{}
	for _, c := range all {
		f, ok := first[c.Member]
		if !ok {
			f, first[c.Member] = c, c
		}
		c.Health, c.Serves, c.Stale, c.Barred = f.Health, f.Serves, f.Stale, f.Barred
		if !slices.ContainsFunc(out, func(o Candidate) bool { return o.Member == c.Member && o.Place == c.Place }) {
			out = append(out, c)
		}
	}
	return out
}

func TestTiersProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom([]model.Place{fra, lon, nyc, lost, {}}).Draw(t, "from")
		in := consistent(drawCandidates(t))
		plan := Tiers(from, in)
		if got, want := plan.text(), twin(from, in).text(); got != want {
			t.Fatalf("plan\n%s\ntwin\n%s", got, want)
		}
		shuffled := rapid.Permutation(in).Draw(t, "order")
		if !Tiers(from, shuffled).Equal(plan) {
			t.Fatal("the order of candidates matters")
		}
		var sum uint32
		for i, s := range plan.Shares {
			sum += s.Weight
			if (s.Weight > 0) != (s.State == Serving) {
				t.Fatalf("%s has weight %d", s.State, s.Weight)
			}
			if i > 0 && s.State == plan.Shares[i-1].State && s.Tier < plan.Shares[i-1].Tier {
				t.Fatal("the tiers of one state are not in order")
			}
		}
		if useful := slices.ContainsFunc(in, func(c Candidate) bool { return !c.Barred && c.Ready+c.Draining > 0 }); useful != (sum > 0) {
			t.Fatalf("shares sum to %d", sum)
		}
		upThere := slices.ContainsFunc(in, func(c Candidate) bool {
			return c.Health != model.Down && !c.Barred && c.Ready+c.Draining > 0
		})
		for _, s := range plan.Shares {
			i := slices.IndexFunc(in, func(c Candidate) bool { return c.Member == s.Member && c.Place == s.Place.Place() })
			if s.State == Serving && in[i].Health == model.Down && upThere {
				t.Fatal("a down site gets requests while one that is up has room")
			}
		}
	})
}

// TestTiersOfOthersStay: when a member fails or is drained, and when it comes
// back, nobody changes tiers.
func TestTiersOfOthersStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := consistent(drawCandidates(t))
		tiers := func() map[string]int {
			out := map[string]int{}
			for _, s := range Tiers(fra, in).Shares {
				out[fmt.Sprint(s.Member, s.Place)] = s.Tier
			}
			return out
		}
		before := tiers()
		health := rapid.SampledFrom([]model.Health{model.Unknown, model.Up, model.Down}).Draw(t, "health")
		serves := rapid.Bool().Draw(t, "serves")
		for i := range in {
			if in[i].Member == "a" {
				in[i].Health, in[i].Serves = health, serves
			}
		}
		if after := tiers(); !maps.Equal(before, after) {
			t.Fatalf("tiers %v, and %v when a is otherwise", before, after)
		}
	})
}

// TestMoreCapacityNeverMovesAway: a ready endpoint more does not make the
// candidate's part of its tier smaller, nor its tier later.
func TestMoreCapacityNeverMovesAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := consistent(drawCandidates(t))
		if len(in) == 0 {
			return
		}
		i := rapid.IntRange(0, len(in)-1).Draw(t, "which")
		part := func() (tier int, share float64, serves bool) {
			plan := Tiers(fra, in)
			for _, s := range plan.Shares {
				if s.Member != in[i].Member || s.Place != in[i].Place.Spot() || s.State != Serving {
					continue
				}
				var sum uint32
				for _, o := range plan.Shares {
					if o.State == Serving && o.Tier == s.Tier {
						sum += o.Weight
					}
				}
				return s.Tier, float64(s.Weight) / float64(sum), true
			}
			return 0, 0, false
		}
		tier, share, served := part()
		in[i].Ready++
		after, more, serves := part()
		if served && (!serves || after > tier || after == tier && more < share) {
			t.Fatalf("from tier %d, %.2f to tier %d, %.2f", tier, share, after, more)
		}
	})
}

// twin is Tiers, written as the rules are told: try the rooms in turn, sort all
// by distance, count the distances that are nearer.
func twin(from model.Place, in []Candidate) Plan {
	fresh := func(c Candidate) bool { return !c.Stale }
	isUp := func(c Candidate) bool { return c.Health != model.Down }
	wanted := func(c Candidate) bool { return c.Serves }
	ready := func(c Candidate) bool { return c.Ready > 0 }
	offers := [][]func(Candidate) bool{
		{isUp, fresh, wanted, ready}, {isUp, fresh, wanted}, {isUp, fresh, ready}, {isUp, fresh},
		{isUp, wanted, ready}, {isUp, wanted}, {isUp, ready}, {isUp},
		{fresh, wanted, ready}, {fresh, wanted}, {fresh, ready}, {fresh},
		{wanted, ready}, {wanted}, {ready}, {},
	}
	var there []Candidate
	for _, c := range in {
		if c.Ready+c.Draining > 0 {
			there = append(there, c)
		}
	}
	var serving, failed, drained []Candidate
	for _, offer := range offers {
		for _, c := range there {
			if !c.Barred && !slices.ContainsFunc(offer, func(is func(Candidate) bool) bool { return !is(c) }) {
				serving = append(serving, c)
			}
		}
		if len(serving) > 0 {
			break
		}
	}
	for _, c := range there {
		switch {
		case slices.Contains(serving, c):
		case c.Health == model.Down:
			failed = append(failed, c)
		default:
			drained = append(drained, c)
		}
	}
	var out Plan
	for state, list := range [][]Candidate{serving, failed, drained} {
		slices.SortFunc(list, func(a, b Candidate) int {
			if d := far(from, a) - far(from, b); d != 0 {
				return d
			}
			if a.Member != b.Member {
				return strings.Compare(string(a.Member), string(b.Member))
			}
			return a.Place.Compare(b.Place)
		})
		for _, c := range list {
			nearer := map[int]bool{}
			for _, o := range there {
				if far(from, o) < far(from, c) {
					nearer[far(from, o)] = true
				}
			}
			s := Share{Member: c.Member, Place: c.Place.Spot(), Tier: len(nearer), State: State(state)}
			if s.State == Serving {
				s.Weight, s.Terminating = uint32(c.Ready), c.Ready == 0
				if c.Ready == 0 {
					s.Weight = uint32(c.Draining)
				}
			}
			out.Shares = append(out.Shares, s)
		}
	}
	return out
}

// far is a number for the distance: same zone, same region, kilometres, unknown.
func far(from model.Place, c Candidate) int {
	if from.Region != "" && from.Region == c.Place.Region {
		if from.Zone != "" && from.Zone == c.Place.Zone {
			return -2
		}
		return -1
	}
	km, ok := model.Kilometres(from, c.Place)
	if !ok {
		return 1 << 30
	}
	return int(km + 0.5)
}
