// Command multicluster runs our multi-cluster conformance suite (test/multicluster/suite)
// against a fleet of the lab: a hub, three member clusters, `spillway serve` and one edge
// with a real Envoy, where each Gateway has an address of its own (docs/multicluster.md).
//
// Exit code 1: a test failed, or something ended by itself; 3: this machine can't run
// a lab.
package main

import (
	"context"
	"flag"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/test/rig"
)

// own are the suite's features that Spillway has and that upstream has no name for.
var own = []string{"ServiceInMembers", "ServiceImport", "ServiceImportByHand"}

// options are the flags.
type options struct {
	rig.Flags
	features string
	more     []string // of the suite's own
}

func flags() options {
	var o options
	flag.StringVar(&o.features, "features", strings.Join(slices.Concat(model.Features(), own), ","), "that the suite tests")
	o.Define("FailoverToOtherMember", "test/multicluster/reports")
	flag.Parse()
	o.more = flag.Args()
	return o
}

func main() {
	o := flags()
	o.Exit("multicluster", func(ctx context.Context) error { return run(ctx, o) })
}

// run builds the suite, raises the fleet and has the one test the other.
func run(ctx context.Context, o options) error {
	program, err := build(ctx)
	if err != nil {
		return err
	}
	t := tested{options: o, program: program}
	return o.With(ctx, t.setting(), t.test)
}

// addresses are for Gateways. One that is left is not given away for a while.
const addresses = 100

// spec is three members in two regions, and an edge in one of these.
func (o *options) spec() lab.Spec {
	s := o.Spec()
	s.Members = []lab.MemberSpec{
		{Name: "eu-1", Region: "eu", Zones: []string{"eu-a"}},
		{Name: "eu-2", Region: "eu", Zones: []string{"eu-b"}},
		{Name: "us-1", Region: "us", Zones: []string{"us-a"}},
	}
	s.Edges = []lab.EdgeSpec{{Name: "edge", Region: "eu", Zone: "eu-a", Pool: addresses}}
	return s
}
