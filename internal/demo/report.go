package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Report is what --report writes.
type Report struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	OK      bool      `json:"ok"`
	ReadyMS int64     `json:"ready_ms"` // from the start to the first answers at both edges
	Error   string    `json:"error,omitempty"`
	Steps   []Step    `json:"steps"`
}

// Step is one chapter of the story. Names of figures end in their unit (_ms,
// _bytes), others are counts:
//
//	requests, failed       under load; failed_unsafe of them were POSTs
//	client_retries         sent again by the HTTP client on a fresh connection
//	sent_late              sent late, for want of answers
//	p50_ms, p99_ms, slowest_ms  latency of requests
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
