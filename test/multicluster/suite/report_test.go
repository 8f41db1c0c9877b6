package suite

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// report is what is told of a run. It has no date, so that it changes when a result does.
type report struct {
	mu sync.Mutex

	Implementation string         `json:"implementation"` // the controller's name
	SuiteVersion   string         `json:"suiteVersion"`
	Members        int            `json:"members"`
	Features       []string       `json:"features"`
	Results        map[string]int `json:"results"`
	Tests          []result       `json:"tests"`
}

// result is of one test with one kind of backends.
type result struct {
	Name        string   `json:"name"`
	Backends    kind     `json:"backends"`
	Description string   `json:"description"`
	Result      string   `json:"result"`
	Lacks       []string `json:"lacks,omitempty"` // features, for which it was skipped
}

const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
)

// note notes how a test ended.
func (r *report) note(t *testing.T, c test, k kind, lacks []string) {
	res := result{Name: c.name, Backends: k, Description: c.description, Result: passed, Lacks: lacks}
	switch {
	case t.Failed():
		res.Result = failed
	case t.Skipped():
		res.Result = skipped
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Tests = append(r.Tests, res)
}

// write writes it. Tests end in any order.
func (r *report) write(file string, f *fleet, o *options) error {
	if file == "" {
		return nil
	}
	r.Implementation, r.SuiteVersion, r.Members, r.Features = f.controller, version, len(f.members), o.features
	r.Results = map[string]int{passed: 0, failed: 0, skipped: 0}
	for _, t := range r.Tests {
		r.Results[t.Result]++
	}
	slices.SortFunc(r.Tests, func(a, b result) int {
		return strings.Compare(a.Name+" "+string(a.Backends), b.Name+" "+string(b.Backends))
	})
	text, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
