package app

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Command is `spillway serve`.
func Command() *cobra.Command {
	cfg := Config{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane against a hub",
		Long: "Run the control plane: watch the hub and its members, serve Envoy by xDS, answer DNS, write statuses.\n\n" +
			"The hub is any Kubernetes API server with Spillway's kinds; `spillway hub` is one.",
		Example: "  spillway serve --kubeconfig hub/serve.kubeconfig --xds-socket /run/spillway/xds.sock\n" +
			"  spillway serve --kubeconfig hub/serve.kubeconfig --envoyxds --envoy-listener-port 8080",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLog(cmd.ErrOrStderr(), cfg.LogFormat, cfg.LogLevel)
			if err != nil {
				return err
			}
			slog.SetDefault(log)
			klog.SetSlogLogger(log.With("from", "client-go"))
			return Run(cmd.Context(), cfg, log)
		},
	}
	cfg.flags(cmd.Flags())
	return cmd
}

func newLog(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--log-format %q: use text or json", format)
}
