package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/xds"
)

// perFront is how many hosts a class has in a fleet of many.
const perFront = 10

// frontSpares are classes that come and go, with their hosts there all the time: so
// many that a collection of garbage is not most of what they cost.
const frontSpares = 40

// fronts are numbers of classes that one edge serves.
type fronts []int

func (c fronts) String() string {
	return fmt.Sprintf("%v classes of %d hosts at one edge, half of them with addresses of their own", []int(c), perFront)
}

// frontNamed is a class of a fleet of many.
func frontNamed(i int) string { return fmt.Sprintf("front-%04d", i) }

// frontOf is the class of a host.
func (f *fleet) frontOf(i int) string {
	if f.fronts == 0 || i < 0 {
		return class
	}
	return frontNamed(i / perFront)
}

// own is what a configuration's name ends with that gives classes addresses of
// their own.
const own = "-own"

// front is a class with a configuration; every other has an address of its own.
func front(i int, config string) *networkingv1.IngressClass {
	o := constant("ingressclasses")[0].(*networkingv1.IngressClass)
	o.ObjectMeta = named("", frontNamed(i))
	if o.Spec.Parameters.Name = config; i%2 == 1 {
		o.Spec.Parameters.Name += own
	}
	return o
}

// frontPool are addresses of the loopback for n classes and those that come.
func frontPool(n int) []v1alpha1.PoolAddress {
	var out []v1alpha1.PoolAddress
	for i := range (n + frontSpares) / 2 {
		out = append(out, v1alpha1.PoolAddress{Address: frontAddress(i)})
	}
	return out
}

func frontAddress(i int) string { return fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250) }

// change of a class, of which the hosts are there.
func (f *fleet) changeFront(i int, typ watch.EventType, config string) edit {
	return edit{place{member: hub, plural: "ingressclasses"}, typ, front(i, config)}
}

// frontRounds are how often everything is measured, one number of classes after the
// other in each round. The two worlds of a ratio are minutes apart, and a machine
// takes up to a third more for the same in one minute than in another.
const frontRounds = 3

