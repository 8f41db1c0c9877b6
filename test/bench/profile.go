package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// profiles reports where the CPU time goes: of a first list, and of endpoint
// changes, one hundred a second.
func profiles(ctx context.Context, hosts int, out *figures) error {
	w, err := newWorld(ctx, size{hosts: hosts, endpoints: perHost, members: base, certs: certificates}, 1, out, "SPILLWAY_BENCH_PROFILE=1")
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.profiled("load"); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		rate int
	}{{"endpoint_change", 100}, {"replay", replayRate}} {
		if _, err := w.control.get(controlInner + "/profile/start"); err != nil {
			return err
		}
		if _, err := w.during(ctx, p.rate, func() error { return pause(ctx, 5*time.Second) }); err != nil {
			return err
		}
		if err := w.profiled(p.name); err != nil {
			return err
		}
	}
	return nil
}

// profiled ends a recording and reports the share of each package.
func (w *world) profiled(name string) error {
	if _, err := w.control.get(controlInner + "/profile/stop"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", self, filepath.Join(w.dir, "cpu.pprof")).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	shares := byPackage(text)
	names := make([]string, 0, len(shares))
	for n := range shares {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if shares[a] != shares[b] && shares[a] > shares[b] {
			return -1
		}
		return 1
	})
	const most = 12
	for _, n := range names[:min(most, len(names))] {
		w.add("profile."+name+"."+n, shares[n], "%")
	}
	return nil
}

// groups sum up packages: the first that a function's name begins with.
var groups = []struct{ prefix, name string }{
	{"github.com/spillway-dev/spillway/internal/", ""},
	{"runtime.gc", "garbage collection"}, {"runtime.scan", "garbage collection"}, {"runtime.greyobject", "garbage collection"},
	{"runtime.(*gc", "garbage collection"}, {"runtime.markroot", "garbage collection"}, {"runtime.sweep", "garbage collection"},
	{"runtime.(*sweep", "garbage collection"}, {"runtime.findObject", "garbage collection"}, {"runtime.wb", "garbage collection"},
	{"runtime.tryDefer", "garbage collection"}, {"runtime.bgs", "garbage collection"},
	{"runtime.malloc", "allocation"}, {"runtime.(*m", "allocation"}, {"runtime.newobject", "allocation"}, {"runtime.memclr", "allocation"},
	{"runtime.nextFree", "allocation"}, {"runtime.makeslice", "allocation"}, {"runtime.growslice", "allocation"}, {"runtime.deductAssist", "allocation"},
	{"runtime.futex", "goroutines and timers"}, {"runtime.epoll", "goroutines and timers"}, {"runtime.netpoll", "goroutines and timers"},
	{"runtime.", "Go runtime: scheduling, maps, memory moves"}, {"internal/runtime/maps", "maps"},
	{"internal/runtime/syscall", "system calls"}, {"syscall.", "system calls"},
	{"google.golang.org/grpc", "gRPC"}, {"google.golang.org/protobuf", "protobuf"}, {"golang.org/x/net/http2", "HTTP/2"},
	{"net/http", "HTTP/2"}, {"crypto/", "TLS"}, {"k8s.io/", "Kubernetes client and types"}, {"reflect.", "reflection"},
}

// byPackage sums the flat shares of `pprof -top`, in percent.
func byPackage(text []byte) map[string]float64 {
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		var share float64
		if len(f) < 6 || !strings.HasSuffix(f[1], "%") {
			continue
		}
		if _, err := fmt.Sscanf(f[1], "%f%%", &share); err == nil {
			out[groupOf(f[5])] += share
		}
	}
	return out
}

func groupOf(function string) string {
	for _, g := range groups {
		rest, ok := strings.CutPrefix(function, g.prefix)
		switch {
		case ok && g.name == "":
			name, _, _ := strings.Cut(rest, ".")
			return "our " + name
		case ok:
			return g.name
		}
	}
	return "other"
}
