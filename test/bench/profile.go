package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// profiles reports where the CPU time goes, and the heap: of a first list, and of endpoint
// changes, two hundred and then 5,000 a second.
func profiles(ctx context.Context, hosts int, out *figures) error {
	w, err := newWorld(ctx, size{hosts: hosts, endpoints: perHost, members: base, certs: certificates}, 1, out, "SPILLWAY_BENCH_PROFILE=1")
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.profiled(ctx, "load"); err != nil {
		return err
	}
	if err := w.checkpointed(ctx); err != nil {
		return err
	}
	if err := w.heapProfiled(ctx); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		rate int
	}{{"endpoint_change", 200}, {"replay", replayRate}} {
		if _, err := w.control.get(controlInner + "/profile/start"); err != nil {
			return err
		}
		if _, err := w.during(ctx, p.rate, func() error { return pause(ctx, 10*time.Second) }); err != nil {
			return err
		}
		if err := w.profiled(ctx, p.name); err != nil {
			return err
		}
	}
	return nil
}

// profiled ends a recording of CPU time and reports it.
func (w *world) profiled(ctx context.Context, name string) error {
	if _, err := w.control.get(controlInner + "/profile/stop"); err != nil {
		return err
	}
	return w.shares(ctx, name, filepath.Join(w.dir, "cpu.pprof"))
}

// heapProfiled reports what the heap is made of, by who allocated it.
func (w *world) heapProfiled(ctx context.Context) error {
	body, err := w.control.get(controlInner + "/profile/heap")
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, "heap.pprof")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		return err
	}
	return w.shares(ctx, "heap", path)
}

// shares reports the share of each part of the work in a profile.
func (w *world) shares(ctx context.Context, name, path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	traces, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", self, path).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	shares := byPart(traces)
	names := slices.Sorted(maps.Keys(shares))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(shares[b], shares[a]) })
	for _, n := range names {
		w.add("profile."+name+"."+n, shares[n], "%")
	}
	return nil
}

// parts of the work, and what a stack of it has. A stack belongs to the first
// part of which it has one.
var parts = []struct {
	name string
	has  []string
}{
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart"}},
	{"checkpoint", []string{"internal/checkpoint."}},
	{"commit: hosts, backends, plans", []string{"internal/fleet.", "internal/steer."}},
	{"commit: Envoy's resources", []string{"internal/envoy."}},
	{"commit: statuses and findings", []string{"internal/leaf."}},
	{"commit: DNS", []string{"internal/zone."}},
	{"commit: the engine", []string{"internal/inc."}},
	{"publish to the streams", []string{"app.(*proxies)", "xds.(*Store)"}},
	{"the loop, besides", []string{"internal/app.", "internal/hub."}},
	{"streams: what to send, acknowledgements", []string{"internal/xds."}},
	{"streams: gRPC", []string{"google.golang.org/grpc"}},
	{"watches: objects to rows", []string{"internal/ingest.", "internal/cluster."}},
	{"watches: decoding", []string{"k8s.io/"}},
	{"watches: TLS and HTTP/2", []string{"net/http", "crypto/tls"}},
	{"Go's scheduler: waking up, going to sleep", []string{"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.sysmon", "runtime.mstart", "runtime.goexit0"}},
}

func partOf(stack string) string {
	for _, p := range parts {
		for _, h := range p.has {
			if strings.Contains(stack, h) {
				return p.name
			}
		}
	}
	return "other"
}

// byPart sums the stacks of `pprof -traces`, in percent. A stack is below a
// line of dashes; its first line begins with a time or a size.
func byPart(traces []byte) map[string]float64 {
	out := map[string]float64{}
	total := 0.0
	for block := range strings.SplitSeq(string(traces), "-----------+") {
		_, stack, _ := strings.Cut(block, "\n")
		for line := range strings.Lines(stack) { // above it there may be labels
			fields := strings.Fields(line)
			if len(fields) < 2 {
				continue
			}
			if v, ok := amount(fields[0]); ok {
				out[partOf(stack)] += v
				total += v
				break
			}
		}
	}
	for name := range out {
		out[name] *= 100 / total
	}
	return out
}

// amount reads 1.5s or 1.5kB.
func amount(s string) (float64, bool) {
	if d, err := time.ParseDuration(s); err == nil {
		return d.Seconds(), true
	}
	for _, unit := range []struct {
		suffix string
		bytes  float64
	}{{"kB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(s, unit.suffix); ok {
			v, err := strconv.ParseFloat(rest, 64)
			return v * unit.bytes, err == nil
		}
	}
	return 0, false
}
