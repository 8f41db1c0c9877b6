package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/test/rig"
)

// tested is what runs against what.
type tested struct {
	options
	program string
}

func (t tested) setting() rig.Setting {
	return rig.Setting{Spec: t.spec(), Manager: "spillway-multicluster"}
}

const (
	parallel = "4"  // how many tests run at a time: most of them wait
	patience = "3m" // of each wait: a slow machine is no failure
)

// test runs the suite, and tells how it went.
func (t tested) test(ctx context.Context, f *rig.Fleet) error {
	began := time.Now()
	out := filepath.Join(f.Lab.Dir(), "report.yaml")
	argv := []string{
		"-test.v", "-test.timeout", "30m", "-test.parallel", parallel, "-test.run", "^TestMulticluster$/" + t.Run,
		"-hub", f.Lab.HubKubeconfig(), "-gateway-class", rig.Class, "-port", "8080", "-image", lab.EchoImage, "-features", t.features, "-report", out, "-timeout", patience,
	}
	for _, m := range f.Spec.Members {
		argv = append(argv, "-member", m.Name+"="+f.Lab.MemberKubeconfig(m.Name))
	}
	w, err := os.Create(t.SuiteLog())
	if err != nil {
		return err
	}
	defer w.Close()
	cmd := exec.CommandContext(ctx, t.program, append(argv, t.more...)...)
	cmd.Stdout, cmd.Stderr = w, w
	failed := cmd.Run()
	if exit := (*exec.ExitError)(nil); failed != nil && !errors.As(failed, &exit) {
		return failed
	}
	failed = rig.Tell(os.Stdout, t.SuiteLog(), "TestMulticluster", cmd.ProcessState.ExitCode())
	return errors.Join(failed, t.tell(out, time.Since(began).Round(time.Second)))
}

// report is what is read of the suite's.
type report struct {
	SuiteVersion string         `json:"suiteVersion"`
	Results      map[string]int `json:"results"`
	Tests        []struct {
		Name     string   `json:"name"`
		Backends string   `json:"backends"`
		Result   string   `json:"result"`
		Lacks    []string `json:"lacks"`
	} `json:"tests"`
}

// tell prints a table of the report, and keeps a whole one.
func (t tested) tell(out string, took time.Duration) error {
	var r report
	text, err := rig.Read(out, &r)
	if err != nil {
		return err
	}
	if len(r.Tests) == 0 {
		return fmt.Errorf("-run %s: there is no such test", t.Run)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TEST\tBACKENDS\tRESULT\tLACKS")
	for _, c := range r.Tests {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Name, c.Backends, c.Result, strings.Join(c.Lacks, ","))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("%s: %d passed, %d failed, %d skipped, %s\n", r.SuiteVersion, r.Results["passed"], r.Results["failed"], r.Results["skipped"], took)
	if t.Run != "" {
		return nil
	}
	return rig.Keep(t.Reports, "spillway.yaml", "# Written by `make multicluster`.\n", text)
}
