package drain

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
)

// Command is "proxy": its subcommand drain prepares an Envoy for its end.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "proxy", Short: "Take care of a data plane on this machine", Args: cobra.NoArgs}
	cmd.AddCommand(drainCommand())
	return cmd
}

func drainCommand() *cobra.Command {
	o := Options{Every: 100 * time.Millisecond}
	var admin bootstrap.Admin
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Prepare an Envoy for its end: no request is lost",
		Long: `Prepare an Envoy for its end, as a preStop hook does. Its health checks fail
from now on, and it closes each connection behind its next answer. The command
ends when nobody waits for an answer any more; then Envoy may be stopped.`,
		Example: `  spillway proxy drain --notice 10s --limit 5m`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			path, address, err := admin.Choose()
			o.Admin = cmp.Or(path, address)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	admin.Flags(f)
	f.DurationVar(&o.Notice, "notice", 10*time.Second, "least time before the end: so long may others still send clients here")
	f.DurationVar(&o.Limit, "limit", 5*time.Minute, "longest wait for requests to end")
	return cmd
}
