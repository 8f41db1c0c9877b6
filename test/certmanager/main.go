// Command certmanager is cert-manager, of its module: `certmanager controller` runs its
// controllers, `certmanager acmesolver` what answers HTTP-01 challenges in a pod. The
// programs that it is released as are modules of their own, which Go's module proxy does
// not have (cmd/controller, cmd/acmesolver); these do in their place what their flags'
// defaults say, without leader election, webhook and metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	logf.InitLogs()
	err := run(logf.NewContext(ctx, logf.Log), os.Args[1:])
	stop()
	logf.FlushLogs()
	if err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("use certmanager controller or certmanager acmesolver")
	}
	switch args[0] {
	case "controller":
		return runController(ctx, args[1:])
	case "acmesolver":
		return runSolver(ctx, args[1:])
	}
	return fmt.Errorf("%s: there are controller and acmesolver", args[0])
}

// goodbye is how long answers may take when the solver ends.
const goodbye = 10 * time.Second

// runSolver answers the challenge of its flags, which are those that the controllers
// give a solver's pod.
func runSolver(ctx context.Context, args []string) error {
	var s solver.HTTP01Solver
	f := flag.NewFlagSet("acmesolver", flag.ContinueOnError)
	f.IntVar(&s.ListenPort, "listen-port", 8089, "port")
	f.StringVar(&s.Domain, "domain", "", "host that is asked for")
	f.StringVar(&s.Token, "token", "", "token that is asked for")
	f.StringVar(&s.Key, "key", "", "what is answered")
	if err := f.Parse(args); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(logf.FromContext(ctx)) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := s.Shutdown(limited); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
