package leaf

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// drawFacts draws what a member says, of few editions and few things to lose.
func drawFacts(t *rapid.T, m model.Member, wave int) facts {
	f := facts{member: m, wave: wave, reached: rapid.IntRange(0, 3).Draw(t, "reached") > 0, of: map[string]fact{}}
	f.there = rapid.IntRange(0, 3).Draw(t, "there") > 0
	f.refuses = rapid.IntRange(0, 5).Draw(t, "refuses") == 0
	f.foreign = !f.there && rapid.IntRange(0, 5).Draw(t, "foreign") == 0
	if !f.there {
		return f
	}
	f.edition = model.EditionOf(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "edition")).ID
	health := func(name string) fact {
		return fact{health: rapid.SampledFrom([]model.Health{model.Up, model.Up, model.Up, model.Down, model.Unknown}).Draw(t, name)}
	}
	f.of[taken] = fact{health: model.Up}
	if f.refuses {
		f.of[taken] = fact{health: model.Down}
	}
	for _, name := range []string{observed, addresses, "Accepted"} {
		if rapid.Bool().Draw(t, "says "+name) {
			f.of[name] = health(name)
		}
	}
	return f
}

// TestRollingLaws: whatever members say and owners do, what is remembered gives itself
// again; there are no more editions than waves, what all had, and one that nobody has; an edition reaches one wave more at a time,
// and that only when it was not stopped and the pause was over; and nobody forgets a stop.
func TestRollingLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m model.Rollout
		had := false
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			x := &rolling{was: m, had: had, waves: rapid.IntRange(2, 4).Draw(t, "waves"), unread: func(int) bool { return false }}
			x.last = model.EditionOf(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "root"))
			if had && rapid.Bool().Draw(t, "same") {
				x.last = model.EditionOf(m.Last().Body)
			}
			for i := range rapid.IntRange(0, 4).Draw(t, "members") {
				x.members = append(x.members, drawFacts(t, model.Member(fmt.Sprint("m", i)), rapid.IntRange(0, x.waves-1).Draw(t, "wave")))
			}
			if had {
				x.word = rapid.SampledFrom([]string{"", "", "resume=" + m.Last().Token(), "back=" + m.Last().Token(), "resume=x"}).Draw(t, "word")
			}
			if had && m.Rests() && m.Last().ID == x.last.ID {
				continue // nothing is asked then
			}
			out := x.step()
			check(t, x, out)
			again := *x
			again.was, again.had = out.Memory, true
			if !out.Memory.Rests() {
				if then := again.step(); !then.Memory.Equal(out.Memory) || then.State != out.State {
					t.Fatalf("%+v\nthen %+v", out, then)
				}
			}
			if m, had = out.At(5), true; out.Ready && rapid.Bool().Draw(t, "over") {
				m = m.Ended()
			}
		}
	})
}

func check(t *rapid.T, x *rolling, out Rollout) {
	m, was := out.Memory, x.was
	if len(m.Editions) == 0 || len(m.Editions) > x.waves+2 || m.Last().ID != x.last.ID {
		t.Fatalf("%d waves have %+v", x.waves, m.Editions)
	}
	for i := 2; i < len(m.Editions); i++ {
		if m.Editions[i].Reach >= m.Editions[i-1].Reach {
			t.Fatalf("an edition is covered by a later one: %+v", m.Editions)
		}
	}
	if out.Ready && (out.State != v1alpha1.ReasonInWave || len(out.Waits) > 0) {
		t.Fatalf("it is ready, and is not: %+v", out)
	}
	if !x.had || was.Rests() || was.Last().ID != x.last.ID || was.Waves != x.waves || x.word != "" {
		return
	}
	before, now := was.Last(), m.Last()
	if before.Stopped != (model.Stop{}) && (m.Rests() || now.Stopped != before.Stopped || now.Reach > before.Reach) && !x.known(was) {
		t.Fatalf("it was stopped, and goes on: %+v then %+v", was, out)
	}
	between := func(f facts) bool { return f.wave >= before.Reach && f.wave < now.Reach-1 }
	if !m.Rests() && now.Reach > before.Reach && (before.Reach > 0 && !was.Over || slices.ContainsFunc(x.members, between)) {
		t.Fatalf("it goes too far: %+v then %+v", was, out)
	}
	if m.Rests() && len(x.members) > 0 && !was.Over && !x.known(was) {
		t.Fatalf("it is at its end, and no pause was over: %+v then %+v", was, out)
	}
}
