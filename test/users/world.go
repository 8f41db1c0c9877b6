package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/pki"
	"github.com/spillway-dev/spillway/test/rig"
)

const (
	edge      = "edge"
	addresses = 40 // of its pool: each Gateway has one, and one that is left is not given away for a while
	httpPort  = 8080
	httpsPort = 8443
)

// Members, each with pods of a Service that no other has.
const (
	eu1 = "eu-1"
	eu2 = "eu-2"
)

// setting is a fleet of two members in one region, and an edge there.
func (o options) setting(context.Context) (rig.Setting, error) {
	s := o.Spec()
	s.Members = []lab.MemberSpec{
		{Name: eu1, Region: "eu", Zones: []string{"eu-a"}},
		{Name: eu2, Region: "eu", Zones: []string{"eu-b"}},
	}
	s.Edges = []lab.EdgeSpec{{Name: edge, Region: "eu", Zone: "eu-a", Pool: addresses, OnRequest: 1}}
	return rig.Setting{Spec: s, Manager: manager}, nil
}

// manager is the field manager of what we write as users.
const manager = "spillway-users"

// patience is for what must come; a slow machine is no failure.
var patience = eventually.Patience{Most: 2 * time.Minute, Poll: 20 * time.Millisecond}

// world is the fleet, with what users have in it.
type world struct {
	options
	*rig.Fleet
	said    *report
	members map[string]*user.Cluster
	ca      *pki.Pair
	doors   map[string]*user.Edge // Gateways as clients reach them
	serial  int64                 // of the last certificate
}

// open writes all objects that every part needs, and returns when they are served.
func (w *world) open(ctx context.Context, f *rig.Fleet) (err error) {
	if err := w.begin(f); err != nil {
		return err
	}
	if err := w.write(ctx); err != nil {
		return err
	}
	for _, name := range []string{mine, other} {
		if w.doors[name], err = w.door(ctx, name); err != nil {
			return err
		}
	}
	return w.served(ctx, append(w.bystanders(), w.weighted(), w.granted(), w.tenant(), w.secure(), w.edited())...)
}

// begin is what comes before any object.
func (w *world) begin(f *rig.Fleet) (err error) {
	w.Fleet, w.members, w.doors = f, map[string]*user.Cluster{}, map[string]*user.Edge{}
	for _, m := range f.Spec.Members {
		if w.members[m.Name], err = f.Open(m.Name, f.Lab.MemberKubeconfig(m.Name)); err != nil {
			return err
		}
	}
	w.ca, err = pki.Self(pki.Authority("users", 48*time.Hour))
	return err
}

func (w *world) close() {
	for _, d := range w.doors {
		d.Close()
	}
}

// write writes the objects of objects.go.
func (w *world) write(ctx context.Context) error {
	for _, o := range w.hubObjects() {
		if err := w.apply(ctx, w.Hub, o); err != nil {
			return err
		}
	}
	for _, host := range []string{secureHost, bystanderHost} {
		if err := w.certify(ctx, host); err != nil {
			return err
		}
	}
	return w.deploy(ctx, deployments)
}

// deploy has pods run in members.
func (w *world) deploy(ctx context.Context, all []deployment) error {
	for _, d := range all {
		for _, o := range d.objects() {
			if err := w.apply(ctx, w.members[d.member], o); err != nil {
				return err
			}
		}
	}
	for _, d := range all {
		if err := w.settled(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) apply(ctx context.Context, c *user.Cluster, o user.Object) error {
	return patience.Await(ctx, c.Name+" to take an object", func(ctx context.Context) error { return c.Apply(ctx, o) })
}

func (w *world) settled(ctx context.Context, d deployment) error {
	return patience.Await(ctx, fmt.Sprintf("the pods of %s in %s", d.name, d.member), func(ctx context.Context) error {
		return w.members[d.member].Settled(ctx, d.namespace, d.name)
	})
}

// certify writes the Secret of a host, with a new certificate.
func (w *world) certify(ctx context.Context, host string) error { return w.certifyAs(ctx, host, host) }

// certifyAs writes a Secret with a new certificate for several hosts.
func (w *world) certifyAs(ctx context.Context, name string, hosts ...string) error {
	w.serial++
	template := pki.Leaf(name, 24*time.Hour, x509.ExtKeyUsageServerAuth)
	template.SerialNumber, template.DNSNames = big.NewInt(w.serial), hosts
	pair, err := w.ca.Sign(template)
	if err != nil {
		return err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return err
	}
	return w.apply(ctx, w.Hub, secretObject(name, pair.CertPEM(), key))
}

// door returns a Gateway as clients reach it, when its status has an address.
func (w *world) door(ctx context.Context, gateway string) (out *user.Edge, err error) {
	return out, patience.Await(ctx, "an address of Gateway "+gateway, func(ctx context.Context) error {
		o, err := w.Hub.Get(ctx, "Gateway", own, gateway)
		if err != nil {
			return err
		}
		for _, a := range entries(o, "status", "addresses") {
			if ip, err := netip.ParseAddr(fmt.Sprint(a["value"])); err == nil && ip.Is4() {
				out = user.NewEdge("Gateway "+gateway, ip, httpPort, httpsPort, w.ca.Pool())
				return nil
			}
		}
		return errors.New("its status lists none")
	})
}

// entries are those of a list of an object.
func entries(o *unstructured.Unstructured, path ...string) (out []user.Object) {
	all, _, _ := unstructured.NestedSlice(o.Object, path...)
	for _, e := range all {
		if m, ok := e.(user.Object); ok {
			out = append(out, m)
		}
	}
	return out
}

// served returns when all targets are answered as they should be.
func (w *world) served(ctx context.Context, all ...*target) error {
	for _, t := range all {
		if _, err := t.becomes(ctx, t.usual...); err != nil {
			return err
		}
	}
	return nil
}
