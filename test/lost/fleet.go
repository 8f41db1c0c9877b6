package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	askTimeout = 10 * time.Second // of a request to an API server, DNS or an admin listener
	patience   = 4 * time.Minute  // with whatever must come: a slow machine is no failure
	poll       = 50 * time.Millisecond
	fewest     = 5 // members
)

var author = user.Author{Manager: "spillway-lost", Timeout: askTimeout, Warnings: true}

// fleet is everything that runs, and how to look at it and break it.
type fleet struct {
	options
	began   time.Time
	lab     *lab.Lab
	serve   *tied.Program
	hub     *user.Cluster
	members []*user.Cluster // the first loses its API
	edges   []*user.Edge    // the last one's Envoy is replaced with each `serve`, the others' run from the beginning to the end
	admin   *user.Admin
	hosts   []host // that there are
}

// spec is a fleet whose members are near one edge after another, each farther
// than the one before: members of one region would share the requests.
func (o options) spec() lab.Spec {
	s := lab.DefaultSpec()
	s.Dir, s.Binary, s.Loopback, s.XDSPort, s.DNSPort = o.dir, o.binary, o.loopback, o.xdsPort, o.dnsPort
	s.Members = nil
	s.Edges = append(s.Edges, lab.EdgeSpec{Name: "ap", Place: "sin", Region: "ap", Zone: "ap-a", Latitude: 1.35, Longitude: 103.82})
	for i := range o.members {
		e := s.Edges[i%len(s.Edges)]
		name := fmt.Sprintf("m-%02d", i+1)
		s.Members = append(s.Members, lab.MemberSpec{Name: name, Region: name, Latitude: e.Latitude + float64(i), Longitude: e.Longitude})
	}
	return s
}

// raise starts everything, and returns when all is as it should be.
func (f *fleet) raise(ctx context.Context, end context.CancelCauseFunc) (err error) {
	spec := f.spec()
	if f.lab, err = lab.Start(ctx, spec, nil); err != nil {
		return err
	}
	f.lab.Watch(ctx, end)
	f.tell("a hub, %d members and %d edges run", len(spec.Members), len(spec.Edges))
	f.admin = &user.Admin{Address: f.options.admin, Client: &http.Client{Timeout: askTimeout}}
	if f.hub, err = author.Open("the hub", f.lab.HubKubeconfig()); err != nil {
		return err
	}
	for _, m := range spec.Members {
		c, err := author.Open(m.Name, f.lab.MemberKubeconfig(m.Name))
		if err != nil {
			return err
		}
		f.members = append(f.members, c)
	}
	for _, e := range spec.Edges {
		f.edges = append(f.edges, f.lab.Edge(e.Name, nil))
	}
	if f.serve, err = spec.Serve(f.options.admin, end); err != nil {
		return err
	}
	if err := errors.Join(f.lessTrusted(ctx), f.allEdges(ctx), f.furnish(ctx), f.serve.Start()); err != nil {
		return err
	}
	return await(ctx, "the fleet to be whole", f.whole)
}

// allEdges has each answer of DNS name all edges: so one that is missing is seen.
func (f *fleet) allEdges(ctx context.Context) error {
	return f.hub.Patch(ctx, "DNSZone", lab.SystemNamespace, "example", object{"spec": object{"answersPerQuery": len(f.edges)}})
}

// furnish writes what users have.
func (f *fleet) furnish(ctx context.Context) error {
	all, inner := errgroup.WithContext(ctx)
	for i, c := range f.members {
		all.Go(func() error {
			objects := []object{namespaceObject(), deploymentObject(1)}
			for _, h := range f.hosts {
				if h.in(i) {
					objects = append(objects, serviceObject(h.service))
				}
			}
			return write(inner, c, objects...)
		})
	}
	all.Go(func() error {
		objects := []object{namespaceObject()}
		for _, h := range f.hosts {
			objects = append(objects, ingressObject(h, "/"))
		}
		return write(inner, f.hub, objects...)
	})
	return all.Wait()
}

// close ends everything, the control plane first.
func (f *fleet) close() error {
	var errs []error
	for _, e := range f.edges {
		e.Close()
	}
	if f.serve != nil {
		errs = append(errs, f.serve.Stop())
	}
	if f.lab != nil {
		errs = append(errs, f.lab.Close(), os.RemoveAll(f.state()), os.RemoveAll(f.copied()))
	}
	return errors.Join(errs...)
}

// old are the edges whose proxies are, fresh the one whose proxy is new.
func (f *fleet) old() []*user.Edge { return f.edges[:len(f.edges)-1] }
func (f *fleet) fresh() *user.Edge { return f.edges[len(f.edges)-1] }

func (f *fleet) state() string  { return filepath.Join(f.lab.Dir(), "state") }
func (f *fleet) copied() string { return filepath.Join(f.lab.Dir(), "state-of-an-hour-ago") }

// blank has `serve` start without a folder for a checkpoint from now on.
func (f *fleet) blank() error {
	if i := slices.Index(f.serve.Args, "--state-dir"); i >= 0 {
		f.serve.Args = slices.Delete(slices.Clone(f.serve.Args), i, i+2)
	}
	return nil
}

// processes are those that nobody may end: all but `serve`, the Envoy that is
// replaced and the API server that is killed.
func (f *fleet) processes(ctx context.Context) (out []string, err error) {
	st, err := f.lab.Status(ctx)
	if err != nil {
		return nil, err
	}
	for i, m := range st.Members {
		if i > 0 {
			out = append(out, fmt.Sprintf("%s: %d", m.Name, m.API.Process.PID))
		}
	}
	for _, e := range st.Edges[:len(f.old())] {
		out = append(out, fmt.Sprintf("Envoy %s: %d", e.Name, e.Process.PID))
	}
	return append(out, fmt.Sprintf("hub: %d", st.Hub.Process.PID)), nil
}

func (f *fleet) tell(format string, args ...any) {
	fmt.Printf("%8s  %s\n", time.Since(f.began).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// await asks until check is content.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	return eventually.Patience{Most: patience, Poll: poll}.Await(ctx, what, check)
}

// write applies objects, as soon as the API server takes them.
func write(ctx context.Context, c *user.Cluster, objects ...object) error {
	for _, o := range objects {
		if err := await(ctx, c.Name+" to take an object", func(ctx context.Context) error { return c.Apply(ctx, o) }); err != nil {
			return err
		}
	}
	return nil
}
