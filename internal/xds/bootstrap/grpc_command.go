package bootstrap

import "github.com/spf13/cobra"

func grpcCommand() *cobra.Command {
	var o Options
	var out []byte
	cmd := &cobra.Command{
		Use:   "grpc",
		Short: "Print the configuration of a gRPC client that needs no proxy",
		Long: `Print, as JSON, what a gRPC client needs to resolve xds:///HOST by itself, for
the file that GRPC_XDS_BOOTSTRAP names.

The client belongs to an edge, whose place decides which members are near. It
proves who it is by a certificate with the one URI name
spiffe://<trust domain>/grpc/<edge>, or by being allowed to open the control
plane's unix socket.`,
		Example: `  spillway bootstrap grpc --edge fra --node-id cart-1 --xds-address xds.example.com:18000 \
    --ca /etc/spillway/ca.pem --cert /etc/spillway/cart.pem --key /etc/spillway/cart.key > xds.json
  GRPC_XDS_BOOTSTRAP=xds.json cart --shop xds:///shop.example`,
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			out, err = RenderGRPC(o)
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(out)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Edge, "edge", "", "name of the Edge whose place and networks this client has (required)")
	f.StringVar(&o.NodeID, "node-id", "", "name of this client (required)")
	f.StringVar(&o.XDSAddress, "xds-address", "", "HOST:PORT of the control plane; its certificate must be for HOST")
	f.StringVar(&o.XDSSocket, "xds-socket", "", "path of the control plane's unix socket, in place of --xds-address")
	f.StringVar(&o.CA, "ca", "", "PEM file with the CA of the control plane's certificate")
	f.StringVar(&o.Cert, "cert", "", "PEM file with this client's certificate")
	f.StringVar(&o.Key, "key", "", "PEM file with its key")
	return cmd
}
