// Command soak runs a fleet of the lab (hub, members, Envoys, `spillway serve`,
// all real processes) under a steady load for a while, and meanwhile edits
// hosts and routes, churns pods, rotates certificates, kills control planes and
// writes bad objects, as a printed seed says. A request fails when its answer is
// not one that the objects on the hub allow at that time. docs/soak.md says
// more; -doc writes the report into that page.
//
// -lanes leaves some of that out. SIGUSR1 ends it before its time, as if it
// were over.
//
// Exit code 1: a request failed, a process ended by itself, or what must come
// did not come; 3: this machine can't run a lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

// options are the flags.
type options struct {
	duration time.Duration
	rate     int
	seed     uint64
	routes   int
	dir      string
	binary   string
	other    string
	lanes    string
	out      string
	doc      string

	loopback string
	xdsPort  int
	dnsPort  int
	admin    string
}

func flags() options {
	var o options
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long edits, churn and faults go on")
	flag.IntVar(&o.rate, "rate", 500, "requests a second")
	flag.Uint64Var(&o.seed, "seed", 0, "what decides about edits, churn, faults and requests; 0: a random one")
	flag.IntVar(&o.routes, "routes", 0, "hosts that are added one after another under the same load, when the rest is over")
	flag.StringVar(&o.dir, "dir", ".lab", "folder of the lab: kubeconfigs, certificates, logs")
	flag.StringVar(&o.binary, "binary", "bin/spillway", "spillway itself")
	flag.StringVar(&o.other, "other", "", "spillway of another version: `serve` begins as that one, and each start of it is of the one that did not run before")
	flag.StringVar(&o.lanes, "lanes", "edits,gateways,pods,faults", "what goes on under load")
	flag.StringVar(&o.out, "out", "build/soak.json", "file to write the report to")
	flag.StringVar(&o.doc, "doc", "", "page to write the report into, such as docs/soak.md; empty: none")
	flag.StringVar(&o.loopback, "loopback", "127.0", "part of the loopback for edges' addresses; labs beside each other need their own")
	flag.IntVar(&o.xdsPort, "xds-port", 18000, "port of `spillway serve` for edges, on 127.0.0.1")
	flag.IntVar(&o.dnsPort, "dns-port", 1053, "port of our DNS server, on 127.0.0.1")
	flag.StringVar(&o.admin, "admin-address", "127.0.0.1:18080", "admin listener of `spillway serve`")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	return o
}

func main() {
	o := flags()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	fmt.Printf("soak: %s at %d requests a second, seed %d\n", o.duration, o.rate, o.seed)
	if err := interruptible(o); err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\nagain with: make soak SOAK=\"%s\"\n", err, o.again())
		os.Exit(lab.ExitCode(err))
	}
}

// check is nil if there is every lane that is asked for.
func (o options) check() error {
	for _, name := range strings.Split(o.lanes, ",") {
		if !slices.ContainsFunc(lanes, func(l lane) bool { return l.name == name }) {
			return fmt.Errorf("-lanes %s: there is no %q; there are edits, gateways, pods and faults", o.lanes, name)
		}
	}
	return nil
}

// goes tells whether a lane is asked for.
func (o options) goes(l lane) bool { return slices.Contains(strings.Split(o.lanes, ","), l.name) }

// again are the flags of a run that does the same.
func (o options) again() string {
	flags := fmt.Sprintf("-duration %s -rate %d -routes %d -lanes %s -seed %d", o.duration, o.rate, o.routes, o.lanes, o.seed)
	if o.other != "" {
		flags += " -other " + o.other
	}
	return flags
}

func interruptible(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, o)
}
