package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

// What a child of this command does.
const (
	asSpinner   = "spinner"
	asAttackers = "attackers"
)

// Bounds of a run.
const (
	longest = 10 * time.Minute // of the soak, which is told when it is over
	most    = 2                // times its duration, the attack goes on at most
	sample  = 250 * time.Millisecond
)

// hostile is a run.
type hostile struct {
	options
	cage    cage
	soak    *child
	lab     *lab.Lab
	xdsPort int
	serve   int // its process id
	watcher *watcher
	began   time.Time
	figures figures
}

// run does it all and prints and writes the figures, also if something failed.
func run(ctx context.Context, o options) (err error) {
	h := &hostile{options: o, began: time.Now(), cage: newCage()}
	defer func() { err = errors.Join(err, h.cage.close()) }()
	h.figures = figures{Untimed: o.untimed, Cage: h.cage.String(), CPUs: runtime.NumCPU(), Done: map[string]deeds{}}
	h.tell("cgroup of the attackers: %s", h.cage)
	for _, a := range taking(o.only) {
		h.tell("%-18s %s", a.name, a.says())
	}
	report := filepath.Join(filepath.Dir(o.out), "soak.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(o.out), 0o755), remove(report)); err != nil {
		return err
	}
	if err := h.startSoak(report); err != nil {
		return err
	}
	err = h.phases(ctx)
	err = errors.Join(err, h.endSoak(err))
	if errors.Is(err, errUnable) {
		return err
	}
	return h.finish(report, err)
}

func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (h *hostile) tell(format string, args ...any) {
	fmt.Printf("%8s  hostile      %s\n", time.Since(h.began).Round(10*time.Millisecond), fmt.Sprintf(format, args...))
}

func (h *hostile) startSoak(report string) error {
	args := []string{
		"-lanes", "edits", "-duration", longest.String(), "-rate", strconv.Itoa(h.rate), "-dir", h.dir, "-binary", h.binary, "-out", report,
	}
	if h.seed != 0 {
		args = append(args, "-seed", strconv.FormatUint(h.seed, 10))
	}
	var err error
	h.soak, err = start(h.options.soak, args, os.Stdout)
	return err
}

// endSoak lets the soak end in order, or at once if something failed.
func (h *hostile) endSoak(failed error) error {
	sig := syscall.SIGUSR1
	if failed != nil {
		sig = syscall.SIGTERM
	}
	h.soak.signal(sig)
	err := h.soak.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == (&lab.Unsupported{}).ExitCode() {
		return errUnable
	}
	return nil // its report says what is wrong
}

// phases are those of the run, from the soak's first edit to the end of the
// attack.
func (h *hostile) phases(ctx context.Context) error {
	if err := h.soak.saw(ctx, " ready "); err != nil {
		return err
	}
	var err error
	if h.lab, err = lab.Open(ctx, h.dir); err != nil {
		return err
	}
	st, err := h.lab.Status(ctx)
	if err != nil {
		return err
	}
	h.xdsPort = st.XDSPort
	if h.serve, err = serveOf(h.soak.pid()); err != nil {
		return err
	}
	if h.watcher, err = newWatcher(ctx, h.lab, h.xdsPort); err != nil {
		return err
	}
	if err := h.soak.saw(ctx, " edits "); err != nil {
		return err
	}
	h.tell("baseline: a spinner in the cgroup")
	if h.figures.Baseline, err = h.beside(ctx, asSpinner, h.baseline, h.baseline); err != nil {
		return err
	}
	h.tell("attack")
	began := time.Now()
	h.figures.Attack, err = h.beside(ctx, asAttackers, h.duration, most*h.duration)
	h.figures.Seconds = time.Since(began).Round(time.Second / 10).Seconds()
	return err
}

