package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	askTimeout = 10 * time.Second
	patience   = 2 * time.Minute // with the start
	poll       = 50 * time.Millisecond
	edge       = "edge"        // the one, and the place where the suite runs: its addresses are there
	addresses  = 100           // for Gateways, each of which has one of its own
	unusable   = "203.0.113.9" // an address that no edge has (RFC 5737)
	class      = "gateway-conformance"
)

var author = user.Author{Manager: "spillway-conformance", Timeout: askTimeout, Warnings: true}

// fleet is everything that runs.
type fleet struct {
	options
	built built
	lab   *lab.Lab
	serve *tied.Program
	hub   *user.Cluster
	admin *user.Admin
}

// spec is one cluster, which is hub and member, and one edge: the suite writes all that
// it makes into one cluster.
func (f *fleet) spec() lab.Spec {
	images := map[string]string{}
	for _, i := range f.built.images {
		images[i] = f.built.echo
	}
	for _, i := range f.built.servers {
		images[i] = f.built.dns
	}
	return lab.Spec{
		Dir: f.dir, Binary: f.binary, Loopback: f.loopback, XDSPort: f.xdsPort, DNSPort: f.dnsPort, Images: images,
		Hub: true, HubArgs: []string{"--gateway-api=false"}, HubInPlaces: true, Register: true,
		Members: []lab.MemberSpec{{Name: "one", Region: "eu", Zones: []string{"eu-a"}, OnHub: true}},
		Edges:   []lab.EdgeSpec{{Name: edge, Region: "eu", Zone: "eu-a", Pool: addresses, OnRequest: 1}},
	}
}

// onRequest is the address that only the Gateway gets that asks for it.
func (f *fleet) onRequest() netip.Addr {
	return f.spec().PoolOf(0)[addresses-1]
}

// raise starts everything, and returns when the class is accepted and the proxy there.
func (f *fleet) raise(ctx context.Context, end context.CancelCauseFunc) (err error) {
	spec := f.spec()
	if f.lab, err = lab.Start(ctx, spec, nil); err != nil {
		return err
	}
	f.lab.Watch(ctx, end)
	f.admin = &user.Admin{Address: f.options.admin, Client: &http.Client{Timeout: askTimeout}}
	if f.hub, err = author.Open("the hub", f.lab.HubKubeconfig()); err != nil {
		return err
	}
	if err := f.install(ctx); err != nil {
		return err
	}
	if f.serve, err = spec.Serve(f.options.admin, end); err != nil {
		return err
	}
	return errors.Join(f.serve.Start(), f.await(ctx, "the edge's stream", func(ctx context.Context) error {
		all, err := f.admin.Streams(ctx)
		if err == nil && len(all) == 0 {
			err = errors.New("no stream")
		}
		return err
	}))
}

// install applies the definitions of the suite's version, and the class.
func (f *fleet) install(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(f.built.crds, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no definitions in %s: %w", f.built.crds, err)
	}
	for _, file := range files {
		objects, err := documents(file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := f.apply(ctx, o); err != nil {
				return err
			}
		}
	}
	config := user.Named(user.Ours.String(), "GatewayClassConfig", "", class, user.Object{"spec": user.Object{"address": "Own"}})
	gatewayClass := user.Named("gateway.networking.k8s.io/v1", "GatewayClass", "", class, user.Object{"spec": user.Object{
		"controllerName": "spillway.dev/gateway",
		"parametersRef":  user.Object{"group": user.Ours.Group, "kind": "GatewayClassConfig", "name": class},
	}})
	return errors.Join(f.apply(ctx, config), f.apply(ctx, gatewayClass))
}

func documents(file string) (out []user.Object, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var o user.Object
		err := in.Decode(&o)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case o != nil:
			out = append(out, o)
		}
	}
}

// apply applies an object as soon as the API server takes it.
func (f *fleet) apply(ctx context.Context, o user.Object) error {
	return f.await(ctx, "the hub to take an object", func(ctx context.Context) error { return f.hub.Apply(ctx, o) })
}

func (f *fleet) await(ctx context.Context, what string, check func(context.Context) error) error {
	return eventually.Patience{Most: patience, Poll: poll}.Await(ctx, what, check)
}

// unharmed is nil if nothing has ended by itself: what is started again at once hides
// what is wrong with it.
func (f *fleet) unharmed(ctx context.Context) error {
	st, err := f.lab.Status(ctx)
	if err != nil {
		return err
	}
	if n := st.Edges[0].Process.Restarts; n > 0 {
		err = fmt.Errorf("the edge's Envoy ended %d times by itself: %s", n, st.Edges[0].Process.LastExit)
	}
	if n := st.Hub.Process.Restarts; n > 0 {
		err = errors.Join(err, fmt.Errorf("the hub ended %d times by itself: %s", n, st.Hub.Process.LastExit))
	}
	return err
}

// close ends everything, the control plane first.
func (f *fleet) close() error {
	var errs []error
	if f.serve != nil {
		errs = append(errs, f.serve.Stop())
	}
	if f.lab != nil {
		errs = append(errs, f.lab.Close())
	}
	return errors.Join(errs...)
}
