// Package fanout measures what one changed resource costs when many streams
// follow it: a real server and fake proxies over gRPC on a unix socket, in
// one process. It is for "make bench" and decides nothing.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

// Params say how large the world is.
type Params struct {
	Type      xds.TypeURL // of the resources: assignments, or what one stream is sent first
	Streams   int         // proxies, each subscribed to all names
	Names     int         // resources in the view
	Endpoints int         // the size of each, as assignments have it
	Changes   int         // measured, one after another
}

// Result is what was measured. CPU is of the whole process, so of the fake
// proxies as well; the server's part alone is what BenchmarkEndpointChange in
// package xds prints, plus gRPC.
type Result struct {
	FirstSyncCPU    time.Duration // of all streams together
	FirstSyncBytes  uint64        // of one stream
	HeapPerStream   uint64        // bytes kept by server and fake proxy together, in sync
	ChangeCPU       time.Duration // of one change to all streams
	ChangeAllocs    uint64        // of one change to all streams
	ChangeBytes     uint64        // of one change to one stream
	ChangeResponses float64       // of one change to one stream
	ChangeP50       time.Duration // from publish until the last stream has it
	ChangeP99       time.Duration
}

// Measure runs once. It needs a few seconds, and about 100 KB a stream.
func Measure(ctx context.Context, p Params) (Result, error) {
	dir, err := os.MkdirTemp("", "fanout-")
	if err != nil {
		return Result{}, fmt.Errorf("fanout: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "xds.sock")
	end, err := xds.ListenUnix(socket)
	if err != nil {
		return Result{}, err
	}
	store := xds.NewStore()
	names := make([]string, p.Names)
	all := make([]xds.Change, p.Names)
	for i := range all {
		names[i] = fmt.Sprintf("team-%03d/svc-%05d/8080", i%200, i)
		if all[i], err = resource(p.Type, names[i], p.Endpoints, i); err != nil {
			return Result{}, err
		}
	}
	store.Publish("bench", all)
	s := xds.NewServer(xds.Config{
		Store: store, ViewOf: func(string) (string, bool) { return "bench", true }, MaxStreams: p.Streams,
	})
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var served error
	wg.Go(func() { served = s.Serve(ctx, end) })
	r, err := measure(ctx, p, store, socket, names)
	cancel()
	wg.Wait()
	return r, errors.Join(err, served)
}

func measure(ctx context.Context, p Params, store *xds.Store, socket string, names []string) (Result, error) {
	var r Result
	w := &watch{got: make(chan struct{}, 1)}
	before := heap()
	cpu := processCPU()
	w.want.Store(int64(p.Streams * p.Names))
	var proxies []*proxy
	defer func() {
		for _, c := range proxies {
			c.close()
		}
	}()
	for i := range p.Streams {
		c, err := dial(ctx, socket, fmt.Sprintf("node-%d", i), p.Type, names, w)
		if err != nil {
			return r, err
		}
		proxies = append(proxies, c)
	}
	if err := w.wait(ctx); err != nil {
		return r, err
	}
	r.FirstSyncCPU = processCPU() - cpu
	r.FirstSyncBytes = w.bytes.Load() / uint64(p.Streams)
	r.HeapPerStream = (max(heap(), before) - before) / uint64(p.Streams)
	return r, changes(ctx, p, store, names, w, &r)
}

// changes measures one change after another, of names spread over the view.
func changes(ctx context.Context, p Params, store *xds.Store, names []string, w *watch, r *Result) error {
	prepared := make([]xds.Change, p.Changes)
	for i := range prepared {
		var err error
		if prepared[i], err = resource(p.Type, names[i*7919%len(names)], p.Endpoints, 1_000_000+i); err != nil {
			return err
		}
	}
	took := make([]time.Duration, 0, p.Changes)
	bytes, responses := w.bytes.Load(), w.responses.Load()
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	cpu := processCPU()
	for _, ch := range prepared {
		w.want.Store(int64(p.Streams))
		start := time.Now()
		store.Publish("bench", []xds.Change{ch})
		if err := w.wait(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	n := p.Changes
	r.ChangeCPU = (processCPU() - cpu) / time.Duration(n)
	runtime.ReadMemStats(&m1)
	r.ChangeAllocs = (m1.Mallocs - m0.Mallocs) / uint64(n)
	r.ChangeBytes = (w.bytes.Load() - bytes) / uint64(n*p.Streams)
	r.ChangeResponses = float64(w.responses.Load()-responses) / float64(n*p.Streams)
	slices.Sort(took)
	r.ChangeP50, r.ChangeP99 = took[n/2], took[n*99/100]
	return nil
}

// watch counts what reaches the proxies.
type watch struct {
	want      atomic.Int64 // resources still to come
	bytes     atomic.Uint64
	responses atomic.Uint64
	got       chan struct{}
}

func (w *watch) add(bytes, resources int) {
	w.bytes.Add(uint64(bytes))
	w.responses.Add(1)
	if w.want.Add(-int64(resources)) == 0 {
		w.got <- struct{}{}
	}
}

func (w *watch) wait(ctx context.Context) error {
	select {
	case <-w.got:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Minute):
		return fmt.Errorf("fanout: %d resources did not arrive", w.want.Load())
	}
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
