package demo

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

func drawOutcome(t *rapid.T) outcome {
	return outcome{
		unsafe: rapid.Bool().Draw(t, "unsafe"), sent: time.Unix(rapid.Int64Range(1, 9).Draw(t, "sent"), 0),
		took: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "took")), member: rapid.SampledFrom([]string{"eu-1", "us-1"}).Draw(t, "member"),
		pod: "web", failed: rapid.SampledFrom([]string{"", "reset", "503"}).Draw(t, "failed"),
	}
}

// Adding up what edges saw is the same as one edge seeing all of it.
func TestPlusIsOneTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.Custom(drawOutcome)).Draw(t, "all")
		var one, a, b tally
		for i, o := range all {
			half, sent := &a, user.Counts{Sent: 1, Late: rapid.IntRange(0, 1).Draw(t, "late"), Again: rapid.IntRange(0, 1).Draw(t, "again")}
			if i%2 == 1 {
				half = &b
			}
			for _, to := range []*tally{&one, half} {
				to.add(o)
				to.counts = to.counts.Plus(sent)
			}
		}
		sum := a.plus(b)
		if !maps.Equal(sum.members, one.members) || !maps.Equal(sum.pods, one.pods) || sum.done != one.done || sum.counts != one.counts {
			t.Fatalf("%+v\n%+v", sum, one)
		}
		same := func(x, y class) bool {
			return x.sent == y.sent && x.latency == y.latency && x.failed == y.failed && maps.Equal(x.reasons, y.reasons) && x.first.Equal(y.first) && x.last.Equal(y.last)
		}
		if !same(sum.safe, one.safe) || !same(sum.unsafe, one.unsafe) {
			t.Fatalf("%+v %+v\n%+v %+v", sum.safe, sum.unsafe, one.safe, one.unsafe)
		}
		if (sum.unscathed() == nil) != (sum.safe.failed+sum.unsafe.failed == 0) {
			t.Fatal(sum.unscathed())
		}
	})
}

// A quantile is never below the true one and at most a tenth above it.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var h histogram
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = firstBucket + time.Duration(r.Int64N(int64(time.Minute)))
			h.add(all[i])
		}
		slices.Sort(all)
		for _, percent := range []int{1, 50, 99, 100} {
			exact := all[max(0, (percent*n+99)/100-1)]
			got := h.quantile(float64(percent) / 100)
			if got < exact || float64(got) > 1.11*float64(exact) {
				t.Fatalf("%d%% of %d: %v, exactly %v", percent, n, got, exact)
			}
		}
	})
	if got := (&histogram{}).quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestFailuresInWords(t *testing.T) {
	c := class{reasons: map[string]int{"reset": 2, "503": 7, "refused": 2}}
	if got := c.String(); got != "7 × 503, 2 × refused, 2 × reset" {
		t.Error(got)
	}
}
