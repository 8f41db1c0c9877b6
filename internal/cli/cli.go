// Package cli holds the client commands: they ask a running `spillway serve`
// through its admin listener and change nothing.
//
// Exit codes of spillway: 0 done; 1 it failed, the last line says why and what
// to do; 2 the command line is wrong; 3 this machine can't do it (`lab`, `demo`).
package cli

import "github.com/spf13/cobra"

// Commands are the client commands.
func Commands() []*cobra.Command { return []*cobra.Command{getCommand(), versionCommand()} }
