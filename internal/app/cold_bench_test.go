package app

import (
	"slices"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
)

// BenchmarkColdCommit measures what a lone change costs whose commit finds
// nothing of the graph in the caches: each is behind a walk through 64 MiB. The
// median, since whatever else runs on the machine only makes it longer.
func BenchmarkColdCommit(b *testing.B) {
	w := newBig(1000)
	w.settle(w.turns(func(inc.Stats) {}))
	large := make([]uint64, 64<<20/8)
	n := 0
	for _, c := range []struct {
		what  string
		write func(*inc.Tx)
	}{
		{"empty", func(*inc.Tx) {}},
		{"endpoint", func(tx *inc.Tx) { n++; w.slice(tx, n*37%w.n, 1, n) }},
	} {
		b.Run(c.what, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				for i := 0; i < len(large); i += 8 {
					large[i]++
				}
				began := time.Now()
				w.graph.Commit(c.write)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "us/median")
			b.ReportMetric(float64(took[0].Nanoseconds())/1e3, "us/least")
		})
	}
}
