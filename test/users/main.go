// Command users does with Gateways what users do and no conformance suite does, under
// load: a hub, two member clusters, `spillway serve` and one edge with a real Envoy, all
// of the lab (docs/users.md).
//
// Exit code 1: something did not hold, or something ended by itself; 3: this machine
// can't run a lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/test/rig"
)

// options are the flags.
type options struct {
	rig.Flags
	duration time.Duration
	rest     time.Duration
	rate     int
}

func flags() options {
	var o options
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long weights are stepped")
	flag.DurationVar(&o.rest, "rest", 20*time.Second, "how long no status may change")
	flag.IntVar(&o.rate, "rate", 200, "requests a second")
	o.Define("weights", "build/users")
	flag.Parse()
	return o
}

func main() {
	o := flags()
	o.Exit("users", func(ctx context.Context) error { return run(ctx, o) })
}

// part is one of what users do.
type part struct {
	name string
	run  func(*world, context.Context) error
}

// parts go one after another.
var parts = []part{
	{"weights", (*world).weights},
	{"revoked", (*world).revoked},
	{"controllers", (*world).controllers},
	{"rest", (*world).rest},
}

// asked are the parts that a run is of.
func (o options) asked() ([]part, error) {
	if o.Run == "" {
		return parts, nil
	}
	var names []string
	for _, p := range parts {
		if p.name == o.Run {
			return []part{p}, nil
		}
		names = append(names, p.name)
	}
	return nil, fmt.Errorf("-run %s: there are %s", o.Run, strings.Join(names, ", "))
}

// run raises the fleet and has all parts done, unless one fails: what it left behind
// would be blamed on the next.
func run(ctx context.Context, o options) error {
	asked, err := o.asked()
	if err != nil {
		return err
	}
	w := &world{options: o, said: &report{}}
	return o.With(ctx, o.setting(), func(ctx context.Context, f *rig.Fleet) error {
		if err := w.open(ctx, f); err != nil {
			return err
		}
		defer w.close()
		for _, p := range asked {
			w.said.part(p.name)
			if err := p.run(w, ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		if !slices.Equal(w.said.parts, names(parts)) {
			return nil
		}
		return rig.Keep(o.Reports, "users.txt", "# Written by `make users`.\n", w.said.text)
	})
}

func names(all []part) (out []string) {
	for _, p := range all {
		out = append(out, p.name)
	}
	return out
}