// beside measures endpoint changes while a child is in the cgroup: for at least
// some time, and until it said that it is complete.
func (h *hostile) beside(ctx context.Context, as string, least, longest time.Duration) (phase, error) {
	self, err := os.Executable()
	if err != nil {
		return phase{}, err
	}
	c, err := start(self, []string{"-as", as, "-cage", h.cage.procs(), "-dir", h.dir, "-only", h.only}, os.Stderr)
	if err != nil {
		return phase{}, err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	sampled := make(chan int64, 1)
	go func() { sampled <- h.mostResident(limited) }()
	began, before, dropped := time.Now(), cpuOf(h.serve), dropsAt(h.lab.DNSAddress())
	out, err := h.watcher.measure(ctx, func(changes int) bool {
		now := time.Since(began)
		enough := changes >= fewest && (as == asSpinner || c.has(complete))
		return c.over() || h.soak.over() || now >= least && (enough || now >= longest && changes >= fewest)
	})
	out.DNSDrops = dropsAt(h.lab.DNSAddress()) - dropped
	out.ServeCPU = (cpuOf(h.serve) - before).Seconds() / time.Since(began).Seconds()
	h.tell("%d endpoint changes, p50 %.1f ms, p99 %.1f ms (the write alone %.1f), most %.0f ms; serve took %.2f of a CPU, %d packets to it were lost", out.Changes, out.P50, out.P99, out.Write, out.Max, out.ServeCPU, out.DNSDrops)
	c.signal(syscall.SIGTERM)
	err = errors.Join(err, ctx.Err(), c.wait())
	cancel()
	out.ServeRSS = <-sampled >> 20
	if text := c.line(result); err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &h.figures.Done)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", as, err)
	}
	return out, err
}

// mostResident is the most memory that serve has until ctx ends, in bytes.
func (h *hostile) mostResident(ctx context.Context) (out int64) {
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for {
		out = max(out, resident(h.serve))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return out
		}
	}
}

// finish judges; its output ends with the figures.
func (h *hostile) finish(report string, failed error) error {
	f := &h.figures
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &f.Soak)
	}
	all := []check{{failed == nil && err == nil, "the run itself: " + orNothing(errors.Join(failed, err))}}
	for _, c := range append(all, f.judge()...) {
		fmt.Println(c)
		if !c.ok {
			f.Failed = append(f.Failed, c.what)
		}
	}
	f.OK = len(f.Failed) == 0
	line, err := json.Marshal(f)
	if err := errors.Join(err, os.WriteFile(h.out, append(line, '\n'), 0o644)); err != nil {
		return err
	}
	if !f.OK {
		fmt.Printf("%d of what must hold does not; logs: %s/logs\n", len(f.Failed), h.dir)
	}
	fmt.Println(string(line))
	if !f.OK {
		return errFailed
	}
	return nil
}

func orNothing(err error) string {
	if err == nil {
		return "nothing failed"
	}
	return err.Error()
}

// child is a process of ours whose output is looked at.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{}

	mu    sync.Mutex
	lines []string
	err   error // how it ended
	more  chan struct{}
}

// start starts one. Its lines go to out, too.
func start(path string, args []string, out io.Writer) (*child, error) {
	c := &child{cmd: exec.CommandContext(context.Background(), path, args...), gone: make(chan struct{}), more: make(chan struct{}, 1)}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // this process decides when it ends
	pipe, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		defer close(c.gone)
		text := bufio.NewScanner(pipe)
		text.Buffer(nil, 1<<20)
		for text.Scan() {
			if !strings.HasPrefix(text.Text(), result) {
				fmt.Fprintln(out, text.Text())
			}
			c.mu.Lock()
			c.lines = append(c.lines, text.Text())
			c.mu.Unlock()
			select {
			case c.more <- struct{}{}:
			default:
			}
		}
		err := c.cmd.Wait()
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}()
	return c, nil
}

func (c *child) pid() int                  { return c.cmd.Process.Pid }
func (c *child) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) } // it may have ended

func (c *child) over() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *child) wait() error {
	<-c.gone
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// line is the rest of the first line that has a word, empty without one.
func (c *child) line(word string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if _, rest, ok := strings.Cut(l, word); ok {
			return rest + " "
		}
	}
	return ""
}

func (c *child) has(word string) bool { return c.line(word) != "" }

// saw waits for a line.
func (c *child) saw(ctx context.Context, word string) error {
	for !c.has(word) {
		select {
		case <-c.more:
		case <-c.gone:
			if c.has(word) {
				return nil
			}
			return fmt.Errorf("it ended before it said %q", strings.TrimSpace(word))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
