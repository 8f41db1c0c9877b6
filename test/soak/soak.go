package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// soak is a run.
type soak struct {
	*fleet
	options options
	diary   *diary
	load    *load
	steady  []*site // never edited
	secure  []*site // on HTTPS too; only their certificates change
	edited  []*site // always there, with other routes
	comers  []*site // there and not there
	bad     *target // what mistakes are about

	routed   []*site // as edited, with HTTPRoutes of the gate
	passers  []*site // as comers
	extra    *target // of a listener of the gate that comes and goes
	sets     *target // of its ListenerSet
	mover    *target // of a Gateway that has addresses of its own, in turns
	listener bool    // whether each of these is there
	set, own bool
	beside   *beside

	lasting *lasting
	memory  *memory

	mu sync.Mutex // for out

	// held is by who needs the hub to put an end to what proxies refuse, and by who takes
	// the hub away until they refuse nothing.
	held sync.Mutex
}

// warm is how long there is load before anything happens and after it is over.
const warm = 5 * time.Second

// run does it all and writes the report, also when something failed.
func run(ctx context.Context, o options) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := &soak{fleet: &fleet{}, options: o}
	r := newReport(o)
	err := s.raise(ctx, o, func(err error) { end(err) })
	if err == nil {
		err = s.under(ctx, r)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w; %w", cause, err)
	}
	end(nil)
	err = errors.Join(err, s.close())
	if s.load == nil {
		return err // nothing to report about
	}
	r.finish(s, err)
	return errors.Join(err, r.verdict(), r.write(o.out), r.document(o.doc))
}

// under writes what there is to ask for, and runs everything under load.
func (s *soak) under(ctx context.Context, r *report) error {
	now := time.Now()
	s.diary = &diary{began: now, counts: map[string]*count{}}
	s.sites()
	s.tell("%-12s a hub, %d members, %d edges and the control plane run", "ready", len(s.members), len(s.fronts))
	if err := s.prepare(ctx); err != nil {
		return err
	}
	var err error
	if s.lasting, err = s.newLasting(ctx); err != nil {
		return err
	}
	s.load = s.newLoad()
	stop, over := context.WithCancel(context.WithoutCancel(ctx))
	var sending sync.WaitGroup
	s.beside.load = s.load
	sending.Go(func() { s.load.Run(stop) })
	sending.Go(func() { s.beside.run(stop) })
	s.memory = &memory{}
	sending.Go(func() { s.memory.sample(stop, s.fleet) })
	sending.Go(func() { s.lasting.watch(stop) })
	sending.Go(func() { s.lasting.resolve(stop) })
	err = s.happen(ctx, r)
	over()
	sending.Wait()
	return err
}

// sites says which hosts there are and what may be asked for.
func (s *soak) sites() {
	some := func(kind string, n int, tls func(int) bool) (out []*site) {
		for i := range n {
			out = append(out, newSite(kind, i, tls(i)))
		}
		return out
	}
	never, always, half := func(int) bool { return false }, func(int) bool { return true }, func(i int) bool { return i%2 == 0 }
	s.steady, s.secure = some("steady", 4, never), some("secure", 2, always)
	s.edited, s.comers = some("edited", 4, half), some("comer", 8, half)
	s.bad = newTarget(badHost, "/", false, notFound)
	for i := range 4 {
		s.routed, s.passers = append(s.routed, newRouted("routed", i, i%2 == 0)), append(s.passers, newRouted("passer", i, i%2 == 0))
	}
	s.extra, s.sets, s.mover = newAttached("extra"), newAttached(setName), newAttached(moverName)
	http, https := s.lab.EdgePorts(s.fronts[0].Name)
	s.beside = &beside{streams: newStreams(), http: uint16(http), https: uint16(https), home: newTarget(moverHost, "/", false, served(workloads[0]))}
}

func targetsOf(sites []*site) (out []*target) {
	for _, x := range sites {
		out = append(out, x.targets...)
	}
	return out
}

func (s *soak) newLoad() *load {
	l := &load{
		Load:  user.Load{Rate: s.options.rate, Room: inFlight},
		edges: s.fronts, rng: rand.New(rand.NewPCG(s.options.seed, 0)), began: s.diary.began, doing: s.diary.doing,
		excuse: s.blind,
		groups: []group{
			{"steady", 30, targetsOf(s.steady)}, {"secure", 25, targetsOf(s.secure)}, {"edited", 20, targetsOf(s.edited)},
			{"comers", 20, targetsOf(s.comers)}, {"bad", 5, []*target{s.bad}},
			{"routed", 30, targetsOf(s.routed)}, {"passers", 15, targetsOf(s.passers)}, {"attached", 15, []*target{s.extra, s.sets, s.mover}},
		},
	}
	l.Draw = l.draw
	return l
}

