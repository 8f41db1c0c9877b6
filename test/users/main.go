// Command users does with Gateways what users do and no conformance suite does, under
// load: a hub, member clusters, `spillway serve` and edges with real Envoys, all of the
// lab (docs/users.md).
//
// Exit code 1: something did not hold, or something ended by itself; 3: this machine
// can't run a lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/test/rig"
	"github.com/spillway-dev/spillway/test/users/example"
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
	if len(os.Args) == 2 && os.Args[1] == askInPlace { // started by the part examples
		if err := example.Serve(context.Background(), os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	o := flags()
	o.Exit("users", func(ctx context.Context) error { return run(ctx, o) })
}

// part is one of what users do.
type part struct {
	name string
	run  func(*world, context.Context) error
}

// stage is a fleet, and the parts that go one after another in it.
type stage struct {
	parts   []part
	onAsk   bool // none of it runs unless it is asked for by its name
	setting func(options, context.Context) (rig.Setting, error)
	open    func(*world, context.Context, *rig.Fleet) error
}

var stages = []stage{
	{
		parts: []part{
			{"weights", (*world).weights},
			{"revoked", (*world).revoked},
			{"controllers", (*world).controllers},
			{"rest", (*world).rest},
			{"coalescing", (*world).coalescing},
			{"examples", (*world).examples},
		},
		setting: options.setting, open: (*world).open,
	},
	{
		parts:   []part{{"acme", (*world).acme}},
		onAsk:   true,
		setting: options.acmeSetting, open: (*world).openACME,
	},
}

// asked are the stages of a run, with the parts that it is of.
func (o options) asked() (out []stage, err error) {
	var known []string
	for _, s := range stages {
		if o.Run == "" && !s.onAsk {
			out = append(out, s)
		}
		for _, p := range s.parts {
			known = append(known, p.name)
			if p.name == o.Run {
				s.parts = []part{p}
				return []stage{s}, nil
			}
		}
	}
	if o.Run != "" {
		return nil, fmt.Errorf("-run %s: there are %s", o.Run, strings.Join(known, ", "))
	}
	return out, nil
}

// run has all parts done, unless one fails: what it left behind would be blamed on the
// next.
func run(ctx context.Context, o options) error {
	asked, err := o.asked()
	if err != nil {
		return err
	}
	said := &report{}
	for _, s := range asked {
		if err := s.run(ctx, o, said); err != nil {
			return err
		}
	}
	if o.Run != "" {
		return nil
	}
	return rig.Keep(o.Reports, "users.txt", "# Written by `make users`.\n", said.text)
}

// run raises the fleet of a stage and has its parts done.
func (s stage) run(ctx context.Context, o options, said *report) error {
	setting, err := s.setting(o, ctx)
	if err != nil {
		return err
	}
	w := &world{options: o, said: said}
	return o.With(ctx, setting, func(ctx context.Context, f *rig.Fleet) error {
		defer w.close()
		if err := s.open(w, ctx, f); err != nil {
			return err
		}
		for _, p := range s.parts {
			w.said.part(p.name)
			if err := p.run(w, ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
}
