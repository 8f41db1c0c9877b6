package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// Labels and names that cert-manager gives to what is for a challenge.
const (
	solverLabel = "acme.cert-manager.io/http01-solver"
	solverName  = "cm-acme-http-solver-"
)

// solverKinds are those of what is for a challenge.
var solverKinds = []string{"HTTPRoute", "Ingress", "Service", "Pod", "Challenge"}

// noSolvers is nil when nothing of any challenge is left.
func (w *world) noSolvers(ctx context.Context) error {
	var errs []error
	for _, kind := range solverKinds {
		o := metav1.ListOptions{LabelSelector: solverLabel + "=true"}
		if kind == "Challenge" {
			o.LabelSelector = ""
		}
		list, err := w.Hub.Of(kind, own).List(ctx, o)
		errs = append(errs, err)
		if err == nil && len(list.Items) > 0 {
			errs = append(errs, fmt.Errorf("there is %s %s", kind, list.Items[0].GetName()))
		}
	}
	return errors.Join(errs...)
}

// cameAndWent is nil if of the versions of a kind some are for a challenge: it must have
// been answered by what a route led to.
func cameAndWent(versions []*unstructured.Unstructured) error {
	for _, o := range versions {
		if o.GetLabels()[solverLabel] == "true" {
			return nil
		}
	}
	return fmt.Errorf("of %d versions of routes none was for a challenge; expected was one that led to a solver", len(versions))
}

// challenges counts how many requests each edge sends to solvers, for as long as these
// are there: their counters go with them, some time later.
type challenges struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	seen map[string]tally // by edge
}

// tally is what was counted of each cluster of an Envoy.
type tally map[string]int

// add keeps the highest that was seen of each cluster that is not one of before.
func (t tally) add(counts, before tally) {
	for cluster, n := range counts {
		if _, old := before[cluster]; !old {
			t[cluster] = max(n, t[cluster])
		}
	}
}

func (t tally) sum() (out int) {
	for _, n := range t {
		out += n
	}
	return out
}

// lookEvery is how often counters are looked at. Solvers stay for seconds.
const lookEvery = 100 * time.Millisecond

// countChallenges begins to count those of solvers that come from now on. End it with
// end.
func (w *world) countChallenges(ctx context.Context) (*challenges, error) {
	ctx, stop := context.WithCancel(ctx)
	c := &challenges{stop: stop, seen: map[string]tally{}}
	for _, e := range w.Fleet.Spec.Edges {
		before, err := w.solverRequests(ctx, e.Name)
		if err != nil {
			c.end()
			return nil, err
		}
		now := tally{}
		c.seen[e.Name] = now
		c.done.Go(func() {
			for ctx.Err() == nil {
				if counts, err := w.solverRequests(ctx, e.Name); err == nil {
					c.mu.Lock()
					now.add(counts, before)
					c.mu.Unlock()
				}
				user.Rest(ctx, lookEvery)
			}
		})
	}
	return c, nil
}

// solverRequests asks an edge's Envoy.
func (w *world) solverRequests(ctx context.Context, edge string) (tally, error) {
	text, err := w.Admin.Page(ctx, w.Lab.AdminAddress(edge), "/stats?filter="+solverName)
	return requestsOf(string(text), solverName), err
}

func (c *challenges) end() {
	c.stop()
	c.done.Wait()
}

// judge ends it. Each edge must have answered a challenge.
func (c *challenges) judge(said *report, edges []lab.EdgeSpec) error {
	c.end()
	var errs []error
	for _, e := range edges {
		sum := c.seen[e.Name].sum()
		said.line("edge %s sent %d requests to the solver", e.Name, sum)
		if sum == 0 {
			errs = append(errs, fmt.Errorf("edge %s sent no request to a solver; expected was some: DNS leads the authority to one edge and cert-manager to the other", e.Name))
		}
	}
	return errors.Join(errs...)
}

// requestsOf are the counters of requests of those clusters in Envoy's statistics whose
// names have a text in them.
func requestsOf(stats, text string) tally {
	out := tally{}
	for line := range strings.Lines(stats) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		cluster, is := strings.CutSuffix(name, ".upstream_rq_total")
		n, err := strconv.Atoi(value)
		if is && err == nil && strings.HasPrefix(cluster, "cluster.") && strings.Contains(cluster, text) {
			out[cluster] = n
		}
	}
	return out
}

// serials are the serial numbers of certificates that clients were shown.
type serials struct {
	mu   sync.Mutex
	seen []int64
}

// saw takes an answer.
func (s *serials) saw(r user.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Status != 0 && !slices.Contains(s.seen, r.Serial) {
		s.seen = append(s.seen, r.Serial)
	}
}

// all are those so far.
func (s *serials) all() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}
