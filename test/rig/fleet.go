package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
)

// Class is the name of the GatewayClass. Each of its Gateways has addresses of its own.
const Class = "gateway-conformance"

// Setting is what a fleet shall be.
type Setting struct {
	Spec    lab.Spec
	Manager string                              // field manager of what is written
	Install func(context.Context, *Fleet) error // writes what must be there before `serve` starts; may be nil
	Places  bool                                // DNS tells places apart
}

// Fleet is everything that runs.
type Fleet struct {
	Setting
	Lab   *lab.Lab
	Hub   *user.Cluster
	Admin *user.Admin // of `serve`

	serve *tied.Program
}

// Open makes a Cluster of a kubeconfig of the fleet.
func (f *Fleet) Open(name, kubeconfig string) (*user.Cluster, error) {
	return user.Author{Manager: f.Manager, Timeout: askTimeout, Warnings: true}.Open(name, kubeconfig)
}

// raise starts everything, and returns when the class is there and the proxies are.
func (f *Fleet) raise(ctx context.Context, admin string, end context.CancelCauseFunc) (err error) {
	if f.Lab, err = lab.Start(ctx, f.Spec, nil); err != nil {
		return err
	}
	f.Lab.Watch(ctx, end)
	f.Admin = &user.Admin{Address: admin, Client: &http.Client{Timeout: askTimeout}}
	if f.Hub, err = f.Open("the hub", f.Lab.HubKubeconfig()); err != nil {
		return err
	}
	if f.Install != nil {
		if err := f.Install(ctx, f); err != nil {
			return err
		}
	}
	if err := f.class(ctx); err != nil {
		return err
	}
	var more []string
	if f.Places {
		more = []string{"--places", f.Spec.PlacesFile()}
	}
	if f.serve, err = f.Spec.Serve(admin, end, more...); err != nil {
		return err
	}
	return errors.Join(f.serve.Start(), f.await(ctx, "the edges' streams", func(ctx context.Context) error {
		all, err := f.Admin.Streams(ctx)
		if err == nil && len(all) < len(f.Spec.Edges) {
			err = fmt.Errorf("%d streams of %d", len(all), len(f.Spec.Edges))
		}
		return err
	}))
}

// class applies the GatewayClass.
func (f *Fleet) class(ctx context.Context) error {
	config := user.Named(user.Ours.String(), "GatewayClassConfig", "", Class, user.Object{"spec": user.Object{"address": "Own"}})
	class := user.Named("gateway.networking.k8s.io/v1", "GatewayClass", "", Class, user.Object{"spec": user.Object{
		"controllerName": "spillway.dev/gateway",
		"parametersRef":  user.Object{"group": user.Ours.Group, "kind": "GatewayClassConfig", "name": Class},
	}})
	return errors.Join(f.apply(ctx, f.Hub, config), f.apply(ctx, f.Hub, class))
}

// Define applies all definitions of a folder to a cluster.
func (f *Fleet) Define(ctx context.Context, c *user.Cluster, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no definitions in %s: %w", folder, err)
	}
	for _, file := range files {
		objects, err := Documents(file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := f.apply(ctx, c, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// Documents are the objects of a file.
func Documents(file string) (out []user.Object, err error) {
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
func (f *Fleet) apply(ctx context.Context, c *user.Cluster, o user.Object) error {
	return f.await(ctx, c.Name+" to take an object", func(ctx context.Context) error { return c.Apply(ctx, o) })
}

func (f *Fleet) await(ctx context.Context, what string, check func(context.Context) error) error {
	return eventually.Patience{Most: patience, Poll: poll}.Await(ctx, what, check)
}

// unharmed is nil if nothing has ended by itself: what is started again at once hides
// what is wrong with it.
func (f *Fleet) unharmed(ctx context.Context) error {
	st, err := f.Lab.Status(ctx)
	if err != nil {
		return err
	}
	ended := func(what string, p lab.ProcessStatus) {
		if p.Restarts > 0 {
			err = errors.Join(err, fmt.Errorf("%s ended %d times by itself: %s", what, p.Restarts, p.LastExit))
		}
	}
	ended("the hub", st.Hub.Process)
	for _, e := range st.Edges {
		ended("Envoy of edge "+e.Name, e.Process)
	}
	for _, m := range st.Members {
		ended("the API server of "+m.Name, m.API.Process)
	}
	return err
}

// close ends everything, the control plane first.
func (f *Fleet) close() error {
	var errs []error
	if f.serve != nil {
		errs = append(errs, f.serve.Stop())
	}
	if f.Lab != nil {
		errs = append(errs, f.Lab.Close())
	}
	return errors.Join(errs...)
}
