package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is what a run writes.
type report struct {
	Started  time.Time         `json:"started"`
	Seed     uint64            `json:"seed"`
	Duration string            `json:"duration"`
	Rate     int               `json:"rate"`            // requests a second
	Other    string            `json:"other,omitempty"` // program of the version that serve was too
	CPUs     int               `json:"cpus"`
	OK       bool              `json:"ok"`
	Error    string            `json:"error,omitempty"`
	Requests requests          `json:"requests"`
	Failures []failure         `json:"failures"` // the first, those that are excused included
	Lasting  losses            `json:"lasting"`
	Beside   passed            `json:"beside"`
	Ops      map[string]*count `json:"ops"`
	Routes   *addition         `json:"routes,omitempty"`
	// Resident memory in MB by process: under load before anything happened,
	// after everything was brought back, with the new hosts, and at most.
	MemoryStart  usage `json:"memory_start_mb"`
	MemoryEnd    usage `json:"memory_end_mb"`
	MemoryRoutes usage `json:"memory_routes_mb,omitempty"`
	MemoryMost   usage `json:"memory_most_mb"`
}

// requests is what became of all of them. Latencies are milliseconds, of
// requests that failed too.
type requests struct {
	Sent    int            `json:"sent"`
	Failed  int            `json:"failed"`
	Excused int            `json:"excused"` // POSTs that met the end of a pod while nobody could tell the edges
	Late    int            `json:"sent_late"`
	Again   int            `json:"client_retries"`
	Answers map[string]int `json:"answers"` // right ones
	P50     float64        `json:"p50_ms"`
	P99     float64        `json:"p99_ms"`
	P999    float64        `json:"p999_ms"`
	Max     float64        `json:"max_ms"`
}

func newReport(o options) *report {
	return &report{
		Started: time.Now().UTC().Truncate(time.Second), Seed: o.seed, Duration: o.duration.String(), Rate: o.rate, Other: o.other, CPUs: runtime.NumCPU(),
	}
}

// finish takes what a run that is over has seen.
func (r *report) finish(s *soak, err error) {
	t, n := &s.load.tally, s.load.Counts() // nobody writes it any more
	slices.Sort(t.latency)
	r.Requests = requests{
		Sent: n.Sent, Failed: t.failed, Excused: t.excused, Late: n.Late, Again: n.Again, Answers: t.answers,
		P50: quantile(t.latency, 0.5), P99: quantile(t.latency, 0.99), P999: quantile(t.latency, 0.999), Max: quantile(t.latency, 1),
	}
	r.Lasting, r.Beside = s.lasting.tally, s.beside.sum()
	r.Failures, r.Ops, r.MemoryMost = append([]failure{}, t.failures...), s.diary.counts, s.memory.peak()
	if err = errors.Join(err, r.failed()); err != nil {
		r.Error = err.Error()
	}
	r.OK = err == nil
}

// verdict prints the report in short; it is an error if a request failed.
func (r *report) verdict() error {
	q := r.Requests
	fmt.Printf("%d requests, %d failed, %d excused, p50 %.1f ms, p99 %.1f ms, most %.0f ms\n", q.Sent, q.Failed, q.Excused, q.P50, q.P99, q.Max)
	r.Lasting.print(os.Stdout)
	fmt.Printf("%d connections passed on, %d requests at a Gateway's own addresses, %d failed, %d excused\n", r.Beside.Connections, r.Beside.AtOwn, r.Beside.Failed, r.Beside.Excused)
	for _, f := range r.Failures {
		text, err := json.MarshalIndent(f, "  ", "  ")
		if err != nil {
			return err
		}
		fmt.Printf("  %s\n", text)
	}
	return r.failed()
}

func (r *report) failed() error {
	var errs []error
	if n := r.Requests.Failed; n > 0 {
		errs = append(errs, fmt.Errorf("%d of %d requests failed", n, r.Requests.Sent))
	}
	if n := r.Beside.Failed; n > 0 {
		errs = append(errs, fmt.Errorf("%d of %d connections and requests at own addresses failed", n, r.Beside.Connections+r.Beside.AtOwn))
	}
	return errors.Join(append(errs, r.Lasting.failed())...)
}

func (r *report) write(path string) error {
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}

// The part of a page between these lines is written by -doc.
const (
	docBegin = "<!-- report: written by `make soak` with -doc -->\n"
	docEnd   = "<!-- end of the report -->\n"
)

// document writes the report into a page, in place of the one there.
func (r *report) document(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), docBegin)
	_, tail, both := strings.Cut(rest, docEnd)
	if !ok || !both {
		return fmt.Errorf("%s lacks the lines %q and %q", path, docBegin, docEnd)
	}
	return os.WriteFile(path, []byte(head+docBegin+r.markdown()+docEnd+tail), 0o644)
}

func (r *report) markdown() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	q := r.Requests
	verdict := map[bool]string{true: "passed", false: "**failed**: " + r.Error}[r.OK]
	versions := map[bool]string{true: "", false: ", two versions of `serve`"}[r.Other == ""]
	line("%s, %s at %d requests a second, seed %d, %d CPUs%s: %s.\n", r.Started.Format("2006-01-02 15:04 UTC"), r.Duration, r.Rate, r.Seed, r.CPUs, versions, verdict)
	line("| requests | |\n|---|---|")
	line("| sent | %d |\n| failed | **%d** |", q.Sent, q.Failed)
	line("| POSTs that no proxy could save (see above) | %d |", q.Excused)
	for _, a := range slices.Sorted(maps.Keys(q.Answers)) {
		line("| answered `%s`, as it should | %d |", a, q.Answers[a])
	}
	line("| latency p50, p99, p99.9, most | %.1f, %.1f, %.1f, %.0f ms |", q.P50, q.P99, q.P999, q.Max)
	line("| sent late, since 512 were without an answer | %d |\n| begun again by the HTTP client itself | %d |", q.Late, q.Again)
	line("| connections that are passed on (TCP, TLS), excused, requests at a Gateway's own addresses, failed of both | %d, %d, %d, **%d** |\n", r.Beside.Connections, r.Beside.Excused, r.Beside.AtOwn, r.Beside.Failed)
	r.Lasting.table(line)
	line("| what happened | times | until its effect was there: mean, most |\n|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(r.Ops)) {
		c := r.Ops[name]
		line("| %s | %d | %d, %d ms |", name, c.Done, c.MeanMS, c.MaxMS)
	}
	r.routesTable(line)
	line("\n| resident memory, MB | at first | at the end, with the same objects | most |\n|---|---|---|---|")
	for _, name := range slices.Sorted(maps.Keys(r.MemoryMost)) {
		line("| %s | %d | %d | %d |", name, r.MemoryStart[name], r.MemoryEnd[name], r.MemoryMost[name])
	}
	for _, f := range r.Failures {
		line("\n- at %s, edge %s: %s got `%s` after %d ms, right was %v; %s", f.At, f.Edge, f.Request, f.Got, f.TookMS, f.Right, strings.Join(f.Doing, "; "))
	}
	return out.String()
}

func (r *report) routesTable(line func(string, ...any)) {
	if a := r.Routes; a != nil {
		line("\n| hosts added one after another, under the same load | %d |\n|---|---|", a.Hosts)
		line("| asked for while they came | %d times |\n| answered other than 404 and then 200 | **%d** |", a.Asked, a.Wrong)
		line("| from the write on the hub until both edges serve it: p50, p99, most | %.0f, %.0f, %.0f ms |", a.P50, a.P99, a.Max)
	}
}
