package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

func TestOneLineAChapter(t *testing.T) {
	var out strings.Builder
	tell := newTeller(&out, true)
	tell.begin(edgeStory[0])
	tell.moment("never shown: no terminal")
	tell.result(Step{Name: "nearest", OK: true, TookMS: 1234, Detail: "eu-1 answers; DNS too"})
	tell.result(Step{Name: "drop", Error: "3 requests failed", Detail: "eu-2 answers"})
	want := "ok   nearest             1.2s  eu-1 answers; DNS too\nFAIL drop                  0s  3 requests failed (before: eu-2 answers)\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestStoryInFull(t *testing.T) {
	var out strings.Builder
	tell := newTeller(&out, false)
	tell.begin(edgeStory[1])
	tell.result(Step{Name: "nearest", OK: true, Detail: "eu-1 answers; DNS too"})
	for _, want := range []string{"NEAREST", "what must hold", edgeStory[1].holds, "    - eu-1 answers\n    - DNS too\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestChaptersAreComplete(t *testing.T) {
	for _, p := range []plot{edgePlot, leafPlot} {
		seen := map[string]bool{}
		for i, c := range p.story {
			if c.name == "" || c.does == "" || c.holds == "" || c.tell == nil || seen[c.name] || c.vital != (i == 0) {
				t.Errorf("chapter %d: %+v", i, c)
			}
			seen[c.name] = true
		}
	}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "build", "demo.json")
	s := &scene{}
	s.load(tally{done: 400, safe: class{sent: 360}, unsafe: class{sent: 40, failed: 1}})
	s.load(tally{done: 100, safe: class{sent: 100, latency: histogram{most: time.Second}}})
	s.ms("recovery_ms", 1500*time.Millisecond)
	r := &Report{Version: "v1", OK: true, ReadyMS: 7, Steps: []Step{{Name: "drop", OK: true, Figures: s.figures}}}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ReadyMS int `json:"ready_ms"`
		Steps   []struct {
			Name    string
			Figures map[string]int64
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	f := got.Steps[0].Figures
	if got.ReadyMS != 7 || f["requests"] != 460 || f["requests_unsafe"] != 40 || f["failed"] != 0 || f["failed_unsafe"] != 1 || f["recovery_ms"] != 1500 || f["slowest_ms"] != 1000 {
		t.Errorf("%s", text)
	}
	if err := r.write(""); err != nil {
		t.Error("no file is asked for")
	}
}

func TestEndOfTheStory(t *testing.T) {
	ok := func(context.Context, *fleet, *scene) error { return nil }
	broken := errors.New("no")
	unable := &lab.Unsupported{Reason: "no namespaces"}
	for name, c := range map[string]struct {
		story []chapter
		only  []string
		cause error // that ends it in the first chapter
		want  error
		told  int
	}{
		"all":         {story: []chapter{{name: "a", tell: ok}, {name: "b", tell: ok}}, told: 2},
		"only":        {story: []chapter{{name: "v", vital: true, tell: ok}, {name: "a", tell: ok}, {name: "b", tell: ok}}, only: []string{"b"}, told: 2},
		"vital":       {story: []chapter{{name: "v", vital: true, tell: func(context.Context, *fleet, *scene) error { return broken }}, {name: "b", tell: ok}}, want: broken, told: 1},
		"unable":      {story: []chapter{{name: "v", vital: true, tell: func(context.Context, *fleet, *scene) error { return unable }}, {name: "b", tell: ok}}, want: unable, told: 1},
		"interrupted": {story: []chapter{{name: "a", tell: ok}}, cause: context.Canceled, want: errInterrupted},
		"broken":      {story: []chapter{{name: "a", tell: ok}}, cause: broken, want: broken},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		if c.cause != nil {
			end(c.cause)
		}
		f := &fleet{opts: Options{Check: true, Only: c.only}, tell: newTeller(io.Discard, true), end: end}
		report := newReport(time.Now())
		failed, err := f.chapters(ctx, c.story, report)
		if !errors.Is(err, c.want) || len(failed) > 0 || len(report.Steps) != c.told {
			t.Errorf("%s: %v, %v, %d steps", name, failed, err, len(report.Steps))
		}
		end(nil)
	}
}