// measure reports what a class costs that comes, is edited and goes, among others
// at one edge, and how much that grows with these: the medians of the rounds.
func (c fronts) measure(ctx context.Context, out *figures) error {
	rounds := make([]figures, frontRounds)
	for i := range rounds {
		if err := c.round(ctx, &rounds[i]); err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	*out = append(*out, medians(rounds)...)
	growth := frontGrowth + frontCosts[frontCPU]
	all := valuesOf(rounds, growth)
	out.add(growth+"_least", params{}, slices.Min(all), "")
	out.add(growth+"_most", params{}, slices.Max(all), "")
	return nil
}

// frontGrowth is what the names begin with of how much a class costs more among more.
const frontGrowth = "front_change.growth_of_"

// round is one of them.
func (c fronts) round(ctx context.Context, out *figures) error {
	var first, last [3]float64
	var aloneFirst, aloneLast float64
	for i, n := range c {
		cost, err := c.among(ctx, n, out)
		if err != nil {
			return fmt.Errorf("%d fronts: %w", n, err)
		}
		alone, err := frontAlone(ctx, n, out)
		if err != nil {
			return fmt.Errorf("%d fronts alone: %w", n, err)
		}
		if last, aloneLast = cost, alone; i == 0 {
			first, aloneFirst = cost, alone
		}
	}
	last[envoyMain] -= aloneLast - aloneFirst
	for i, what := range frontCosts {
		out.add(frontGrowth+what, params{}, last[i]/first[i], "")
	}
	return nil
}

// leaves is what proxies lose at once of a class that goes: its hosts, or its
// listener, whose hosts stay while it drains.
func leaves(round int) told {
	if round >= frontSpares/2 {
		return told{xds.Listener, 1}
	}
	return told{xds.ScopedRoute, perFront}
}

// spareFront is the class of a round: those that share addresses come first, as
// nothing that has been looked up leaves while a listener drains.
func spareFront(round int) int {
	if half := frontSpares / 2; round >= half {
		return 2*(round-half) + 1
	}
	return 2 * round
}

// frontCosts are what a class costs.
var frontCosts = [3]string{"bytes", "cpu_us", "envoy_main_ms"}

// frontCPU and envoyMain are places in frontCosts. What scopes and listeners alone cost more
// among more is taken off where it is said how it grows.
const (
	frontCPU  = 1
	envoyMain = 2
)

// seldom is how far apart probes are here. Each second 500 addresses are probed
// otherwise: of that a second takes more CPU time than all that is measured in it,
// and by a third more or less where others are on the machine.
const seldom = "1h"

// A status is written for each host of a class with an address of its own, so many a
// second. They are part of what a change costs; those of the start must be over
// before anything is measured.
const (
	statuses = 50
	follow   = (2 + frontSpares/2*perFront/statuses) * time.Second
)

// among returns the frontCosts among n classes, a third of each kind of change.
func (c fronts) among(ctx context.Context, n int, out *figures) (sum [3]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, err := newWorldOf(ctx, size{hosts: n * perFront, endpoints: 2, members: 2, fronts: n}, frontSpares*perFront, 1, out, probeEnv+"="+seldom)
	if err != nil {
		return sum, err
	}
	defer w.close()
	if err := w.connect(ctx); err != nil {
		return sum, err
	}
	if err := w.connectEnvoy(ctx); err != nil {
		return sum, err
	}
	if err := w.quiet(ctx, 10*time.Millisecond, 10+2*n/2*perFront/statuses); err != nil {
		return sum, err
	}
	for _, kind := range []change{
		{name: "front_added", typ: xds.RouteConfiguration, edit: func(r int) edit { return w.fleet.changeFront(n+spareFront(r), watch.Added, class) }},
		{name: "front_edited", typ: xds.RouteConfiguration, edit: func(r int) edit { return w.fleet.changeFront(n+spareFront(r), watch.Modified, otherConfig) }},
		{name: "front_removed", typ: xds.ScopedRoute, gone: true, first: leaves, edit: func(r int) edit { return w.fleet.changeFront(n+spareFront(r), watch.Deleted, otherConfig) }},
	} {
		kind.each, kind.kinds, kind.after = perFront, 2, follow
		if err := w.rest(ctx, 3*time.Second); err != nil {
			return sum, err
		}
		w.add(kind.name+".idle_cpu_ms_per_s", milli(w.idle.control), "ms/s")
		if err := w.cost(ctx, kind, frontSpares); err != nil {
			return sum, fmt.Errorf("%s: %w", kind.name, err)
		}
		for i, what := range frontCosts {
			v, _ := out.find(kind.name+"."+what, w.params())
			sum[i] += v.Value / 3
		}
	}
	for i, unit := range []string{"B", "us", "ms"} {
		w.add("front_change."+frontCosts[i], sum[i], unit)
	}
	return sum, nil
}

// frontAlone is what the scopes of a class that comes or goes, and the listener of
// every other, cost the main thread of an Envoy that has n times that, and nothing
// else; a third of each, as of the changes, of which one is no scope's.
func frontAlone(ctx context.Context, n int, out *figures) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	content := []xds.Change{plainListener("127.0.0.1", plainPort)}
	for i := range n {
		content = append(content, plainFront(i)...)
	}
	b, err := startPlain(ctx, content, n*perFront-1)
	if err != nil {
		return 0, err
	}
	defer b.close()
	var sum float64
	for _, step := range []struct {
		name   string
		change func(int) []xds.Change
		status int // afterwards
	}{
		{"add", plainFront, http.StatusNoContent},
		{"remove", func(i int) []xds.Change { return without(plainFront(i)) }, http.StatusNotFound},
	} {
		took, err := b.turns(ctx, frontSpares, func(round int) []xds.Change { return step.change(n + spareFront(round)) })
		if err != nil {
			return 0, err
		}
		last := hostOf((n+spareFront(frontSpares-1))*perFront + perFront - 1)
		if err := b.prober.until(ctx, last, step.status); err != nil {
			return 0, fmt.Errorf("%s: %w", step.name, err)
		}
		main := milli(medianOf(took, 2))
		out.add("front_change.alone_"+step.name+"_envoy_main_ms", params{"fronts": n}, main, "ms")
		sum += main / 3
	}
	return sum, nil
}

// plainFront is what a class is but for clusters: its scopes with their routes, and
// the listener of one with an address of its own.
func plainFront(i int) []xds.Change {
	var out []xds.Change
	for h := range perFront {
		out = append(out, plainHost(i*perFront+h)...)
	}
	if i%2 == 1 {
		out = append(out, plainListener(frontAddress(i/2), plainPort))
	}
	return out
}
