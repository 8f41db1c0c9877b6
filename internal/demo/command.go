package demo

import (
	"github.com/spf13/cobra"
)

// Command is `spillway demo`.
func Command() *cobra.Command {
	opts := Options{plot: &edgePlot}
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
	cmd.AddCommand(leafCommand())
	return cmd
}

// leafCommand is `spillway demo leaf`.
func leafCommand() *cobra.Command {
	opts := Options{plot: &leafPlot}
	cmd := &cobra.Command{
		Use:   "leaf",
		Short: "The same with leaves: Contour in members serves",
		Long: `Start a hub, three member clusters that run Contour, and the control plane on
this machine, without containers or root. No packet goes between the pods of one
member and the others, and one has a host name for an address. An Ingress is
written on the hub; its leaves, their merged status and requests to each member
are looked at while it is edited, members are cut off and it is deleted.

Exit codes are those of demo.`,
		Example: "  spillway demo leaf\n  spillway demo leaf --check --report build/demo-leaf.json",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return opts.validate() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Run(cmd.Context(), opts, cmd.OutOrStdout())
		},
	}
	opts.flags(cmd.Flags())
	return cmd
}
