package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/model"
)

// report is what is read of the suite's.
type report struct {
	Profiles []profile `json:"profiles"`
}

type profile struct {
	Name     string `json:"name"`
	Core     part   `json:"core"`
	Extended part   `json:"extended"`
}

type part struct {
	Statistics struct {
		Passed  int `json:"Passed"`
		Skipped int `json:"Skipped"`
		Failed  int `json:"Failed"`
	} `json:"statistics"`
}

// test runs the suite in the edge's place, and tells how it went.
func (f *fleet) test(ctx context.Context) error {
	began := time.Now()
	out := filepath.Join(f.lab.Dir(), "report.yaml")
	log := filepath.Join(f.lab.Dir(), "logs", "suite.log")
	w, err := os.Create(log)
	if err != nil {
		return err
	}
	defer w.Close()
	argv := append([]string{
		f.built.test, "-test.v", "-test.run", "^TestConformance$", "-test.timeout", "30m", "-gateway-class", class, "-conformance-profiles", f.profiles,
		"-organization", "spillway-dev", "-project", "spillway", "-url", "https://github.com/spillway-dev/spillway", "-version", "dev", "-contact", "@spillway-dev/maintainers",
		"-report-output", out, "-run-test", f.run,
	}, f.more...)
	env := []string{"env", "KUBECONFIG=" + f.lab.HubKubeconfig(), "SPILLWAY_FEATURES=" + strings.Join(model.Features(), ","),
		"SPILLWAY_USABLE=" + f.onRequest().String(), "SPILLWAY_UNUSABLE=" + unusable}
	code, err := f.lab.Exec(ctx, edge, nil, w, w, append(env, argv...)...)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	took := time.Since(began).Round(time.Second)
	failed := failures(string(text))
	for _, name := range failed {
		fmt.Printf("FAILED  %s\n%s", name, said(string(text), name))
	}
	if err := f.tell(out, took); err != nil {
		return err
	}
	if code != 0 || len(failed) > 0 {
		return fmt.Errorf("%d tests failed (exit code %d): see %s", len(failed), code, log)
	}
	return nil
}

// tell prints a table of the report, and keeps a whole one.
func (f *fleet) tell(out string, took time.Duration) error {
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	var r report
	if err := yaml.Unmarshal(text, &r); err != nil {
		return err
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROFILE\tLEVEL\tPASSED\tFAILED\tSKIPPED")
	for _, p := range r.Profiles {
		for _, l := range []struct {
			level string
			part
		}{{"core", p.Core}, {"extended", p.Extended}} {
			s := l.Statistics
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\n", p.Name, l.level, s.Passed, s.Failed, s.Skipped)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Printf("v%s, %s\n", f.built.name, took)
	if f.run != "" {
		return nil
	}
	head := "# Written by `make conformance`. What is not as upstream has it:\n"
	for _, line := range f.built.instead {
		head += "# - " + line + "\n"
	}
	return errors.Join(os.MkdirAll(f.reports, 0o755), files.Replace(filepath.Join(f.reports, "v"+f.built.name+".yaml"), append([]byte(head), text...), 0o644))
}

const lines = 12 // of what a test said that failed

// said is the last of what a test said.
func said(log, name string) string {
	_, text, _ := strings.Cut(log, "=== RUN   TestConformance/"+name+"\n")
	text, _, _ = strings.Cut(text, "\n=== ")
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n") + "\n"
}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: TestConformance/(\S+)`)

// failures are the tests that failed and have no parts that did.
func failures(log string) (out []string) {
	var all []string
	for _, m := range failLine.FindAllStringSubmatch(log, -1) {
		all = append(all, m[1])
	}
	for _, name := range all {
		if !slices.ContainsFunc(all, func(o string) bool { return strings.HasPrefix(o, name+"/") }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
