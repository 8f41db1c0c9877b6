package main

import (
	"context"
	"fmt"
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
		out = append(out, v1alpha1.PoolAddress{Address: fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250)})
	}
	return out
}

// change of a class, of which the hosts are there.
func (f *fleet) changeFront(i int, typ watch.EventType, config string) edit {
	return edit{place{member: hub, plural: "ingressclasses"}, typ, front(i, config)}
}

// measure reports what a class costs that comes, is edited and goes, among others
// at one edge, and how much that grows with these.
func (c fronts) measure(ctx context.Context, out *figures) error {
	var first, last [3]float64
	for i, n := range c {
		cost, err := c.among(ctx, n, out)
		if err != nil {
			return fmt.Errorf("%d fronts: %w", n, err)
		}
		if last = cost; i == 0 {
			first = cost
		}
	}
	for i, what := range frontCosts {
		out.add("front_change.growth_of_"+what, params{}, last[i]/first[i], "")
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

// among returns the frontCosts among n classes, a third of each kind of change.
func (c fronts) among(ctx context.Context, n int, out *figures) (sum [3]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // for what is broken, not for what is slow
	defer cancel()
	w, err := newWorldOf(ctx, size{hosts: n * perFront, endpoints: 2, members: 2, fronts: n}, frontSpares*perFront, 1, out)
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
	if err := w.rest(ctx, 2*time.Second); err != nil {
		return sum, err
	}
	for _, kind := range []change{
		{name: "front_added", typ: xds.RouteConfiguration, edit: func(r int) edit { return w.fleet.changeFront(n+spareFront(r), watch.Added, class) }},
		{name: "front_edited", typ: xds.RouteConfiguration, edit: func(r int) edit { return w.fleet.changeFront(n+spareFront(r), watch.Modified, otherConfig) }},
		{name: "front_removed", typ: xds.ScopedRoute, gone: true, first: leaves, edit: func(r int) edit { return w.fleet.changeFront(n+spareFront(r), watch.Deleted, otherConfig) }},
	} {
		kind.each, kind.kinds = perFront, 2
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
