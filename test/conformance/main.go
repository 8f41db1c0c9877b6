// Command conformance runs the upstream conformance suite of the Gateway API against a
// fleet of the lab: one cluster that is hub and member, `spillway serve` and one edge
// with a real Envoy (docs/conformance.md).
//
// Exit code 1: a test failed, or something ended by itself; 3: this machine can't run
// a lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/test/rig"
)

// options are the flags.
type options struct {
	rig.Flags
	version  string
	profiles string
	more     []string // of the suite's own
}

func flags() options {
	var o options
	flag.StringVar(&o.version, "version", "1.6.3", "of the suite, and of the Gateway API: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	flag.StringVar(&o.profiles, "profiles", "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP", "conformance profiles")
	o.Define("HTTPRouteWeight", "test/conformance/reports")
	flag.Parse()
	o.more = flag.Args()
	return o
}

func main() {
	o := flags()
	o.Exit("conformance", func(ctx context.Context) error { return run(ctx, o) })
}

// run builds the suite, raises the fleet and has the one test the other.
func run(ctx context.Context, o options) error {
	v, ok := versions[o.version]
	if !ok {
		return fmt.Errorf("-version %s: there are %v", o.version, slices.Sorted(maps.Keys(versions)))
	}
	built, err := v.build(ctx)
	if err != nil {
		return err
	}
	t := tested{o, built}
	return o.With(ctx, t.setting(), t.test)
}
