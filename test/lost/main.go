// Command lost runs a fleet of the lab with many members and takes the API of
// one of them away, in each way that there is (see losses), while `spillway
// serve` is replaced: by one without a checkpoint, and by one whose checkpoint
// is an hour old. The pods of the member go on. What must hold then, for
// proxies old and new, DNS and statuses, is in round; docs/lab.md says how to
// run it.
//
// Exit code 1: it did not hold; 3: this machine can't run a lab.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	members  int
	only     string
	dir      string
	binary   string
	loopback string
	xdsPort  int
	dnsPort  int
	admin    string
}

func flags() options {
	var o options
	flag.IntVar(&o.members, "members", 20, "members of the fleet, at least 4; some 240 MB each")
	flag.StringVar(&o.only, "only", "", "rounds to run, by a part of their names, such as \"silent\" or \"blank, down\"; empty: all")
	flag.StringVar(&o.dir, "dir", ".lab", "folder of the lab: kubeconfigs, certificates, logs")
	flag.StringVar(&o.binary, "binary", "bin/spillway", "spillway itself")
	flag.StringVar(&o.loopback, "loopback", "127.0", "part of the loopback for edges' addresses; labs beside each other need their own")
	flag.IntVar(&o.xdsPort, "xds-port", 18000, "port of `spillway serve` for edges, on 127.0.0.1")
	flag.IntVar(&o.dnsPort, "dns-port", 1053, "port of our DNS server, on 127.0.0.1")
	flag.StringVar(&o.admin, "admin-address", "127.0.0.1:18080", "admin listener of `spillway serve`")
	flag.Parse()
	return o
}

func main() {
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "lost: %v (logs: %s/logs)\n", err, o.dir)
		os.Exit(lab.ExitCode(err))
	}
}

// run raises the fleet, lets an hour pass for its checkpoint, and runs a round
// for each start and each loss.
func run(ctx context.Context, o options) (err error) {
	if o.members < fewest {
		return fmt.Errorf("-members %d: use at least %d", o.members, fewest)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := &fleet{options: o, began: time.Now(), hosts: hosts}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.raise(ctx, end); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if err := f.hour(ctx); err != nil {
		return fmt.Errorf("an hour passes: %w", errors.Join(err, context.Cause(ctx)))
	}
	before, err := f.processes(ctx)
	if err != nil {
		return err
	}
	for _, s := range starts {
		for _, l := range losses {
			name := s.name + ", " + l.name
			if !strings.Contains(name, o.only) {
				continue
			}
			if err := f.round(ctx, s, l); err != nil {
				return fmt.Errorf("%s: %w", name, errors.Join(err, context.Cause(ctx)))
			}
		}
	}
	after, err := f.processes(ctx)
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("a process ended by itself: before %v, after %v", before, after)
	}
	f.tell("%d members, all rounds passed", o.members)
	return err
}
