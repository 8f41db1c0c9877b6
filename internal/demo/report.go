package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spillway-dev/spillway/internal/cli"
)

// Report is what --report writes.
type Report struct {
	Version  string    `json:"version"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	CPUs     int       `json:"cpus"`
	Started  time.Time `json:"started"`
	OK       bool      `json:"ok"`
	ReadyMS  int64     `json:"ready_ms"` // from the start until the fleet was whole
	Error    string    `json:"error,omitempty"`
	Steps    []Step    `json:"steps"`
}

func newReport(started time.Time) *Report {
	version := cli.Version
	if build, ok := debug.ReadBuildInfo(); ok && version == "" {
		version = build.Main.Version
	}
	return &Report{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Started: started.UTC().Truncate(time.Second), Steps: []Step{},
	}
}

// Step is one chapter of the story. Names of figures end in their unit (_ms,
// _bytes), others are counts:
//
//	requests, failed       under load, safe to retry (GET)
//	requests_unsafe, failed_unsafe  not safe to retry (POST)
//	client_retries         sent again by the HTTP client on a fresh connection
//	sent_late              sent late, for want of answers
//	p50_ms, p99_ms, slowest_ms  latency of safe requests; slowest_unsafe_ms of others
//	over_1s, over_1s_unsafe     how many took longer than a second
//	recovery_ms            until traffic, or DNS, was where it belongs
//	detection_ms           until the control plane knew
//	pushed_bytes           sent to edges; in chapters on serve the most to one edge
type Step struct {
	Name    string           `json:"name"`
	OK      bool             `json:"ok"`
	TookMS  int64            `json:"took_ms"`
	Figures map[string]int64 `json:"figures"`
	Detail  string           `json:"detail,omitempty"` // what was seen
	Error   string           `json:"error,omitempty"`  // what did not hold
}

func (r *Report) add(c chapter, s Step) {
	r.Steps = append(r.Steps, s)
	if c.vital {
		r.ReadyMS = s.Figures["ready_ms"]
	}
}

func (r *Report) write(path string) error {
	if path == "" {
		return nil
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}
