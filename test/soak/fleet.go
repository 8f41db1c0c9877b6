package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	// askTimeout ends a request to an API server, which may be cut or dead.
	askTimeout = 5 * time.Second
	// ownAddresses are in the pool of each edge: one for each Gateway that may have some,
	// and one more. What a Gateway left stays its own for a while.
	ownAddresses = 4
)

var author = user.Author{Manager: "spillway-soak", Timeout: askTimeout} // nonsense is written on purpose: no warnings

// fleet is everything that runs, and how to look at it and break it.
type fleet struct {
	lab     *lab.Lab
	serve   *tied.Program
	next    string // program of the next start of serve
	hub     *user.Cluster
	members []*user.Cluster
	fronts  []*user.Edge
	ca      *ca
	admin   *user.Admin
}

// raise starts everything but the objects; close ends it, also what an error
// left half done. fail is told when something ends by itself.
func (f *fleet) raise(ctx context.Context, o options, fail func(error)) (err error) {
	if f.ca, err = newCA(); err != nil {
		return err
	}
	f.admin = &user.Admin{Address: o.admin, Client: &http.Client{Timeout: askTimeout}}
	spec := lab.DefaultSpec()
	spec.Dir, spec.Binary, spec.Loopback, spec.XDSPort, spec.DNSPort = o.dir, o.binary, o.loopback, o.xdsPort, o.dnsPort
	for i := range spec.Edges {
		spec.Edges[i].Pool = ownAddresses
	}
	if f.lab, err = lab.Start(ctx, spec, nil); err != nil {
		return err
	}
	f.lab.Watch(ctx, fail)
	if f.serve, err = spec.Serve(f.admin.Address, fail); err != nil {
		return err
	}
	f.next = o.binary
	if o.other != "" {
		f.serve.Path = o.other
	}
	if err := f.serve.Start(); err != nil {
		return err
	}
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
		f.fronts = append(f.fronts, f.lab.Edge(e.Name, f.ca.pool))
	}
	return nil
}

// alternate makes the next start of the control plane, which does not run now,
// one of the version that did not run. Both have the same state.
func (f *fleet) alternate() (path string) {
	f.serve.Path, f.next = f.next, f.serve.Path
	return f.serve.Path
}

// close ends everything, the control plane first.
func (f *fleet) close() error {
	var errs []error
	for _, x := range f.fronts {
		x.Close()
	}
	if f.serve != nil {
		errs = append(errs, f.serve.Stop())
	}
	if f.lab != nil {
		errs = append(errs, f.lab.Close(), os.RemoveAll(filepath.Join(f.lab.Dir(), "state")))
	}
	return errors.Join(errs...)
}

var (
	patience = eventually.Patience{Most: 2 * time.Minute, Poll: 20 * time.Millisecond}
	// leisure is for a page that may be large: there may be many findings.
	leisure = eventually.Patience{Most: patience.Most, Poll: 500 * time.Millisecond}
)

// await asks until check is content.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	return patience.Await(ctx, what, check)
}

// write applies objects, however long the API server is away.
func write(ctx context.Context, c *user.Cluster, objects ...object) error {
	for _, o := range objects {
		if err := await(ctx, c.Name+" to take an object", func(ctx context.Context) error { return c.Apply(ctx, o) }); err != nil {
			return err
		}
	}
	return nil
}

// erase deletes an object, however long the API server is away.
func erase(ctx context.Context, c *user.Cluster, kind, namespace, name string) error {
	return await(ctx, c.Name+" to delete an object", func(ctx context.Context) error { return c.Delete(ctx, kind, namespace, name) })
}

// inARow is how many answers say that one of two Services gets nothing any more.
const inARow = 24

// answers waits until a target is answered so at every edge. Where several Services had a
// share of the requests, one answer says nothing.
func (f *fleet) answers(ctx context.Context, t *target, want ...string) error {
	times := 1
	if slices.ContainsFunc(t.now(), func(a string) bool { return !slices.Contains(want, a) && strings.HasPrefix(a, served("")) }) {
		times = inARow
	}
	for _, x := range f.fronts {
		if err := await(ctx, fmt.Sprintf("%s to be %q at edge %s", t, want, x.Name), func(ctx context.Context) error {
			for range times {
				if got := answer(user.Request{Edge: x, URL: t.String(), Fresh: true}.Send(ctx)); !slices.Contains(want, got) {
					return fmt.Errorf("it is %s", got)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// found waits for a finding about an object.
func (f *fleet) found(ctx context.Context, object, reason string) error {
	return leisure.Await(ctx, fmt.Sprintf("a finding %s about %s", reason, object), func(ctx context.Context) error {
		all, err := f.admin.Findings(ctx)
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.Reason == reason && strings.Contains(one.Object, object) {
				return nil
			}
		}
		return fmt.Errorf("there are %d, first %v", len(all), all[:min(len(all), mentioned)])
	})
}

// inSync is nil when every edge has one stream that acknowledged all.
func (f *fleet) inSync(ctx context.Context) error {
	streams, err := f.admin.Streams(ctx)
	if err != nil {
		return err
	}
	in := map[string]bool{}
	for _, s := range streams {
		in[s.Edge] = in[s.Edge] || s.InSync
	}
	for _, x := range f.fronts {
		if !in[x.Name] {
			return fmt.Errorf("edge %s is not in sync: %+v", x.Name, streams)
		}
	}
	return nil
}