// blind tells whether pods ended while nobody could tell the edges. A POST that
// meets the end of a pod's connection then can't be saved: it may have been
// acted on, so no proxy may send it again (RFC 9110, 9.2.2).
func (s *soak) blind(sent, done time.Time) bool {
	of := func(ops []op, blind bool) func(string) bool {
		return func(kind string) bool {
			for _, o := range ops {
				if o.name == kind && o.blind == blind {
					return true
				}
			}
			return false
		}
	}
	return s.diary.overlaps(sent, done, of(faults, true)) && s.diary.overlaps(sent, done, of(churn, false))
}

// prepare writes what is there at first and waits until it is served.
func (s *soak) prepare(ctx context.Context) error {
	all, inner := errgroup.WithContext(ctx)
	for _, c := range s.members {
		all.Go(func() error {
			if err := write(inner, c, namespaceObject()); err != nil {
				return err
			}
			for _, w := range workloads {
				if err := write(inner, c, workloadObjects(w)...); err != nil {
					return err
				}
			}
			for _, w := range workloads {
				if err := s.settled(inner, c, w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(all.Wait(), write(ctx, s.hub, namespaceObject())); err != nil {
		return err
	}
	for _, sites := range [][]*site{s.steady, s.secure, s.edited} {
		for _, x := range sites {
			if x.secret != "" {
				p, err := s.ca.sign(x.host)
				if err != nil {
					return err
				}
				if err := write(ctx, s.hub, secretObject(x.secret, p)); err != nil {
					return err
				}
			}
			if err := s.become(ctx, x, routes{"/": workloads[0]}); err != nil {
				return err
			}
		}
	}
	if err := s.prepareGateways(ctx); err != nil {
		return err
	}
	for _, t := range append(append(targetsOf(s.comers), targetsOf(s.passers)...), s.bad) {
		if err := s.answers(ctx, t, t.now()...); err != nil {
			return err
		}
	}
	user.Rest(ctx, lag) // until what was right before is wrong
	return nil
}

// happen runs all lanes for the duration, brings everything back to what it was
// at first, and adds new hosts if asked to.
func (s *soak) happen(ctx context.Context, r *report) error {
	user.Rest(ctx, warm)
	before, err := s.processes(ctx)
	if err != nil {
		return err
	}
	r.MemoryStart = s.memory.last()
	limited, cancel := context.WithTimeout(ctx, s.options.duration)
	defer cancel()
	limited, stop := signal.NotifyContext(limited, syscall.SIGUSR1)
	defer stop()
	all, inner := errgroup.WithContext(limited)
	for i, l := range lanes {
		if !s.options.goes(l) {
			continue
		}
		all.Go(func() error { return s.runLane(inner, l, rand.New(rand.NewPCG(s.options.seed, uint64(i+1)))) })
	}
	if err := errors.Join(all.Wait(), ctx.Err()); err != nil {
		return err
	}
	if err := s.calm(ctx); err != nil {
		return err
	}
	r.MemoryEnd = s.memory.last()
	if r.Routes, err = s.manyRoutes(ctx, s.options.routes); err != nil {
		return err
	}
	r.MemoryRoutes = s.memory.last()
	after, err := s.processes(ctx)
	if err != nil {
		return err
	}
	return before.same(after)
}

// calm brings everything back and waits until nothing is wrong any more.
func (s *soak) calm(ctx context.Context) error {
	s.tell("%-12s everything is brought back to what it was", "calm")
	for _, x := range slices.Concat(s.comers, s.passers) {
		if err := s.become(ctx, x, nil); err != nil {
			return err
		}
	}
	for _, x := range slices.Concat(s.edited, s.routed) {
		if err := s.becomeAs(ctx, x, routes{"/": workloads[0]}, false); err != nil {
			return err
		}
	}
	if err := s.calmGateways(ctx); err != nil {
		return err
	}
	for _, c := range s.members {
		for _, w := range workloads {
			if err := errors.Join(s.patchDeployment(ctx, c, w, object{"replicas": replicas}), s.settled(ctx, c, w)); err != nil {
				return err
			}
		}
	}
	if err := leisure.Await(ctx, "all findings to go", func(ctx context.Context) error {
		all, err := s.admin.Findings(ctx)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("there are %d, first %v", len(all), all[:min(len(all), mentioned)])
		}
		return err
	}); err != nil {
		return err
	}
	if err := await(ctx, "the edges to be in step", s.inSync); err != nil {
		return err
	}
	user.Rest(ctx, warm)
	return nil
}

// connected is nil when the control plane follows a member.
func (s *soak) connected(ctx context.Context, member string) error {
	o, err := s.hub.Get(ctx, "MemberCluster", "", member)
	if err != nil {
		return err
	}
	is := user.Condition(o, "Connected")
	if is["status"] == "True" {
		return nil
	}
	text, err := json.Marshal(is)
	return errors.Join(fmt.Errorf("its condition Connected is %s", text), err)
}

// tell prints a line of what happens.
func (s *soak) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := ""
	if s.load != nil {
		if n := s.load.failed(); n > 0 {
			bad = fmt.Sprintf("   (%d of %d requests failed)", n, s.load.Counts().Sent)
		}
	}
	fmt.Printf("%8s  %s%s\n", time.Since(s.diary.began).Round(10*time.Millisecond), fmt.Sprintf(format, args...), bad)
}
