// Package cli holds the client commands: they ask a running `spillway serve`
// through its admin listener and change nothing, but for `member` and `rollout`, which
// read and write the hub.
//
// Exit codes of spillway: 0 done; 1 it failed, the last line says why and what
// to do; 2 the command line is wrong; 3 this machine can't do it (`lab`, `demo`).
package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// Commands are the client commands. Ages are shown as of now.
func Commands(now func() time.Time) []*cobra.Command {
	return []*cobra.Command{getCommand(now), memberCommand(), rolloutCommand(), versionCommand()}
}
