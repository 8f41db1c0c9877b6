package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// pace is how long a step lasts, or longer where its first answer takes longer.
const pace = 2 * time.Second

// weighting is the weights of blue and green.
type weighting struct{ blue, green int }

func (w weighting) String() string { return fmt.Sprintf("%d/%d", w.blue, w.green) }

func (w weighting) share() float64 { return float64(w.blue) / float64(w.blue+w.green) }

// weightSteps are gone through to their end and back, again and again.
var weightSteps = []weighting{{100, 0}, {90, 10}, {50, 50}, {1, 3}, {10, 90}, {0, 100}}

// weightsOf are those of a step.
func weightsOf(step int) weighting {
	last := len(weightSteps) - 1
	step %= 2 * last
	return weightSteps[min(step, 2*last-step)]
}

// stepHeader tells of an answer which step it was made by.
const stepHeader = "X-Step"

func weightedRule(step int, w weighting) object {
	out := rule(backend("blue", own, w.blue), backend("green", own, w.green))
	out["filters"] = []any{object{"type": "ResponseHeaderModifier", "responseHeaderModifier": object{
		"set": []any{object{"name": stepHeader, "value": strconv.Itoa(step)}},
	}}}
	return out
}

// stepped is what came of the steps.
type stepped struct {
	mu      sync.Mutex
	written []time.Time     // when each step was about to be
	came    []chan struct{} // closed with its first answer
	first   []time.Time     // when that was there
	samples []sample        // of all steps: as many as the load has requests for the route
	strange error           // the first answer of no step
}

// next begins a step, and returns what ends with its first answer.
func (s *stepped) next(now time.Time) (step int, came <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	s.written, s.came, s.first = append(s.written, now), append(s.came, done), append(s.first, time.Time{})
	return len(s.came) - 1, done
}

// saw takes an answer of a pod; others are failures of the load.
func (s *stepped) saw(r user.Reply) {
	got := answer(r)
	if got != servedByBlue && got != servedByGreen {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := strconv.Atoi(r.Header.Get(stepHeader))
	if err != nil || step < 0 || step >= len(s.came) {
		s.strange = errors.Join(s.strange, fmt.Errorf("an answer has %s %q; expected was a step from 0 to %d", stepHeader, r.Header.Get(stepHeader), len(s.came)-1))
		return
	}
	if s.first[step].IsZero() {
		s.first[step] = r.Done
		close(s.came[step])
	}
	s.samples = append(s.samples, sample{r.Conn.Conn, r.Sent, r.Done, step, got == servedByBlue})
}

// weights steps the weights of a route under load.
func (w *world) weights(ctx context.Context) error {
	var s stepped
	s.next(time.Now()) // it is there
	t := w.weighted()
	t.saw, t.share = s.saw, 3*len(w.bystanders())
	failed := w.under(ctx, w.newLoad(append(w.bystanders(), t)...), func(ctx context.Context) error {
		for began := time.Now(); time.Since(began) < w.duration; {
			if err := w.step(ctx, &s); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(failed, s.strange, s.judge(w.said), backwards(s.samples))
}

// step writes the next weights, and waits until they are used.
func (w *world) step(ctx context.Context, s *stepped) error {
	now := time.Now()
	n, came := s.next(now)
	if err := w.Hub.Patch(ctx, "HTTPRoute", own, "weighted", object{"spec": object{"rules": []any{weightedRule(n, weightsOf(n))}}}); err != nil {
		return err
	}
	late := time.NewTimer(patience.Most)
	defer late.Stop()
	select {
	case <-came:
	case <-late.C:
		return fmt.Errorf("%s after step %d (weights %s) was written there is no answer of it", patience.Most, n, weightsOf(n))
	case <-ctx.Done():
		return ctx.Err()
	}
	user.Rest(ctx, pace-time.Since(now))
	return nil
}

// split is how many of all answers were blue.
type split struct{ blue, all int }

func (s *split) add(o split) { s.blue, s.all = s.blue+o.blue, s.all+o.all }

func (s split) of(w weighting, what string) error {
	if byChance(s.blue, s.all, w.share()) {
		return nil
	}
	return fmt.Errorf("%s: of %d answers %d were blue; expected by weights %s were %.0f, and so many or few is less probable than 5 standard deviations", what, s.all, s.blue, w, float64(s.all)*w.share())
}

// judge checks the split of each step, and of all steps of the same weights.
func (s *stepped) judge(said *report) error {
	steps, sums := make([]split, len(s.came)), map[weighting]*split{}
	for _, x := range s.samples {
		one := split{0, 1}
		if x.blue {
			one.blue = 1
		}
		steps[x.step].add(one)
	}
	var errs []error
	var times []time.Duration
	for n, x := range steps {
		of := weightsOf(n)
		errs = append(errs, x.of(of, fmt.Sprintf("step %d", n)))
		if sums[of] == nil {
			sums[of] = &split{}
		}
		sums[of].add(x)
		if n > 0 && !s.first[n].IsZero() {
			times = append(times, s.first[n].Sub(s.written[n]))
		}
	}
	for _, of := range weightSteps {
		if sum := sums[of]; sum != nil {
			errs = append(errs, sum.of(of, "all steps of these weights"))
			said.line("weights %s: %d answers, %.1f %% blue (expected %.1f %%)", of, sum.all, 100*float64(sum.blue)/float64(max(sum.all, 1)), 100*of.share())
		}
	}
	slices.Sort(times)
	if len(times) > 0 {
		said.line("%d steps; from an edit to its first answer: p50 %s, p99 %s, most %s", len(times), ms(quantile(times, 0.5)), ms(quantile(times, 0.99)), ms(times[len(times)-1]))
	}
	said.line("an older step answered for %s at most after a newer one had", ms(behind(s.samples)))
	return errors.Join(errs...)
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
