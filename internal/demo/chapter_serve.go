package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

// fewBytes is what a restarted control plane may send to each Envoy that holds
// everything already.
const fewBytes = 1024

// outage is what is down while the control plane is killed and started.
type outage struct {
	begin, end func(context.Context, *fleet, *scene) error
}

var (
	noOutage  = outage{}
	hubOutage = outage{
		begin: func(ctx context.Context, f *fleet, _ *scene) error { return f.lab.KillHub(ctx) },
		end:   func(ctx context.Context, f *fleet, s *scene) error { return f.restartHub(ctx, s) },
	}
	memberOutage = outage{
		begin: func(ctx context.Context, f *fleet, _ *scene) error {
			return f.lab.Cut(ctx, nearest["eu"], lab.PartAPI, lab.ModeDrop)
		},
		end: func(ctx context.Context, f *fleet, _ *scene) error {
			if err := f.lab.Heal(ctx, nearest["eu"]); err != nil {
				return err
			}
			return f.await(ctx, nearest["eu"]+" to be connected again", func(ctx context.Context) error {
				return f.memberIs(ctx, nearest["eu"], "Connected", "True")
			})
		},
	}
)

func (o outage) during(ctx context.Context, f *fleet, s *scene, act func() error) error {
	if o.begin != nil {
		if err := o.begin(ctx, f, s); err != nil {
			return err
		}
	}
	if err := act(); err != nil {
		return err
	}
	if o.end == nil {
		return nil
	}
	return o.end(ctx, f, s)
}

// tellServe kills the control plane and starts it again during an outage: the
// edges hold what they held, and are sent next to nothing.
func tellServe(during outage) func(context.Context, *fleet, *scene) error {
	return func(ctx context.Context, f *fleet, s *scene) error {
		return f.unharmed(ctx, s, edges, func(ctx context.Context, l *load) error {
			before, err := f.holdings(ctx)
			if err != nil {
				return err
			}
			if err := during.during(ctx, f, s, func() error { return f.restartServe(ctx, s, l) }); err != nil {
				return err
			}
			if err := f.more(ctx, l, hold/2); err != nil {
				return err
			}
			if err := f.sentLittle(ctx, s); err != nil {
				return err
			}
			return f.heldOn(ctx, before)
		})
	}
}

// restartServe kills the control plane, lets the edges go on without it, starts
// it and waits until they are in step.
func (f *fleet) restartServe(ctx context.Context, s *scene, l *load) error {
	if err := f.serve.Kill(); err != nil {
		return err
	}
	if err := f.more(ctx, l, hold/2); err != nil {
		return err
	}
	began := time.Now()
	if err := f.serve.Start(); err != nil {
		return err
	}
	if err := f.await(ctx, "the control plane to be ready", f.admin.ready); err != nil {
		return err
	}
	s.ms("serve_ready_ms", time.Since(began))
	if err := f.await(ctx, "the edges to be back", func(ctx context.Context) error { return f.inSync(ctx, edges...) }); err != nil {
		return err
	}
	s.ms("recovery_ms", time.Since(began))
	s.say("edges in step %s after the start", round(time.Since(began)))
	if err := f.await(ctx, "evidence of all paths", f.pathsUp); err != nil {
		return err
	}
	return f.dnsNear(ctx)
}

// sentLittle looks at what each stream of the new control plane was sent.
func (f *fleet) sentLittle(ctx context.Context, s *scene) error {
	streams, err := f.admin.Streams(ctx)
	if err != nil {
		return err
	}
	most := int64(0)
	for _, one := range streams {
		most = max(most, one.BytesSent)
	}
	s.set("pushed_bytes", most)
	if most >= fewBytes {
		return fmt.Errorf("an edge was sent %d bytes", most)
	}
	s.say("at most %d bytes sent to an edge", most)
	return nil
}

// holdings are what the Envoys hold, by edge.
func (f *fleet) holdings(ctx context.Context) (map[string]holding, error) {
	out := map[string]holding{}
	for _, edge := range edges {
		h, err := f.admin.holding(ctx, f.lab.AdminAddress(edge))
		if err != nil {
			return nil, fmt.Errorf("edge %s: %w", edge, err)
		}
		out[edge] = h
	}
	return out, nil
}

// heldOn is nil if every Envoy holds what it held and has lost nothing meanwhile.
func (f *fleet) heldOn(ctx context.Context, before map[string]holding) error {
	now, err := f.holdings(ctx)
	if err != nil {
		return err
	}
	for edge, was := range before {
		if now[edge] != was {
			return fmt.Errorf("edge %s held %+v and now %+v", edge, was, now[edge])
		}
	}
	return nil
}
