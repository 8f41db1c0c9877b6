package inc

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What is sorted by runs is what the library sorts, the equal ones in their
// order, however many runs there are.
func TestSortRunsIsAStableSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		keys := rapid.SliceOfN(rapid.IntRange(0, rapid.SampledFrom([]int{3, 1000}).Draw(t, "most")), n, n).Draw(t, "keys")
		at := 0
		for at < n { // runs of any length
			end := min(n, at+rapid.IntRange(1, 100).Draw(t, "run"))
			slices.Sort(keys[at:end])
			at = end
		}
		compare := func(a, b uint32) int { return cmp.Compare(keys[a], keys[b]) }
		got := make([]uint32, n)
		for i := range got {
			got[i] = uint32(i)
		}
		want := slices.Clone(got)
		slices.SortStableFunc(want, compare)
		if sortRuns(got, compare); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", keys, got, want)
		}
	})
}

// Rows that come in few runs cost few comparisons.
func TestSortRunsComparesLittle(t *testing.T) {
	const n, each = 8192, 1024
	for _, c := range []struct {
		name string
		rows func() []uint32
		most int // comparisons of a row
	}{
		{"in order", func() []uint32 { return upTo(n) }, 1},
		{"eight runs", func() []uint32 {
			var out []uint32
			for run := range n / each {
				for i := range each {
					out = append(out, uint32(i*n/each+run))
				}
			}
			return out
		}, 1 + 3},
		{"in no order", func() []uint32 {
			out := upTo(n)
			rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
			return out
		}, 1 + 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, calls := c.rows(), 0
			sortRuns(rows, func(a, b uint32) int { calls++; return cmp.Compare(a, b) })
			if !slices.Equal(rows, upTo(n)) {
				t.Error("not sorted")
			}
			if calls > c.most*n {
				t.Errorf("%.1f comparisons a row, want at most %d", float64(calls)/n, c.most)
			}
		})
	}
}

func upTo(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}
