package bootstrap

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Command is "bootstrap": its subcommands print the configuration of a proxy,
// and of a gRPC client that needs none.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "bootstrap", Short: "Print the configuration a data plane starts with", Args: cobra.NoArgs}
	cmd.AddCommand(envoyCommand(), grpcCommand())
	return cmd
}

func envoyCommand() *cobra.Command {
	var o Options
	var admin Admin
	var out []byte
	cmd := &cobra.Command{
		Use:   "envoy",
		Short: "Print the configuration of an Envoy that joins an edge",
		Long: `Print, as JSON, the configuration of an Envoy that joins an edge.

The proxy proves who it is by a certificate with the one URI name
spiffe://<trust domain>/edge/<edge>, or by being allowed to open the control
plane's unix socket. The number of worker threads is no part of the
configuration: start Envoy with --concurrency.

Envoy's admin interface is a unix socket that only Envoy's own user may open
(mode 0600). Its folder must be there; give each proxy of a machine a path of
its own.

Envoy must be allowed to open a file for each connection of a client
(--max-connections), one for what that may need of an endpoint, and 512 of its
own, or it fails before it is full: 100,512 by default. It raises its soft limit
to the hard one itself, so what counts is ulimit -Hn where it starts. How many
that are is printed on standard error.`,
		Example: `  spillway bootstrap envoy --edge fra --node-id fra-1 --xds-address xds.example.com:18000 \
    --ca /etc/spillway/ca.pem --cert /etc/spillway/fra.pem --key /etc/spillway/fra.key > envoy.json
  envoy -c envoy.json --concurrency 2`,
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if o.MaxConnections == 0 {
				return errors.New("--max-connections 0 would let no client in: give 1 or more")
			}
			if o.AdminPath, o.AdminAddress, err = admin.Choose(); err == nil {
				out, err = Render(o)
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := cmd.OutOrStdout().Write(out); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "# %d connections need %d open files (ulimit -Hn %[2]d; LimitNOFILE=%[2]d in a unit of systemd): with fewer, Envoy fails before it is full\n",
				o.MaxConnections, FilesFor(o.MaxConnections))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Edge, "edge", "", "name of the Edge this proxy belongs to (required)")
	f.StringVar(&o.NodeID, "node-id", "", "name of this proxy, unique in its edge (required)")
	f.StringVar(&o.XDSAddress, "xds-address", "", "HOST:PORT of the control plane")
	f.StringVar(&o.XDSSocket, "xds-socket", "", "path of the control plane's unix socket, in place of --xds-address")
	f.StringVar(&o.CA, "ca", "", "PEM file with the CA of the control plane's certificate")
	f.StringVar(&o.Cert, "cert", "", "PEM file with this proxy's certificate")
	f.StringVar(&o.Key, "key", "", "PEM file with its key")
	f.StringVar(&o.ServerName, "server-name", "", "name in the control plane's certificate (default: the host of --xds-address)")
	admin.Flags(f)
	f.BoolVar(&o.Health, "health", true, "probe the canaries that the control plane names, and report their health")
	f.Uint32Var(&o.MaxConnections, "max-connections", DefaultMaxConnections, "close what clients open beyond this; Envoy needs twice as many open files, and 512 (ulimit -Hn)")
	f.Uint64Var(&o.MaxHeapBytes, "max-heap-bytes", 0, "shed load as Envoy's heap nears this size (0: no limit)")
	return cmd
}
