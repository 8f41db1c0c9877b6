// Package cli holds the client commands: they ask a running `spillway serve`
// through its admin listener and change nothing.
//
// Exit codes of spillway: 0 done; 1 it failed, the last line says why and what
// to do; 2 the command line is wrong; 3 this machine can't do it (`lab`, `demo`).
package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Commands are the client commands.
func Commands() []*cobra.Command { return []*cobra.Command{getCommand(), versionCommand()} }

func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "table", "table, json or yaml")
}

// encode writes v as JSON or YAML.
func encode(w io.Writer, format string, v any) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "yaml":
		b, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return fmt.Errorf("output %q: use table, json or yaml", format)
}
