package echo

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// EnvHTTPPort is the variable with the port of HTTP, as upstream's echo-basic has it.
const EnvHTTPPort = "HTTP_PORT"

// Command is the hidden `lab-echo`: the built-in image's program.
func Command() *cobra.Command {
	cfg := Config{}
	cmd := &cobra.Command{
		Use:    "lab-echo",
		Short:  "Answer requests with what was seen (the lab's built-in image)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			cfg.Identity = FromEnvironment()
			if port := os.Getenv(EnvHTTPPort); port != "" && !cmd.Flags().Changed("http") {
				cfg.HTTP = ":" + port
			}
			s, err := Listen(cfg)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "echo of %s/%s serves\n", cfg.Identity.Namespace, cfg.Identity.Pod)
			return s.Run(ctx)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.HTTP, "http", ":8080", "HTTP/1.1, h2c, gRPC and WebSocket; empty: off; $HTTP_PORT without the flag")
	f.StringVar(&cfg.HTTPS, "https", ":8443", "the same over TLS; empty: off")
	f.StringVar(&cfg.TCP, "tcp", ":9000", "lines over TCP; empty: off")
	f.StringVar(&cfg.UDP, "udp", ":9000", "datagrams; empty: off")
	f.StringVar(&cfg.CertFile, "cert", "", "certificate for HTTPS (default: self-signed)")
	f.StringVar(&cfg.KeyFile, "key", "", "its key")
	f.DurationVar(&cfg.Grace, "grace", 3*time.Second, "after SIGTERM: fail readiness but serve on for this long")
	f.DurationVar(&cfg.Drain, "drain", 10*time.Second, "then: how long running requests may take")
	return cmd
}
