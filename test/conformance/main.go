// Command conformance runs the upstream conformance suite of the Gateway API against a
// fleet of the lab: one cluster that is hub and member, `spillway serve` and one edge
// with a real Envoy (docs/conformance.md).
//
// Exit code 1: a test failed, or something ended by itself; 3: this machine can't run
// a lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spillway-dev/spillway/internal/lab"
)

// options are the flags.
type options struct {
	version  string
	profiles string
	run      string
	dir      string
	binary   string
	reports  string
	loopback string
	xdsPort  int
	dnsPort  int
	admin    string
	more     []string // of the suite's own
}

func flags() options {
	var o options
	flag.StringVar(&o.version, "version", "1.6.3", "of the suite, and of the Gateway API: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	flag.StringVar(&o.profiles, "profiles", "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP", "conformance profiles")
	flag.StringVar(&o.run, "run", "", "one test by its name, such as HTTPRouteWeight; no report is written")
	flag.StringVar(&o.dir, "dir", ".lab", "folder of the lab: kubeconfigs, certificates, logs")
	flag.StringVar(&o.binary, "binary", "bin/spillway", "spillway itself")
	flag.StringVar(&o.reports, "reports", "test/conformance/reports", "folder of reports")
	flag.StringVar(&o.loopback, "loopback", "127.0", "part of the loopback for edges' addresses; labs beside each other need their own")
	flag.IntVar(&o.xdsPort, "xds-port", 18000, "port of `spillway serve` for edges, on 127.0.0.1")
	flag.IntVar(&o.dnsPort, "dns-port", 1053, "port of our DNS server, on 127.0.0.1")
	flag.StringVar(&o.admin, "admin-address", "127.0.0.1:18080", "admin listener of `spillway serve`")
	flag.Parse()
	o.more = flag.Args()
	return o
}

func main() {
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v (logs: %s/logs)\n", err, o.dir)
		os.Exit(lab.ExitCode(err))
	}
}

// run builds the suite, raises the fleet and has the one test the other.
func run(ctx context.Context, o options) (err error) {
	v, ok := versions[o.version]
	if !ok {
		return fmt.Errorf("-version %s: there are %v", o.version, slices.Sorted(maps.Keys(versions)))
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	built, err := v.build(ctx)
	if err != nil {
		return err
	}
	f := &fleet{options: o, built: built}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.raise(ctx, end); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	failed := f.test(ctx)
	return errors.Join(failed, f.unharmed(ctx), context.Cause(ctx))
}
