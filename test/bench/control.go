package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/spillway-dev/spillway/internal/app"
	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/xds"
)

// controlEnv names the folder of a process that is the control plane.
const controlEnv = "SPILLWAY_BENCH_CONTROL"

// probeEnv says how far apart probes of an address are, if not as usual.
const probeEnv = "SPILLWAY_BENCH_PROBES"

const (
	controlAdmin = "127.0.0.1:18080"
	controlInner = "127.0.0.1:18081" // what only the bench asks
)

// runControl is `spillway serve`, alone in a process, with a second listener
// that collects garbage and records profiles.
func runControl(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	klog.SetSlogLogger(slog.Default())
	profile := profiler{path: filepath.Join(dir, "cpu.pprof")}
	if os.Getenv("SPILLWAY_BENCH_PROFILE") != "" {
		profile.start()
	}
	var probes time.Duration // the default
	if text := os.Getenv(probeEnv); text != "" {
		var err error
		if probes, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/heap", func(w http.ResponseWriter, _ *http.Request) {
		for range 4 { // what is kept at rest: each collection halves the stacks that few calls need
			runtime.GC()
		}
		debug.FreeOSMemory() // collects first
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprint(w, m.HeapAlloc+m.StackInuse)
	})
	mux.HandleFunc("/stacks", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprint(w, m.StackInuse)
	})
	mux.HandleFunc("/allocs", func(w http.ResponseWriter, _ *http.Request) {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
		metrics.Read(sample)
		fmt.Fprint(w, sample[0].Value.Uint64())
	})
	mux.HandleFunc("/profile/heap", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		_ = pprof.Lookup("heap").WriteTo(w, 0)
	})
	mux.HandleFunc("/profile/start", func(http.ResponseWriter, *http.Request) { profile.start() })
	mux.HandleFunc("/profile/stop", func(http.ResponseWriter, *http.Request) { profile.stop() })
	go func() { _ = http.ListenAndServe(controlInner, mux) }()
	return app.Run(ctx, app.Config{
		Kubeconfig: filepath.Join(dir, "hub.kubeconfig"), Namespace: system, StateDir: filepath.Join(dir, "state"),
		XDSSocket: filepath.Join(dir, "xds.sock"), TrustDomain: "bench", EnvoyListenerPort: httpPort, AdminAddress: controlAdmin, ProbeInterval: probes,
	}, slog.Default())
}

type profiler struct {
	path string
	file *os.File
}

func (p *profiler) start() {
	if f, err := os.Create(p.path); err == nil && pprof.StartCPUProfile(f) == nil {
		p.file = f
	}
}

func (p *profiler) stop() {
	pprof.StopCPUProfile()
	_ = p.file.Close()
}

// control is the control plane as the bench sees it: a process.
type control struct {
	dir   string
	cmd   *exec.Cmd
	began time.Time
	ended chan struct{}
}

// startControl starts it in a folder, which may have a checkpoint.
func startControl(dir string, a *api, env ...string) (*control, error) {
	if err := os.WriteFile(filepath.Join(dir, "hub.kubeconfig"), a.kubeconfig("/hub"), 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &control{dir: dir, cmd: exec.CommandContext(context.Background(), self), ended: make(chan struct{})}
	c.cmd.Env = append(append(os.Environ(), controlEnv+"="+dir), env...)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = diesWithParent()
	c.began = time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

func (c *control) socket() string { return filepath.Join(c.dir, "xds.sock") }

// kill ends it as a crash would.
func (c *control) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// get reads a page of the control plane.
func (c *control) get(url string) ([]byte, error) { return get(context.Background(), url) }

// get reads a page.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, body)
	}
	return body, err
}

// until asks until cond holds.
func (c *control) until(ctx context.Context, what string, every time.Duration, cond func() bool) error {
	return eventually.Patience{Poll: every}.Await(ctx, what, func(context.Context) error {
		if cond() {
			return nil
		}
		select {
		case <-c.ended:
			return eventually.Never(errors.New("the control plane ended by itself"))
		default:
			return errors.New("it is not so")
		}
	})
}

// loaded waits until all of a fleet is in the tables.
func (c *control) loaded(ctx context.Context, f *fleet) error {
	slices := 0
	for m := range f.members {
		f.inMember(m, func(i int) {
			if f.named(i) {
				slices++
			}
		})
	}
	hosts := 0
	f.hostsAll(func(int) { hosts++ })
	want := map[string]int{"sources": f.members, "slices": slices, "services": slices, "roots": hosts, "gateway objects": len(f.gatewayObjects())}
	return c.until(ctx, "all of the fleet is read", 20*time.Millisecond, func() bool {
		rows, err := c.rows()
		if err != nil {
			return false
		}
		for name, n := range want {
			if have, ok := rows[name]; !ok || have != n {
				return false
			}
		}
		return true
	})
}

// rows is how many rows the tables have.
func (c *control) rows() (map[string]int, error) {
	body, err := c.get(controlAdmin + "/v1/tables")
	if err != nil {
		return nil, err
	}
	var tables []struct {
		Name string
		Rows int
	}
	if err := json.Unmarshal(body, &tables); err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, t := range tables {
		out[t.Name] = t.Rows
	}
	return out, nil
}

// streams is what every stream has and was sent, by node.
func (c *control) streams() (map[string]xds.StreamStatus, error) {
	body, err := c.get(controlAdmin + "/v1/streams")
	if err != nil {
		return nil, err
	}
	var all []xds.StreamStatus
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	out := map[string]xds.StreamStatus{}
	for _, s := range all {
		out[s.Node] = s
	}
	return out, nil
}

// heap is what lives after a collection, with stacks, in bytes.
func (c *control) heap() (float64, error) {
	body, err := c.get(controlInner + "/heap")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(body), 64)
}

// stacks is what of the heap the stacks of goroutines are, in bytes.
func (c *control) stacks() (float64, error) {
	body, err := c.get(controlInner + "/stacks")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(body), 64)
}

// allocs is how many objects were allocated since it began.
func (c *control) allocs() (float64, error) {
	body, err := c.get(controlInner + "/allocs")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(body), 64)
}

func (c *control) cpu() time.Duration { return processCPU(c.cmd.Process.Pid) }

func (c *control) rss() float64 { return residentOf(c.cmd.Process.Pid) }

// residentOf is the memory of a process that is in RAM, in bytes.
func residentOf(pid int) float64 {
	body, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb * 1024
		}
	}
	return 0
}

// processCPU is the CPU time of all threads that a process has or had, as far
// as its threads that ended do not matter: to the nanosecond.
func processCPU(pid int) time.Duration {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var sum time.Duration
	for _, t := range tasks {
		sum += threadCPU(pid, t.Name())
	}
	return sum
}

// threadCPU is the CPU time of one thread of a process.
func threadCPU(pid int, tid string) time.Duration {
	return onCPU(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, tid))
}

// ownCPU is that of the thread that asks.
func ownCPU() time.Duration { return onCPU("/proc/thread-self/schedstat") }

// onCPU is the first number of a schedstat: time on a CPU, in nanoseconds.
func onCPU(path string) time.Duration {
	body, _ := os.ReadFile(path)
	first, _, _ := strings.Cut(string(body), " ")
	ns, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(ns)
}
