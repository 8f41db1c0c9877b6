package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// page is written by `make generate`.
const page = "../../docs/reference/commands.md"

// TestReference: docs/reference/commands.md is what the commands say of
// themselves. With SPILLWAY_UPDATE_STORIES=1 it is written.
func TestReference(t *testing.T) {
	var out strings.Builder
	out.WriteString("# Commands and flags\n\nMade by `make generate` from what `spillway COMMAND --help` says.\n\n" + codes)
	describe(&out, command())
	want := out.String()
	if os.Getenv("SPILLWAY_UPDATE_STORIES") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the commands say (%v): run `make generate`", page, err)
	}
}

const codes = `| exit code | says |
|---|---|
| 0 | done |
| 1 | it failed: the last line says why and what to do |
| 2 | the command line is wrong: nothing was done, and nobody was asked |
| 3 | this machine can't do it (` + "`lab`, `demo`" + `) |
| 126, 127 | ` + "`lab exec`" + `: the command can't be run, is not there. Otherwise its exit code is that of the command |
`

func describe(out *strings.Builder, cmd *cobra.Command) {
	if cmd.Runnable() && cmd.Annotations[onlyGroups] == "" {
		fmt.Fprintf(out, "\n## %s\n%s\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"), sentences(cmd))
		if cmd.Example != "" {
			fmt.Fprintf(out, "```\n%s\n```\n", regexp.MustCompile(`(?m)^  `).ReplaceAllString(cmd.Example, ""))
		}
		var rows []string
		list := func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				rows = append(rows, row(f))
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(list)
		cmd.InheritedFlags().VisitAll(list)
		if len(rows) > 0 {
			out.WriteString("\n| flag | default | |\n|---|---|---|\n" + strings.Join(rows, ""))
		}
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" {
			describe(out, c)
		}
	}
}

func sentences(cmd *cobra.Command) string {
	if cmd.Long == "" {
		return cmd.Short + ".\n"
	}
	// A list is shown as it is.
	return regexp.MustCompile(`(?m)(^  .*\n)+`).ReplaceAllString(strings.TrimSpace(cmd.Long)+"\n", "```\n$0```\n")
}

func row(f *pflag.Flag) string {
	kind, text := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	value := ""
	if f.DefValue != "" && f.DefValue != "[]" {
		value = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, value, strings.ReplaceAll(text, "|", `\|`))
}
