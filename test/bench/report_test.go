package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample has figures of a hosts sweep and of a streams sweep.
func sample() figures {
	var f figures
	for _, p := range []params{at(100, 10, 1), at(1000, 10, 1), at(10_000, 10, 1), at(1000, 10, 200)} {
		for _, k := range kinds {
			f.add(k.name+".bytes", p, 500, "B")
			f.add(k.name+".cpu_us", p, 40+float64(p["streams"]), "us")
			f.add(k.name+".envoy_main_ms", p, 0.5, "ms")
			f.add(k.name+".served_ms_p50", p, 3, "ms")
			f.add(k.name+".responses", p, 1, "")
		}
	}
	f.add("restart.resources_resent", at(10_000, 10, 1), 0, "")
	for _, l := range limits {
		if _, ok := f.find(l.name, nil); !ok {
			f.add(l.name, params{}, 0, "")
		}
	}
	f.add("profile.load.commit: the engine", at(10_000, 10, 1), 12.5, "%")
	return f
}

func TestSweeps(t *testing.T) {
	got := sample().sweeps("endpoint_change.bytes")
	if len(got) != 2 || got[0].key != "hosts" || len(got[0].values) != 3 || got[1].key != "streams" || got[1].values[1] != 200 {
		t.Fatalf("%+v", got)
	}
	if text := fixedText(got[1]); text != "1,000 hosts and 10 members" {
		t.Error(text)
	}
}

// TestStolen: a share of what passed; none where the kernel does not say.
func TestStolen(t *testing.T) {
	from := []float64{10, 0, 10, 70, 0, 0, 0, 10, 5, 0}
	to := []float64{50, 0, 30, 100, 0, 0, 0, 20, 25, 0}
	if got, ok := stolen(from, to); !ok || got != 10 {
		t.Errorf("%v %v", got, ok)
	}
	for _, none := range [][]float64{nil, from[:7], from} {
		if got, ok := stolen(from, none); ok {
			t.Errorf("%v: %v", none, got)
		}
	}
}

// TestCheck: what is broken is named, and so is what is missing.
func TestCheck(t *testing.T) {
	if err := sample().check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit func(figures) figures
		want string
	}{
		{"too large", func(f figures) figures { f.add("route_change.bytes", at(1, 1, 1), 1025, "B"); return f }, "the limit is 1,024"},
		{"two responses", func(f figures) figures { f.add("route_change.responses", at(1, 1, 1), 2, ""); return f }, "route_change.responses is 2"},
		{"grows", func(f figures) figures { return f.with("endpoint_change.bytes", at(10_000, 10, 1), 530) }, "grows from 500 with 100 hosts"},
		{"sent again", func(f figures) figures { return f.with("restart.resources_resent", at(10_000, 10, 1), 1) }, "restart.resources_resent is 1"},
		{"missing", func(f figures) figures { return f[:3] }, "was not measured"},
	} {
		err := c.edit(sample()).check()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// with replaces the value of a figure.
func (f figures) with(name string, p params, value float64) figures {
	for i := range f {
		if one, ok := f[i:i+1].find(name, p); ok {
			one.Value = value
			f[i] = one
		}
	}
	return f
}

func TestGoalsNameFiguresOfThePlan(t *testing.T) {
	worlds := map[string]bool{}
	for _, s := range fullPlan().scenarios {
		worlds[fixedText(sweep{fixed: at(s.hosts, s.members, s.streams)})] = true
	}
	for _, g := range goals {
		if g.where != nil && !worlds[fixedText(sweep{fixed: g.where})] {
			t.Errorf("%s: nothing is measured with %v", g.what, g.where)
		}
	}
}

func TestPlot(t *testing.T) {
	p := plot{title: "a < b", x: "hosts", lines: []line{
		{"flat", []point{{100, 5}, {10_000, 5}}}, {"grows", []point{{10_000, 500}, {100, 5}}}, {"nothing", []point{{100, 0}}},
	}}
	svg, ok := p.svg()
	if !ok {
		t.Fatal("nothing was drawn")
	}
	lines := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 2 {
		t.Errorf("%d lines, want those with points above zero", lines)
	}
	if _, ok := (plot{lines: []line{{"nothing", []point{{1, 0}}}}}).svg(); ok {
		t.Error("a plot without points")
	}
}

func TestAxis(t *testing.T) {
	a := newAxis([]float64{3, 700}, 0, 300) // 1 to 1,000
	for v, want := range map[float64]float64{1: 0, 10: 100, 1000: 300} {
		if got := a.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v", v, got, want)
		}
	}
	if one := newAxis([]float64{10}, 0, 100); one.at(10) != 0 || one.at(100) != 100 {
		t.Errorf("one value: %+v", one)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.5", 0.0123: "0.0123", 12.34: "12.3", 999.6: "1,000", 1234567: "1,234,567", -1234: "-1,234", 10: "10"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

// TestWrite: the page in the repository has every section, and what is between
// the marks is replaced, however often.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "performance.md")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	var first string
	for range 2 {
		if err := sample().write(dir); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(got)
		}
		if string(got) != first {
			t.Error("written twice it is something else")
		}
	}
	for _, want := range []string{"| endpoint | 10,000 | 500 |", "img/performance-hosts-cpu_us.svg", "| commit: the engine | 12.5 % |", "not measured", "| endpoint | 100 hosts | 10,000 hosts, 10 members and 1 stream | 1 | 1 | 1 | 1 |"} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "img", "performance-streams-cpu_us.svg")); err != nil {
		t.Error(err)
	}
	if _, err := replaceSections("no marks", map[string]string{"goals": ""}); err == nil {
		t.Error("a page without marks is taken")
	}
}

func TestByPart(t *testing.T) {
	got := byPart([]byte(`File: bench
Type: cpu
-----------+-------------------------------------------------------
      30ms   runtime.mallocgc
             github.com/spillway-dev/spillway/internal/envoy.seal
             github.com/spillway-dev/spillway/internal/inc.(*Graph).Commit
-----------+-------------------------------------------------------
     1.01s   github.com/spillway-dev/spillway/internal/inc.(*Graph).Commit
-----------+-------------------------------------------------------
      10ms   runtime.futex
             runtime.mcall
-----------+-------------------------------------------------------
     950ms   example.com/x.F
`))
	for name, want := range map[string]float64{"commit: Envoy's resources": 1.5, "commit: the engine": 50.5, "Go's scheduler: waking up, going to sleep": 0.5, "other": 47.5} {
		if math.Abs(got[name]-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}
