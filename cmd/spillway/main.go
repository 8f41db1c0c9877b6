// Command spillway is global ingress for fleets of Kubernetes clusters.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-dev/spillway/internal/apiserver"
	"github.com/spillway-dev/spillway/internal/app"
	"github.com/spillway-dev/spillway/internal/cli"
	"github.com/spillway-dev/spillway/internal/demo"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/drain"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "spillway:", err)
		os.Exit(code(err))
	}
}

// command is spillway with all its subcommands.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "spillway",
		Short:         "Global ingress for fleets of Kubernetes clusters",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(apiserver.Command(), app.Command(), bootstrap.Command(), drain.Command())
	root.AddCommand(lab.Commands()...)
	root.AddCommand(demo.Command())
	root.AddCommand(cli.Commands(time.Now)...)
	return strict(root)
}

// code is the exit code that an error asks for, 1 by default.
func code(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}
