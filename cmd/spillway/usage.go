package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// usage is what is wrong with a command line.
type usage struct{ error }

func (usage) ExitCode() int   { return 2 }
func (u usage) Unwrap() error { return u.error }

// strict makes a command and all below it tell a wrong command line from a
// failure, and where to read what is right.
func strict(root *cobra.Command) *cobra.Command {
	root.SetFlagErrorFunc(wrong)
	root.Args = cobra.NoArgs
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	strictArgs(root)
	return root
}

func strictArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return wrong(cmd, check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		strictArgs(c)
	}
}

func wrong(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return usage{fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())}
}
