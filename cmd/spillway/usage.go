package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillway-dev/spillway/internal/cli"
)

// usage is what is wrong with a command line.
type usage struct{ error }

func (usage) ExitCode() int   { return 2 }
func (u usage) Unwrap() error { return u.error }

// strict makes a command and all below it tell a wrong command line from a
// failure, and where to read what is right. What a command says in Args or
// PreRunE is about the command line; what it says in RunE is a failure.
func strict(root *cobra.Command) *cobra.Command {
	pflag.CommandLine = pflag.NewFlagSet(root.Name(), pflag.ContinueOnError) // Kubernetes' libraries add to what each command has
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrong(cmd, withFlag(cmd, err)) })
	strictArgs(root)
	return root
}

// onlyGroups is the annotation of a command that does nothing but have subcommands.
const onlyGroups = "only-groups"

func strictArgs(cmd *cobra.Command) {
	if cmd.HasSubCommands() {
		cmd.Args = known
		if !cmd.Runnable() { // it does nothing by itself
			cmd.Annotations = map[string]string{onlyGroups: "true"}
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return wrong(cmd, check(cmd, args)) }
	}
	if check := cmd.PreRunE; check != nil {
		cmd.PreRunE = func(cmd *cobra.Command, args []string) error { return wrong(cmd, check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		strictArgs(c)
	}
}

// known is what a command with subcommands says of what is none of them.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return meant(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), args[0], names, "")
}

// withFlag adds which flag may be meant.
func withFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return meant(err, unknown.GetSpecifiedName(), names, "--")
}

func meant(err error, typed string, names []string, prefix string) error {
	if near := cli.Nearest(typed, names); near != "" {
		return fmt.Errorf("%w, did you mean %q?", err, prefix+near)
	}
	return err
}

func wrong(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return usage{fmt.Errorf("%w (see `%s --help`)", err, cmd.CommandPath())}
}
