package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// process is what the lab says about one that it runs.
type process struct {
	name     string
	pid      int // 0 where kills are part of the soak
	restarts int // that nobody asked for
}

type processes []process

// processes lists all but the control plane, whose end ends the soak.
func (f *fleet) processes(ctx context.Context) (processes, error) {
	st, err := f.lab.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := processes{{name: "hub", restarts: st.Hub.Process.Restarts}}
	for _, m := range st.Members {
		out = append(out, process{"API of " + m.Name, m.API.Process.PID, m.API.Process.Restarts})
	}
	for _, e := range st.Edges {
		out = append(out, process{"Envoy " + e.Name, e.Process.PID, e.Process.Restarts})
	}
	return out, nil
}

// same is nil if no process has ended in between.
func (before processes) same(after processes) error {
	if !slices.Equal(before, after) {
		return fmt.Errorf("a process ended by itself: before %+v, after %+v", before, after)
	}
	return nil
}

// memory follows the resident memory of the control plane and the proxies.
type memory struct {
	mu   sync.Mutex
	now  usage
	most usage
}

// usage is resident memory in MB, by process.
type usage map[string]int64

const sampleEvery = time.Second

// sample looks until ctx ends.
func (m *memory) sample(ctx context.Context, f *fleet) {
	for ctx.Err() == nil {
		if st, err := f.lab.Status(ctx); err == nil {
			m.take(st, f.serve.PID())
		}
		user.Rest(ctx, sampleEvery)
	}
}

func (m *memory) take(st lab.Status, serve int) {
	now := usage{}
	if n := resident(serve); n > 0 {
		now["serve"] = n >> 20
	}
	for _, e := range st.Edges {
		now["Envoy "+e.Name] = e.Process.Usage.RSS >> 20
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
	if m.most == nil {
		m.most = usage{}
	}
	for name, n := range now {
		m.most[name] = max(m.most[name], n)
	}
}

func (m *memory) last() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *memory) peak() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

// resident is a process's resident memory in bytes, 0 if it is not there
// (proc_pid_statm(5)).
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
