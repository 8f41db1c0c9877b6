package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// latest is how many of the new hosts are under load.
const latest = 100

// manyRoutes adds hosts one after another, each as soon as all edges serve the
// one before. Each is asked for without a pause from before it is written: it
// must be 404, then 200, and nothing else.
func (s *soak) manyRoutes(ctx context.Context, n int) (*addition, error) {
	if n == 0 {
		return nil, nil
	}
	out := &addition{Hosts: n}
	var took []uint32
	for i := range n {
		x := newSite("new", i, false)
		d, err := s.addRoute(ctx, x, out)
		if err != nil {
			return out, err
		}
		took = append(took, uint32(d.Microseconds()))
		s.load.also("new", x.targets[0], latest)
		if (i+1)%max(n/10, 1) == 0 {
			s.tell("%-12s %d of %d, %s for the last", "new hosts", i+1, n, d.Round(time.Millisecond))
		}
	}
	slices.Sort(took)
	out.P50, out.P99, out.Max = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1)
	if out.Wrong > 0 {
		return out, fmt.Errorf("%d answers about new hosts were neither 404 nor 200, such as %s", out.Wrong, out.Example)
	}
	return out, nil
}

// addition is what new hosts, one after another, saw. Times are milliseconds
// from writing an Ingress until all edges serve it.
type addition struct {
	Hosts   int     `json:"hosts"`
	Asked   int     `json:"asked"` // requests about hosts while they came
	Wrong   int     `json:"wrong"` // answers other than 404 and 200
	Example string  `json:"example,omitempty"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// addRoute adds one and returns how long it took until it was served.
func (s *soak) addRoute(ctx context.Context, x *site, out *addition) (time.Duration, error) {
	to := workloads[0]
	t := x.targets[0]
	t.allow(time.Now(), served(to))
	for _, at := range s.fronts {
		s.probe(ctx, at, t, to, out) // it is not there
	}
	began := time.Now()
	if err := write(ctx, s.hub, ingressObject(x.name, x.host, "", routes{"/": to})); err != nil {
		return 0, err
	}
	for _, at := range s.fronts {
		if err := await(ctx, fmt.Sprintf("%s at edge %s", x.host, at.Name), func(ctx context.Context) error {
			if got := s.probe(ctx, at, t, to, out); got != served(to) {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	t.only(time.Now(), served(to))
	return took, nil
}

// probe asks once for a host that comes.
func (s *soak) probe(ctx context.Context, at *user.Edge, t *target, to string, out *addition) string {
	r := user.Request{Edge: at, URL: t.String()}
	got := answer(r.Send(ctx))
	out.Asked++
	if got != notFound && got != served(to) {
		out.Wrong++
		out.Example = fmt.Sprintf("%s at edge %s: %s", r, at.Name, got)
	}
	return got
}
