// Package rig is what programs share that run a conformance suite, or do what users do,
// against a fleet of the lab: flags, the fleet with `spillway serve`, and what is told of
// tests that failed.
package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spillway-dev/spillway/internal/lab"
)

// Flags are those of such a program.
type Flags struct {
	Run     string // one test
	Dir     string
	Binary  string
	Reports string

	loopback string
	xdsPort  int
	dnsPort  int
	admin    string
}

// Define defines them. example is the name of a test, reports the usual folder of reports.
func (f *Flags) Define(example, reports string) {
	flag.StringVar(&f.Run, "run", "", "one test by its name, such as "+example+"; no report is written")
	flag.StringVar(&f.Dir, "dir", ".lab", "folder of the lab: kubeconfigs, certificates, logs")
	flag.StringVar(&f.Binary, "binary", "bin/spillway", "spillway itself")
	flag.StringVar(&f.Reports, "reports", reports, "folder of reports")
	flag.StringVar(&f.loopback, "loopback", "127.0", "part of the loopback for edges' addresses; labs beside each other need their own")
	flag.IntVar(&f.xdsPort, "xds-port", 18000, "port of `spillway serve` for edges, on 127.0.0.1")
	flag.IntVar(&f.dnsPort, "dns-port", 1053, "port of our DNS server, on 127.0.0.1")
	flag.StringVar(&f.admin, "admin-address", "127.0.0.1:18080", "admin listener of `spillway serve`")
}

// Spec is a lab with a hub, which all else is registered on, where the flags say. Members,
// edges and images are up to the program.
func (f *Flags) Spec() lab.Spec {
	return lab.Spec{Dir: f.Dir, Binary: f.Binary, Loopback: f.loopback, XDSPort: f.xdsPort, DNSPort: f.dnsPort, Hub: true, Register: true}
}

// SuiteLog is where all is that the suite says.
func (f *Flags) SuiteLog() string { return filepath.Join(f.Dir, "logs", "suite.log") }

// Exit runs the program, which ends with a signal, too, and exits as a lab does.
func (f *Flags) Exit(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v (logs: %s/logs)\n", name, err, f.Dir)
		os.Exit(lab.ExitCode(err))
	}
}

// With raises a fleet, has it used, and ends it. The error is also of what ended by itself
// meanwhile.
func (f *Flags) With(ctx context.Context, s Setting, use func(context.Context, *Fleet) error) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	fleet := &Fleet{Setting: s}
	defer func() { err = errors.Join(err, fleet.close()) }()
	if err := fleet.raise(ctx, f.admin, end); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	failed := use(ctx, fleet)
	return errors.Join(failed, fleet.unharmed(ctx), context.Cause(ctx))
}
