package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/xds"
)

// cost is what some work took.
type cost struct {
	cpu    time.Duration
	allocs uint64
	alloc  uint64
}

// spend measures f in this whole process.
func spend(f func()) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	f()
	used := cpuTime() - start
	runtime.ReadMemStats(&after)
	return cost{used, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// measure runs everything in a world of n hosts.
func measure(n, rounds int) ([]result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	m := &meter{ctx: ctx, n: n, rounds: rounds}
	empty := heap()
	m.w = newWorld(n)
	loaded := spend(m.w.load)
	m.add("load.cpu_per_route", loaded.cpu.Seconds()*1e6/float64(n), "us")
	m.add("load.allocs_per_route", float64(loaded.allocs)/float64(n), "allocs")
	m.add("heap.per_route", (heap()-empty)/float64(n), "B")
	if err := m.connect(); err != nil {
		return nil, err
	}
	defer m.c.conn.Close()
	for _, step := range []func() error{m.endpointRows, m.endpointChange, m.routeChange, m.routeAdd, m.resync} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("%d hosts: %w", n, err)
		}
	}
	return m.out, nil
}

type meter struct {
	ctx    context.Context
	n      int
	rounds int
	w      *world
	c      *client
	addr   string
	out    []result
}

func (m *meter) add(name string, value float64, unit string) {
	m.out = append(m.out, result{name, map[string]string{"hosts": strconv.Itoa(m.n)}, value, unit})
}

// connect starts a server, and a client that takes all of the view.
func (m *meter) connect() error {
	l, err := xds.ListenPlaintext("127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := xds.NewServer(xds.Config{Store: m.w.store, ViewOf: func(string) (string, bool) { return m.w.view(), true }})
	go func() { _ = srv.Serve(m.ctx, l) }()
	m.addr = l.Addr().String()
	before := heap()
	used := spend(func() {
		if m.c, err = dial(m.ctx, m.addr); err == nil {
			err = m.c.wait(m.ctx, func(response) bool { return m.c.names.Load() >= 2*int64(m.n) })
		}
	})
	if err != nil {
		return fmt.Errorf("first sync: %w", err)
	}
	m.add("sync.bytes_per_route", float64(m.c.bytes.Load())/float64(m.n), "B")
	m.add("sync.cpu_per_route_with_client", used.cpu.Seconds()*1e6/float64(m.n), "us")
	m.add("heap.per_stream_with_client", heap()-before, "B")
	return nil
}

// endpointRows is the work of a commit alone: rows in, resources out.
func (m *meter) endpointRows() error {
	evals := 0
	used := spend(func() {
		for r := range m.rounds {
			i := r * 7919 % m.n
			m.w.commit(func(tx *inc.Tx) { m.w.slice(tx, i, 0, r+1) })
			evals = max(evals, m.w.evals)
		}
	})
	per := float64(m.rounds)
	m.add("endpoint_change.commit_cpu_with_send", used.cpu.Seconds()*1e6/per, "us")
	m.add("endpoint_change.commit_allocs", float64(used.allocs)/per, "allocs")
	m.add("endpoint_change.evaluations", float64(evals), "rows")
	return m.drain(xds.ClusterLoadAssignment)
}

// drain flips one more endpoint and waits until the client has that too.
func (m *meter) drain(typ xds.TypeURL) error {
	name := m.c.names.Load()
	m.w.commit(func(tx *inc.Tx) { m.w.slice(tx, 0, 1, int(name)%97+1) })
	quiet := time.NewTimer(200 * time.Millisecond)
	defer quiet.Stop()
	for {
		select {
		case r, ok := <-m.c.responses:
			if !ok {
				return fmt.Errorf("the stream ended before %s", typ)
			}
			_ = r
			quiet.Reset(200 * time.Millisecond)
		case <-quiet.C:
			return nil
		}
	}
}

// one waits for the responses to one change and says what they were.
func (m *meter) one(want map[string]int, change func()) (bytes, responses int, err error) {
	change()
	err = m.c.wait(m.ctx, func(r response) bool {
		bytes, responses = bytes+r.bytes, responses+1
		want[r.typ] -= r.resources
		for _, left := range want {
			if left > 0 {
				return false
			}
		}
		return true
	})
	return bytes, responses, err
}

// through measures changes one at a time, from the row to the client's ACK.
func (m *meter) through(name string, types []xds.TypeURL, change func(round int)) error {
	bytes, responses := 0, 0
	var err error
	used := spend(func() {
		for r := range m.rounds {
			want := map[string]int{}
			for _, t := range types {
				want[string(t)] = 1
			}
			b, n, e := m.one(want, func() { change(r) })
			bytes, responses = bytes+b, responses+n
			if err = e; err != nil {
				return
			}
		}
	})
	per := float64(m.rounds)
	m.add(name+".cpu_with_client", used.cpu.Seconds()*1e6/per, "us")
	m.add(name+".allocs_with_client", float64(used.allocs)/per, "allocs")
	m.add(name+".bytes", float64(bytes)/per, "B")
	m.add(name+".responses", float64(responses)/per, "responses")
	return err
}

func (m *meter) endpointChange() error {
	return m.through("endpoint_change", []xds.TypeURL{xds.ClusterLoadAssignment}, func(r int) {
		m.w.commit(func(tx *inc.Tx) { m.w.slice(tx, r*104729%m.n, 0, r+50) })
	})
}

func (m *meter) routeChange() error {
	return m.through("route_change", []xds.TypeURL{xds.RouteConfiguration}, func(r int) {
		m.w.commit(func(tx *inc.Tx) { m.w.host(tx, r*7919%m.n, r+1) })
	})
}

func (m *meter) routeAdd() error {
	rounds := m.rounds
	m.rounds = max(rounds/10, 5)
	defer func() { m.rounds = rounds }()
	return m.through("route_add", []xds.TypeURL{xds.Cluster, xds.ClusterLoadAssignment, xds.ScopedRoute, xds.RouteConfiguration}, func(r int) {
		m.w.commit(func(tx *inc.Tx) {
			m.w.host(tx, m.n+r, 0)
			for i := range members {
				m.w.slice(tx, m.n+r, i, 0)
			}
		})
	})
}

// resync is a second proxy that comes with nothing.
func (m *meter) resync() error {
	before := heap()
	c, err := dial(m.ctx, m.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	if err := c.wait(m.ctx, func(response) bool { return c.names.Load() >= 2*int64(m.n) }); err != nil {
		return err
	}
	m.add("heap.second_stream_with_client", heap()-before, "B")
	return nil
}
