package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// share of one CPU that all attackers have together, and the same as the
// kernel wants it: so many microseconds of each period. The period is short, so
// that they have it evenly.
const (
	share  = 0.5
	period = 10_000
	quota  = share * period
)

// Where attackers and others want a CPU at once, others have it: attackers are
// elsewhere, and what is measured is what they do to others, not what they need
// themselves. It is a fiftieth of what a cgroup has by default (100 and 1,024), as
// of nice 19.
const (
	weight = 2
	shares = 20
)

// cage is the cgroup of the attackers; the zero one is none.
type cage struct {
	dir string // empty: this machine has no cgroup for us
	why string
}

// newCage makes a cgroup with a bound on its CPU where this process may: of
// version 2 below an ancestor of its own that hands out the controller, else
// of version 1 below its own.
func newCage() cage {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return cage{why: err.Error()}
	}
	why := errors.New("no cgroup file system with the cpu controller")
	for _, p := range cagePlaces(own, cpuHandedOut) {
		dir := filepath.Join(p.parent, "spillway-hostile-"+strconv.Itoa(os.Getpid()))
		if why = p.make(dir); why == nil {
			return cage{dir: dir}
		}
	}
	return cage{why: why.Error()}
}

// cagePlace is where a cgroup may be made, and its settings.
type cagePlace struct {
	parent   string
	settings [][2]string // file, text
}

const cgroups = "/sys/fs/cgroup"

// cagePlaces lists where to try, given /proc/self/cgroup (cgroups(7)).
func cagePlaces(own []byte, handsOut func(dir string) bool) (out []cagePlace) {
	lines := bufio.NewScanner(bytes.NewReader(own))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) < 3 {
			continue
		}
		controllers, path := parts[1], parts[2]
		if parts[0] == "0" {
			limit := [][2]string{{"cpu.max", fmt.Sprintf("%d %d", int(quota), period)}, {"cpu.weight", strconv.Itoa(weight)}}
			for at := path; ; at = filepath.Dir(at) {
				if dir := filepath.Join(cgroups, at); handsOut(dir) {
					out = append(out, cagePlace{dir, limit})
				}
				if at == "/" || at == "." {
					break
				}
			}
			continue
		}
		for c := range strings.SplitSeq(controllers, ",") {
			if c == "cpu" {
				out = append(out, cagePlace{filepath.Join(cgroups, controllers, path), [][2]string{
					{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.Itoa(int(quota))},
					{"cpu.shares", strconv.Itoa(shares)},
				}})
			}
		}
	}
	return out
}

func cpuHandedOut(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return err == nil && strings.Contains(" "+strings.TrimSpace(string(text))+" ", " cpu ")
}

func (p cagePlace) make(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, s := range p.settings {
		if err := os.WriteFile(filepath.Join(dir, s[0]), []byte(s[1]), 0o644); err != nil {
			return errors.Join(err, os.Remove(dir))
		}
	}
	return nil
}

func (c cage) String() string {
	if c.dir == "" {
		return fmt.Sprintf("none (%s): at nice 19 with one thread", c.why)
	}
	return fmt.Sprintf("%s: %v of a CPU", c.dir, share)
}

// procs is the file that takes a process in, empty without a cgroup.
func (c cage) procs() string {
	if c.dir == "" {
		return ""
	}
	return filepath.Join(c.dir, "cgroup.procs")
}

// close removes the cgroup, whose processes have ended.
func (c cage) close() error {
	if c.dir == "" {
		return nil
	}
	return os.Remove(c.dir)
}

// enter puts this process where attackers are: into the cgroup, or behind
// everybody else.
func enter(procs string) error {
	if procs != "" {
		return os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0o644)
	}
	runtime.GOMAXPROCS(1)
	return syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
}

// spin needs all the CPU there is until ctx ends.
func spin(ctx context.Context) {
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for n := 0; ; n++ {
				_ = n
			}
		}()
	}
	<-ctx.Done()
}
