package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"
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
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLog(cmd.ErrOrStderr(), cfg.LogFormat, cfg.LogLevel)
			if err != nil {
				return err
			}
			slog.SetDefault(log)
			klog.SetSlogLogger(log.With("from", "client-go"))
			grpclog.SetLoggerV2(grpcLog(log))
			return cfg.validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.Default()
			warn(cfg, log)
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

// warn tells what a start leaves out of what Spillway promises.
func warn(cfg Config, log *slog.Logger) {
	if cfg.StateDir == "" {
		log.Warn("no --state-dir: what is known is lost with this process, so a restart while the hub or a member is away waits for them, and a proxy that comes then lacks what only they know")
	}
	if cfg.XDSAddress == "" && cfg.XDSSocket == "" && !cfg.EnvoyXDS {
		log.Warn("neither --xds-address nor --xds-socket: no proxy can connect, so no Ingress is served")
	}
}

// grpcLog logs what gRPC says of itself: a library that comes with the hub's
// client sends it to that one's log. What clients do wrong is no warning of ours.
func grpcLog(log *slog.Logger) grpclog.LoggerV2 {
	return grpclog.NewLoggerV2(io.Discard, grpcLines{log.With("from", "grpc"), slog.LevelDebug}, grpcLines{log.With("from", "grpc"), slog.LevelWarn})
}

// grpcLines logs lines of gRPC.
type grpcLines struct {
	log   *slog.Logger
	level slog.Level
}

func (s grpcLines) Write(line []byte) (int, error) {
	_, text, found := strings.Cut(string(line), ": ") // behind the time and the severity, which the log has
	if !found {
		text = string(line)
	}
	s.log.Log(context.Background(), s.level, strings.TrimSpace(text))
	return len(line), nil
}
