package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/test/rig"
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
func (t tested) test(ctx context.Context, f *rig.Fleet) error {
	began := time.Now()
	out, log := filepath.Join(f.Lab.Dir(), "report.yaml"), t.SuiteLog()
	w, err := os.Create(log)
	if err != nil {
		return err
	}
	defer w.Close()
	argv := append([]string{
		t.built.test, "-test.v", "-test.run", "^TestConformance$", "-test.timeout", "30m", "-gateway-class", rig.Class, "-conformance-profiles", t.profiles,
		"-organization", "spillway-dev", "-project", "spillway", "-url", "https://github.com/spillway-dev/spillway", "-version", "dev", "-contact", "@spillway-dev/maintainers",
		"-report-output", out, "-run-test", t.Run,
	}, t.more...)
	env := []string{"env", "KUBECONFIG=" + f.Lab.HubKubeconfig(), "SPILLWAY_FEATURES=" + strings.Join(model.Features(), ","),
		"SPILLWAY_USABLE=" + t.onRequest().String(), "SPILLWAY_UNUSABLE=" + unusable}
	code, err := f.Lab.Exec(ctx, edge, nil, w, w, append(env, argv...)...)
	if err != nil {
		return err
	}
	took := time.Since(began).Round(time.Second)
	failed := rig.Tell(os.Stdout, log, "TestConformance", code)
	if err := t.tell(out, took); err != nil {
		return errors.Join(failed, err)
	}
	return failed
}

// tell prints a table of the report, and keeps a whole one.
func (t tested) tell(out string, took time.Duration) error {
	var r report
	text, err := rig.Read(out, &r)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROFILE\tLEVEL\tPASSED\tFAILED\tSKIPPED")
	for _, p := range r.Profiles {
		for _, l := range []struct {
			level string
			part
		}{{"core", p.Core}, {"extended", p.Extended}} {
			s := l.Statistics
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\n", p.Name, l.level, s.Passed, s.Failed, s.Skipped)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("v%s, %s\n", t.built.name, took)
	if t.Run != "" {
		return nil
	}
	head := "# Written by `make conformance`. What is not as upstream has it:\n"
	for _, line := range t.built.instead {
		head += "# - " + line + "\n"
	}
	return rig.Keep(t.Reports, "v"+t.built.name+".yaml", head, text)
}
