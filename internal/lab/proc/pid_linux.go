package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// HostPID is the number of a process as /proc shows it, which is that of the
// namespace /proc was mounted in, not the caller's own. Without a pidfd it is
// the fallback.
func HostPID(pidfd, fallback int) int {
	if pidfd < 0 {
		return fallback
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return fallback
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Pid:"); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && pid > 0 {
				return pid
			}
		}
	}
	return fallback
}

// Usage is what a process has cost so far.
type Usage struct {
	RSS int64         `json:"rss"` // bytes
	CPU time.Duration `json:"cpu"` // user and system, in nanoseconds
}

// clockTick is the unit of /proc/PID/stat on every Linux that Go supports.
const clockTick = time.Second / 100

// UsageOf reads a process's cost from /proc; zero when it is gone.
func UsageOf(hostPID int) Usage {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", hostPID))
	if err != nil {
		return Usage{}
	}
	_, rest, ok := bytes.Cut(stat, []byte(") ")) // the name before may hold anything but is in parentheses
	if !ok {
		return Usage{}
	}
	f := strings.Fields(string(rest))
	if len(f) < 22 {
		return Usage{}
	}
	num := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	return Usage{RSS: num(21) * int64(os.Getpagesize()), CPU: time.Duration(num(11)+num(12)) * clockTick}
}

// SelfPID is the caller's own number as /proc shows it.
func SelfPID() int {
	link, err := os.Readlink("/proc/self")
	if err != nil {
		return os.Getpid()
	}
	pid, err := strconv.Atoi(link)
	if err != nil {
		return os.Getpid()
	}
	return pid
}
