package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// stages are the moments of a lab's start that somebody waits for.
type stages struct {
	mu      sync.Mutex
	reached map[string]chan struct{}
	after   map[string]time.Duration
}

func (s *stages) of(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached == nil {
		s.reached, s.after = map[string]chan struct{}{}, map[string]time.Duration{}
	}
	if s.reached[name] == nil {
		s.reached[name] = make(chan struct{})
	}
	return s.reached[name]
}

func (s *stages) reach(step lab.Step) {
	if c := s.of(step.Name); step.Done {
		s.mu.Lock()
		s.after[step.Name] = step.Elapsed
		s.mu.Unlock()
		close(c)
	}
}

// await waits until the lab has reached a step.
func (s *stages) await(ctx context.Context, name string) error {
	select {
	case <-s.of(name):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// raise starts everything, each part as soon as what it needs is there, and
// returns when requests are answered at both edges.
func (f *fleet) raise(ctx context.Context, s *scene) error {
	f.admin, f.members = newAdmin(f.opts.admin()), map[string]*user.Cluster{}
	var lock sync.Mutex
	var up stages
	all, inner := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		f.lab, err = lab.Start(inner, f.opts.spec(), func(step lab.Step) {
			f.tell.raising(step)
			up.reach(step)
		})
		return err
	})
	all.Go(func() error { return f.raiseControl(inner, &up) })
	for _, m := range f.opts.plot.members {
		all.Go(func() error {
			c, err := f.raiseMember(inner, &up, m)
			lock.Lock()
			defer lock.Unlock()
			f.members[m] = c
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	go f.watchLab(ctx)
	s.ms("hub_ms", up.after["hub"])
	s.ms("lab_ms", time.Since(f.began))
	if err := f.await(ctx, "the fleet to be whole", func(ctx context.Context) error { return f.opts.plot.whole(f, ctx) }); err != nil {
		return err
	}
	s.ms("ready_ms", time.Since(f.began))
	s.say("%s, from nothing to whole in %s", f.opts.plot.is, round(time.Since(f.began)))
	return nil
}

// watchLab ends the story when the lab ends before it.
func (f *fleet) watchLab(ctx context.Context) {
	select {
	case <-f.lab.Done():
		f.end(fmt.Errorf("the lab ended by itself: %s (log: %s)", tied.LastLine(f.path("logs", "lab.log")), f.path("logs", "lab.log")))
	case <-ctx.Done():
	}
}

// raiseControl starts the control plane and writes what a user writes on the
// hub. The lab has made folder and certificates before its hub is up.
func (f *fleet) raiseControl(ctx context.Context, up *stages) error {
	if err := up.await(ctx, "hub"); err != nil {
		return err
	}
	err := writePlaces(f.path("demo-places"), f.opts.plot.clients)
	if err != nil {
		return err
	}
	if f.serve, err = f.opts.spec().Serve(f.opts.admin(), func(err error) { f.end(err) }, "--places", f.path("demo-places")); err != nil {
		return err
	}
	if err := f.serve.Start(); err != nil {
		return err
	}
	if f.hub, err = author.Open("the hub", f.path("hub.kubeconfig")); err != nil {
		return err
	}
	return f.await(ctx, "the hub to take the examples", func(ctx context.Context) error { return apply(ctx, f.hub, f.opts.plot.onHub) })
}

func (f *fleet) raiseMember(ctx context.Context, up *stages, name string) (*user.Cluster, error) {
	if err := up.await(ctx, "member "+name); err != nil {
		return nil, err
	}
	c, err := author.Open(name, f.path("members", name+".kubeconfig"))
	if err != nil {
		return nil, err
	}
	return c, f.await(ctx, name+" to take examples/shop-member.yaml", func(ctx context.Context) error { return apply(ctx, c, examples.ShopMember) })
}
