package demo

import (
	"github.com/spf13/cobra"
)

// Command is `spillway demo`.
func Command() *cobra.Command {
	opts := Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a whole fleet on this machine and tell a story with it",
		Long: `Start a hub, three member clusters, two Envoy edges and the control plane on
this machine, without containers or root; apply the examples; then scale, edit,
cut and kill parts under load and tell what really happened. It stays up for you
to try until Ctrl-C, and leaves only files in its folder.

Exit code 1: a chapter failed, or the fleet could not start; 3: this machine
can't run a lab. The message says why and what to do.`,
		Example: "  spillway demo\n  spillway demo --check --report build/demo.json",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return opts.validate() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Run(cmd.Context(), opts, cmd.OutOrStdout())
		},
	}
	opts.flags(cmd.Flags())
	return cmd
}
