package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is set by the linker; a build by `go install` has its module version.
var Version = ""

// parts are the modules whose versions a bug report needs.
var parts = []string{"k8s.io/kubernetes", "k8s.io/client-go", "go.etcd.io/etcd/server/v3", "github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc", "github.com/miekg/dns"}

// versionCommand prints everything a bug report needs.
func versionCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print everything a bug report needs",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return checkFormat(format, "table", "json", "yaml") },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd.OutOrStdout(), format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json or yaml")
	return cmd
}

// versions is what printVersion shows, in order.
func versions() [][2]string {
	out := [][2]string{{"spillway", Version}, {"go", runtime.Version()}, {"platform", runtime.GOOS + "/" + runtime.GOARCH}}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	if out[0][1] == "" {
		out[0][1] = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			out = append(out, [2]string{"commit", s.Value})
		case "vcs.modified":
			out = append(out, [2]string{"modified", s.Value})
		}
	}
	found := map[string]string{}
	for _, dep := range build.Deps {
		found[dep.Path] = dep.Version
	}
	for _, p := range parts {
		if v := found[p]; v != "" {
			out = append(out, [2]string{p, v})
		}
	}
	return out
}

func printVersion(w io.Writer, format string) error {
	list := versions()
	if format != "table" {
		m := map[string]string{}
		for _, kv := range list {
			m[kv[0]] = kv[1]
		}
		body, err := json.Marshal(m)
		if err != nil {
			return err
		}
		return encode(w, format, body)
	}
	for _, kv := range list {
		if _, err := fmt.Fprintf(w, "%-42s %s\n", kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}
