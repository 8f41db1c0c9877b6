package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// start is how a `serve` starts that replaces another one.
type start struct {
	name    string
	prepare func(*fleet) error
	knows   bool  // what the lost member had
	lacks   phase // once the edges are in sync
}

var starts = []start{
	{"blank", (*fleet).blank, false, lacks},
	{"an hour old", (*fleet).goBack, true, joins},
}

// round replaces `serve` while the API of a member is lost, and heals it. The
// old proxies go on as if nothing was; a new one serves all that is known; hosts
// come, change and go; and afterwards all is as before.
func (f *fleet) round(ctx context.Context, s start, l loss) error {
	f.tell("%s, %s", s.name, l.name)
	w := f.watch(ctx)
	began := time.Now()
	err := f.lose(ctx, w, s, l)
	if err == nil {
		f.tell("  lived with it for %s", time.Since(began).Round(100*time.Millisecond))
		err = l.end(ctx, f)
	}
	if err == nil {
		err = await(ctx, "all to be as before", f.whole)
	}
	w.enter(runs)
	if err == nil { // and DNS still answers everything
		err = f.served(ctx)
	}
	return errors.Join(err, w.verdict())
}

// lose takes the API away and replaces `serve` and the Envoy of the fresh edge.
func (f *fleet) lose(ctx context.Context, w *watch, s start, l loss) error {
	w.enter(ends)
	if err := f.serve.Kill(); err != nil {
		return err
	}
	if err := errors.Join(l.begin(ctx, f), f.lab.KillEdge(ctx, f.fresh().Name), f.lab.Heal(ctx, f.fresh().Name), s.prepare(f), f.serve.Start()); err != nil {
		return err
	}
	if err := await(ctx, "the edges to be in sync", f.inSync); err != nil {
		return err
	}
	w.enter(s.lacks)
	for _, check := range []func(context.Context, start, loss) error{f.newServes, f.editable, f.reported} {
		if err := check(ctx, s, l); err != nil {
			return err
		}
		if s.knows {
			w.enter(runs) // the new proxy is in DNS
		}
	}
	return nil
}

// newServes waits until a new proxy serves all that `serve` knows, and DNS is
// sure of it. A host of which nothing is known is no host that nobody has.
func (f *fleet) newServes(ctx context.Context, s start, _ loss) error {
	for _, h := range f.hosts {
		known := s.knows || h.in(1)
		err := await(ctx, "the new proxy to answer for "+h.name, func(ctx context.Context) error {
			if !known {
				return status(ctx, f.fresh(), h.url(), http.StatusServiceUnavailable)
			}
			return answers(ctx, f.fresh(), h.url(), f.nearest(h, f.fresh()))
		})
		if err != nil {
			return err
		}
		if !known {
			continue // DNS and statuses do not say less: see watch
		}
		if err := await(ctx, "DNS and the status to have "+h.name, func(ctx context.Context) error { return f.told(ctx, h) }); err != nil {
			return err
		}
	}
	return nil
}

// editable has a Service and a host come, change and go.
func (f *fleet) editable(ctx context.Context, _ start, _ loss) error {
	const at = 1 // the member that has the Service
	late := host{"late", "late", func(i int) bool { return i == at }}
	everywhere := func(what string, check func(context.Context, *user.Edge) error) error {
		return await(ctx, what, func(ctx context.Context) (err error) {
			for _, e := range f.edges {
				err = errors.Join(err, check(ctx, e))
			}
			return err
		})
	}
	if err := errors.Join(write(ctx, f.members[at], serviceObject(late.service)), write(ctx, f.hub, ingressObject(late, "/"))); err != nil {
		return err
	}
	if err := everywhere("a new host to be served", func(ctx context.Context, e *user.Edge) error {
		return answers(ctx, e, late.url(), f.members[at].Name)
	}); err != nil {
		return err
	}
	if err := await(ctx, "DNS and the status to have the new host", func(ctx context.Context) error { return f.told(ctx, late) }); err != nil {
		return err
	}
	if err := write(ctx, f.hub, ingressObject(late, "/moved")); err != nil {
		return err
	}
	if err := everywhere("a route to move", func(ctx context.Context, e *user.Edge) error {
		return errors.Join(status(ctx, e, late.url(), http.StatusNotFound), answers(ctx, e, late.url()+"moved", f.members[at].Name))
	}); err != nil {
		return err
	}
	if err := errors.Join(f.hub.Delete(ctx, "Ingress", namespace, late.name), f.members[at].Delete(ctx, "Service", namespace, late.service)); err != nil {
		return err
	}
	return everywhere("a host to go", func(ctx context.Context, e *user.Edge) error {
		return status(ctx, e, late.url()+"moved", http.StatusNotFound)
	})
}

// reported waits until the status of the member says what is wrong with it, and
// since when what is known of it may be old.
func (f *fleet) reported(ctx context.Context, s start, l loss) error {
	return await(ctx, "the member's status to say what is wrong", func(ctx context.Context) error {
		if err := f.connected(ctx, lost, "False", l.reason); err != nil || !s.knows {
			return err
		}
		o, err := f.hub.Get(ctx, "MemberCluster", "", lost)
		if err != nil {
			return err
		}
		text, _, _ := unstructured.NestedString(o.Object, "status", "staleSince")
		since, err := time.Parse(time.RFC3339, text)
		if err == nil && time.Since(since) < hour {
			err = fmt.Errorf("staleSince is %s", text)
		}
		return err
	})
}
