package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/test/rig"
)

// shared is a class whose Gateways share the addresses of edges, and their ports.
const shared = "users-shared"

// Gateways of the part.
const (
	wide  = "wide"  // shared: a listener for a wildcard
	near  = "near"  // shared: listeners for names below it, one of which comes and goes
	alone = "alone" // at an address of its own: both
)

// Hosts of the part. One certificate is for all of them.
const (
	domain     = "joint.example"
	oneHost    = "one." + domain     // of the wildcard's listener
	twoHost    = "two." + domain     // of the same
	nearHost   = "near." + domain    // of a listener for it alone
	comingHost = "coming." + domain  // of the wildcard's listener, but while there is one for it alone
	noneHost   = "none." + domain    // of the wildcard's listener, without a route
	besideHost = "beside.example"    // of an Ingress at the same address
	nobodyHost = "elsewhere.example" // of nobody
)

const misdirected = "421"

const (
	comings  = 3       // how often the listener comes and goes
	widePods = "blue"  // of routes of the wildcard's listener
	nearPods = "green" // of routes of listeners for one name
)

// joined is what a request for a host is answered on a connection that was opened for
// another, without the listener that comes and goes, and with it. Both belong to the
// listener of the address with the closest hostname: where that is one, the request is
// answered as the host is, else 421, and a client that repeats it on a connection of the
// host's own has the answer that it should have had (Gateway API, Listener.hostname).
type joined struct{ on, host, without, with string }

// jointly is at the address that Gateways and an Ingress share. What is of no Gateway is as
// a listener for all names, so nobody's name is of another listener than those of Gateways.
var jointly = []joined{
	{oneHost, oneHost, servedByBlue, servedByBlue},
	{oneHost, twoHost, servedByBlue, servedByBlue},
	{oneHost, nearHost, misdirected, misdirected},
	{oneHost, comingHost, servedByBlue, misdirected},
	{oneHost, noneHost, notFound, notFound},
	{oneHost, besideHost, misdirected, misdirected},
	{oneHost, nobodyHost, misdirected, misdirected},
	{nearHost, nearHost, servedByGreen, servedByGreen},
	{nearHost, oneHost, misdirected, misdirected},
	{nearHost, comingHost, misdirected, misdirected},
	{comingHost, comingHost, servedByBlue, servedByGreen},
	{comingHost, oneHost, servedByBlue, misdirected},
	{comingHost, nearHost, misdirected, misdirected},
	{besideHost, besideHost, servedByBlue, servedByBlue},
	{besideHost, oneHost, misdirected, misdirected},
}

// apart is at the address of one Gateway, which no Ingress shares: what no listener is
// for is not found.
var apart = []joined{
	{oneHost, oneHost, servedByBlue, servedByBlue},
	{oneHost, twoHost, servedByBlue, servedByBlue},
	{oneHost, nearHost, misdirected, misdirected},
	{oneHost, nobodyHost, notFound, notFound},
	{nearHost, nearHost, servedByGreen, servedByGreen},
	{nearHost, oneHost, misdirected, misdirected},
	{nearHost, nobodyHost, notFound, notFound},
}

// coalescing has clients send requests for several hosts on one connection, while a
// listener for one of these comes and goes.
func (w *world) coalescing(ctx context.Context) error {
	if err := w.writeJoint(ctx); err != nil {
		return err
	}
	at, err := w.door(ctx, alone)
	if err != nil {
		return err
	}
	w.doors[alone], w.doors[edge] = at, w.Lab.Edge(edge, w.ca.Pool())
	there, turns := w.rows(edge, jointly), w.rows(alone, apart)
	all := slices.Concat(there.targets(), turns.targets())
	if err := w.served(ctx, all...); err != nil {
		return err
	}
	if err := patience.Await(ctx, "statuses of listeners", w.jointSaid); err != nil {
		return err
	}
	l := w.newLoad(slices.Concat(w.bystanders(), all)...)
	err = w.under(ctx, l, func(ctx context.Context) error {
		for range comings {
			for _, with := range []bool{true, false} {
				if err := w.come(ctx, there, with); err != nil {
					return err
				}
			}
		}
		return nil
	})
	w.said.line("%d requests were answered 421, and repeated on a connection of their host's own", l.repeated.Load())
	return err
}

// row is a line of a table, as clients have it.
type row struct {
	joined
	*target
}

type rows []row

func (r rows) targets() (out []*target) {
	for _, x := range r {
		out = append(out, x.target)
	}
	return out
}

// rows makes targets of a table. A client that is answered 421 repeats its request on a
// connection of the host's own, which is the target of the table for that; of hosts that
// have none there nobody knows better.
func (w *world) rows(door string, table []joined) (out rows) {
	for _, j := range table {
		t := w.at(door, "https://"+j.host+"/", j.without)
		t.request.On = j.on
		out = append(out, row{j, t})
	}
	for _, r := range out {
		for _, o := range out {
			if o.on == r.host && o.host == r.host {
				r.instead = o.target
			}
		}
	}
	return out
}

