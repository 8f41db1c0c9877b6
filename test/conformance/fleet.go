package main

import (
	"context"
	"net/netip"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/test/rig"
)

const (
	edge      = "edge"        // the one, and the place where the suite runs: its addresses are there
	addresses = 100           // for Gateways, each of which has one of its own
	unusable  = "203.0.113.9" // an address that no edge has (RFC 5737)
)

// tested is what runs against what.
type tested struct {
	options
	built built
}

// spec is one cluster, which is hub and member, and one edge: the suite writes all that
// it makes into one cluster.
func (t tested) spec() lab.Spec {
	s := t.Spec()
	s.Images = map[string]string{}
	for _, i := range t.built.images {
		s.Images[i] = t.built.echo
	}
	for _, i := range t.built.servers {
		s.Images[i] = t.built.dns
	}
	s.HubArgs, s.HubInPlaces = []string{"--gateway-api=false"}, true
	s.Members = []lab.MemberSpec{{Name: "one", Region: "eu", Zones: []string{"eu-a"}, OnHub: true}}
	s.Edges = []lab.EdgeSpec{{Name: edge, Region: "eu", Zone: "eu-a", Pool: addresses, OnRequest: 1}}
	return s
}

// setting has the definitions of the suite's version.
func (t tested) setting() rig.Setting {
	return rig.Setting{Spec: t.spec(), Manager: "spillway-conformance", Install: func(ctx context.Context, f *rig.Fleet) error {
		return f.Define(ctx, f.Hub, t.built.crds)
	}}
}

// onRequest is the address that only the Gateway gets that asks for it.
func (t tested) onRequest() netip.Addr {
	return t.spec().PoolOf(0)[addresses-1]
}
