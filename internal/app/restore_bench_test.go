package app

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// BenchmarkRestore measures what a start from a checkpoint of 10,000 hosts with
// 100,000 endpoints takes: to read the file, and to go on from it up to the
// first publish.
func BenchmarkRestore(b *testing.B) {
	const n = 10_000
	dir := b.TempDir()
	start := func() (*big, *checkpoint.Store, time.Duration) {
		began := time.Now()
		state, err := checkpoint.Open(checkpoint.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		read := time.Since(began)
		o := NewOffline(OfflineOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler), State: state})
		return &big{server: o.s, n: n}, state, read
	}
	stop := func(s *checkpoint.Store) {
		over, end := context.WithCancel(context.Background())
		end()
		s.Run(over)
	}
	w, state, _ := start()
	state.Complete()
	w.known = true
	w.graph.Commit(func(tx *inc.Tx) {
		w.fleet(tx)
		for i := range n {
			w.host(tx, i)
		}
	})
	w.graph.Commit(func(tx *inc.Tx) {
		for _, host := range w.prog.Hosts.Keys() {
			w.prog.In.Acks.Set(tx, host, model.EdgesOf("fra", "nyc"))
		}
	})
	state.Committed()
	stop(state)
	var reads, restores time.Duration
	for b.Loop() {
		b.StopTimer()
		w = nil
		runtime.GC()
		b.StartTimer()
		began := time.Now()
		next, state, read := start()
		restored := time.Since(began)
		next.loop.turn()
		b.StopTimer()
		if next.prog.Hosts.Len() != n || !next.published.Load() {
			b.Fatalf("%d hosts, published: %t", next.prog.Hosts.Len(), next.published.Load())
		}
		reads, restores, w = reads+read, restores+restored-read, next
		stop(state)
		b.StartTimer()
	}
	b.ReportMetric(float64(reads.Milliseconds())/float64(b.N), "ms/read")
	b.ReportMetric(float64(restores.Milliseconds())/float64(b.N), "ms/restore")
}
