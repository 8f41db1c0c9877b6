package apiserver

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
)

// Command is `spillway hub`: it runs the embedded API server until its context
// ends, and prints one line when the server is ready.
func Command() *cobra.Command {
	var cfg Config
	var port uint16
	var gatewayAPI bool
	cmd := &cobra.Command{
		Use:   "hub --data-dir DIR",
		Short: "Run the embedded Kubernetes API server",
		Long: `Run a real Kubernetes API server with its database in this process, on
loopback. It is the hub where none is at hand, and a lab's member with
--workloads. All state is kept in the data directory.

Beside the administrator's kubeconfig a hub writes DATA-DIR/serve.kubeconfig,
for ` + "`spillway serve`" + `: it may read what users write, and write statuses and
events. Certificates are renewed while the hub runs.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PreRunE: func(*cobra.Command, []string) error {
			if cfg.DataDir == "" {
				return errors.New("no data directory: give --data-dir")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.NoGatewayAPI = !gatewayAPI
			cfg.Address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
			return Run(cmd.Context(), cfg, func(kubeconfig string) {
				fmt.Fprintf(cmd.OutOrStdout(), "ready: kubeconfig %s\n", kubeconfig)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.DataDir, "data-dir", "", "directory for all state; made when absent (required)")
	f.Uint16Var(&port, "port", 0, "port on 127.0.0.1; 0 picks a free one on the first start and keeps it")
	f.StringVar(&cfg.KubeconfigPath, "kubeconfig", "", "where to write the administrator's kubeconfig (default DATA-DIR/admin.kubeconfig)")
	f.StringVar(&cfg.Name, "name", "hub", "name of the cluster in the kubeconfig")
	f.BoolVar(&cfg.Workloads, "workloads", false, "run the controllers that Deployments and EndpointSlices need")
	f.BoolVar(&cfg.CRDs, "crds", true, "be a hub: install the kinds of group spillway.dev and of the Gateway API, ServiceImport, and the role of serve")
	f.BoolVar(&gatewayAPI, "gateway-api", true, "with --crds, install the kinds of the Gateway API; without, you install them, of whatever version")
	f.BoolVar(&cfg.OpenShiftRoutes, "openshift-routes", false, "install the kind Route of OpenShift, unless somebody else has")
	f.BoolVar(&cfg.Exports, "exports", false, "be a member that exports Services: install the kind ServiceExport")
	f.BoolVar(&cfg.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk: for a hub or member that nobody would miss if this machine crashed")
	f.StringVar(&cfg.ServiceCIDR, "service-cidr", "10.96.0.0/16", "addresses for Services")
	return cmd
}