// come has the listener come or go, and waits until all of the table is as it says.
func (w *world) come(ctx context.Context, all rows, with bool) error {
	began := time.Now()
	for _, r := range all {
		r.right.be(began, r.without, r.with)
	}
	if err := w.Hub.Apply(ctx, nearGateway(with)); err != nil {
		return err
	}
	effect, err := all.become(ctx, with)
	if err != nil {
		return err
	}
	if with {
		if err := patience.Await(ctx, "the listener to be served", func(ctx context.Context) error { return w.programmed(ctx, near, "coming") }); err != nil {
			return err
		}
	}
	verb := map[bool]string{true: "came", false: "went"}[with]
	w.said.line("the listener for %s %s: answered so after %s", comingHost, verb, ms(effect.Sub(began)))
	user.Rest(ctx, dwell)
	return nil
}

// become returns when all rows are answered as the table says, and when the last of those
// that change was. These are asked beside each other.
func (r rows) become(ctx context.Context, with bool) (effect time.Time, err error) {
	var all errgroup.Group
	when := make([]time.Time, len(r))
	for i, x := range r {
		x.usual = []string{x.answer(with)}
		if x.without != x.with {
			all.Go(func() (err error) {
				when[i], err = x.becomes(ctx, x.usual...)
				return err
			})
		}
	}
	if err := all.Wait(); err != nil {
		return effect, err
	}
	for i, x := range r {
		if x.without == x.with {
			if _, err := x.becomes(ctx, x.usual...); err != nil {
				return effect, err
			}
		}
		x.right.be(time.Now(), x.usual...)
		if when[i].After(effect) {
			effect = when[i]
		}
	}
	return effect, nil
}

func (j joined) answer(with bool) string {
	if with {
		return j.with
	}
	return j.without
}

// writeJoint writes the objects of the part, without the listener that comes and goes.
func (w *world) writeJoint(ctx context.Context) error {
	if err := w.certifyAs(ctx, domain, "*."+domain, besideHost, nobodyHost); err != nil {
		return err
	}
	for _, o := range jointObjects() {
		if err := w.apply(ctx, w.Hub, o); err != nil {
			return err
		}
	}
	return nil
}

func jointObjects() []object {
	wildcard, one := jointListener("wide", "*."+domain), jointListener("near", nearHost)
	return []object{
		named(gatewayAPI, "GatewayClass", "", shared, object{"spec": object{"controllerName": "spillway.dev/gateway"}}),
		classed(shared, gatewayObject(wide, wildcard)),
		nearGateway(false),
		classed(rig.Class, gatewayObject(alone, wildcard, one)),
		routeObject(own, "wide", []any{parent(wide), on(alone, "wide")}, []any{oneHost, twoHost, comingHost}, rule(backend(widePods, own, 1))),
		routeObject(own, "near", []any{parent(near), on(alone, "near")}, []any{nearHost, comingHost}, rule(backend(nearPods, own, 1))),
		named("networking.k8s.io/v1", "Ingress", own, "beside", object{"spec": object{
			"ingressClassName": "spillway", "tls": []any{object{"hosts": []any{besideHost}, "secretName": domain}},
			"rules": []any{object{"host": besideHost, "http": object{"paths": []any{object{
				"path": "/", "pathType": "Prefix", "backend": object{"service": object{"name": widePods, "port": object{"number": 80}}},
			}}}}},
		}}),
	}
}

// nearGateway has listeners for single names.
func nearGateway(with bool) object {
	listeners := []any{jointListener("near", nearHost)}
	if with {
		listeners = append(listeners, jointListener("coming", comingHost))
	}
	return classed(shared, gatewayObject(near, listeners...))
}

// jointListener is one with the certificate of all hosts of the part.
func jointListener(name, host string) object {
	out := listener(name, "HTTPS", httpsPort, host)
	out["tls"] = object{"certificateRefs": []any{object{"name": domain}}}
	return out
}

// classed is a Gateway of a class.
func classed(class string, gateway object) object {
	gateway["spec"].(object)["gatewayClassName"] = class
	return gateway
}

// on is a reference to a listener.
func on(gateway, listener string) object {
	out := parent(gateway)
	out["sectionName"] = listener
	return out
}

// jointSaid checks what is said of the listeners that have names of each other's. Of
// several Gateways none is told: they are of different users.
func (w *world) jointSaid(ctx context.Context) error {
	overlap := condition{"OverlappingTLSConfig", true, "OverlappingHostnames"}
	return errors.Join(
		w.programmed(ctx, wide, "wide"), w.programmed(ctx, near, "near"),
		w.programmed(ctx, alone, "wide"), w.programmed(ctx, alone, "near"),
		w.listenerSays(ctx, alone, "wide", overlap), w.listenerSays(ctx, alone, "near", overlap),
	)
}

// programmed is nil if a listener is told to be served.
func (w *world) programmed(ctx context.Context, gateway, name string) error {
	return w.listenerSays(ctx, gateway, name, condition{"Accepted", true, "Accepted"}, condition{"Programmed", true, "Programmed"})
}
