package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// gatewayEdits are what users of the hub do with the Gateway API.
var gatewayEdits = []op{
	{name: "HTTPRoute", weight: 6, do: (*soak).editHTTPRoute},
	{name: "HTTPRoute comes or goes", weight: 4, do: (*soak).routeComesOrGoes},
	{name: "listener comes or goes", weight: 2, do: (*soak).toggleListener},
	{name: "ListenerSet comes or goes", weight: 2, do: (*soak).toggleSet},
	{name: "address of a Gateway", weight: 1, do: (*soak).moveGateway},
	{name: "Gateway comes and goes", weight: 1, do: (*soak).passingGateway},
	{name: "stream routes", weight: 1, do: (*soak).editStreams}, // whose listener drains, for which what goes as a whole waits
}

// newRouted makes the targets of a host that an HTTPRoute of the gate may have. The gate
// has a certificate for all of them. Its route may have a second host name.
func newRouted(kind string, i int, tls bool) *site {
	x := newSite(kind, i, false)
	x.host, x.route = fmt.Sprintf("%s-%d.%s", kind, i, gateDomain), true
	x.alias = "alias-" + x.host
	x.targets = []*target{newTarget(x.host, "/", false, notFound), newTarget(x.host, "/x", false, notFound), newTarget(x.alias, "/", false, notFound)}
	if tls {
		x.targets = append(x.targets, newTarget(x.host, "/", true, notFound))
	}
	return x
}

// newAttached is a host that is there when its listener is: one of the gate, or of its
// ListenerSet.
func newAttached(name string) *target { return newTarget(name+".example", "/", false, notFound) }

// editHTTPRoute sends a path elsewhere or to two Services, adds it or takes it away, or
// does so with a host name.
func (s *soak) editHTTPRoute(ctx context.Context, rng *rand.Rand) (string, error) {
	x := one(rng, s.routed)
	paths := maps.Clone(x.paths)
	if rng.IntN(4) == 0 {
		return fmt.Sprintf("%s aliased: %v", x.host, !x.aliased), s.becomeAs(ctx, x, paths, !x.aliased)
	}
	path, to := one(rng, []string{"/", "/x"}), one(rng, append(slices.Clone(workloads), strings.Join(workloads, and)))
	if _, has := paths[path]; has && path != "/" && rng.IntN(2) == 0 {
		delete(paths, path)
		to = "nowhere else"
	} else {
		paths[path] = to
	}
	return fmt.Sprintf("%s%s to %s", x.host, path, to), s.become(ctx, x, paths)
}

// routeComesOrGoes adds an HTTPRoute, or deletes it.
func (s *soak) routeComesOrGoes(ctx context.Context, rng *rand.Rand) (string, error) {
	x, to := one(rng, s.passers), one(rng, workloads)
	if x.paths != nil {
		return x.host + " goes", s.become(ctx, x, nil)
	}
	return fmt.Sprintf("%s comes, to %s", x.host, to), s.become(ctx, x, routes{"/": to})
}

// toggle has a host be served or not by a write, and waits until it is so at all edges.
func (s *soak) toggle(ctx context.Context, t *target, there bool, change func() error) error {
	want := notFound
	if there {
		want = served(workloads[0])
	}
	t.allow(time.Now(), want)
	if err := change(); err != nil {
		return err
	}
	if err := s.answers(ctx, t, want); err != nil {
		return err
	}
	t.only(time.Now(), want)
	return nil
}

// toggleListener adds a listener to the gate beside those that all others are of, or
// takes it away.
func (s *soak) toggleListener(ctx context.Context, _ *rand.Rand) (string, error) {
	s.listener = !s.listener
	return comesOrGoes(s.extra.host, s.listener), s.toggle(ctx, s.extra, s.listener, func() error { return write(ctx, s.hub, s.gate()) })
}

// toggleSet adds a ListenerSet to the gate, or deletes it.
func (s *soak) toggleSet(ctx context.Context, _ *rand.Rand) (string, error) {
	s.set = !s.set
	return comesOrGoes(s.sets.host, s.set), s.toggle(ctx, s.sets, s.set, func() error {
		if s.set {
			return write(ctx, s.hub, s.listenerSet())
		}
		return erase(ctx, s.hub, "ListenerSet", namespace, setName)
	})
}

func comesOrGoes(what string, comes bool) string {
	if comes {
		return what + " comes"
	}
	return what + " goes"
}

// moveGateway gives a Gateway addresses of its own, or those of the edges. While it moves
// nobody loses it at its own: there it is served as long as clients may have them.
func (s *soak) moveGateway(ctx context.Context, _ *rand.Rand) (string, error) {
	if s.own = !s.own; s.own {
		return "to its own", s.toOwn(ctx)
	}
	return "to the edges'", s.toShared(ctx)
}

func (s *soak) toOwn(ctx context.Context) error {
	s.mover.allow(time.Now(), notFound)
	if err := write(ctx, s.hub, gatewayObject(moverName, ownClass, s.plain(moverHost))); err != nil {
		return err
	}
	doors, err := s.doorsOf(ctx, moverName)
	if err != nil {
		return err
	}
	for _, d := range doors {
		if err := servedAt(ctx, d, moverHost); err != nil {
			return err
		}
	}
	s.beside.at(doors)
	if err := s.answers(ctx, s.mover, notFound); err != nil {
		return err
	}
	s.mover.only(time.Now(), notFound)
	return nil
}

// stays is how long a Gateway's own addresses are asked for after it moved away.
const stays = 2 * time.Second

func (s *soak) toShared(ctx context.Context) error {
	if err := s.toggle(ctx, s.mover, true, func() error {
		return write(ctx, s.hub, gatewayObject(moverName, sharedClass, s.plain(moverHost)))
	}); err != nil {
		return err
	}
	user.Rest(ctx, stays)
	s.beside.at(nil)
	return nil
}

// passingGateway adds a Gateway with addresses of its own, waits until it is served
// there, and takes it away.
func (s *soak) passingGateway(ctx context.Context, _ *rand.Rand) (string, error) {
	const name, host = "passing", "passing.example"
	if err := write(ctx, s.hub, gatewayObject(name, ownClass, s.plain(host)), httpRouteObject(name, name, []string{host}, routes{"/": workloads[0]})); err != nil {
		return name, err
	}
	doors, err := s.doorsOf(ctx, name)
	if err != nil {
		return name, err
	}
	for _, d := range doors {
		err = errors.Join(err, servedAt(ctx, d, host))
		d.Close()
	}
	return name, errors.Join(err, erase(ctx, s.hub, "HTTPRoute", namespace, name), erase(ctx, s.hub, "Gateway", namespace, name))
}

// servedAt waits until a host's pods answer at a door.
func servedAt(ctx context.Context, d *user.Edge, host string) error {
	return await(ctx, host+" to be served at "+d.Name, func(ctx context.Context) error {
		if got := answer(user.Request{Edge: d, URL: "http://" + host + "/", Fresh: true}.Send(ctx)); got != served(workloads[0]) {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// doorsOf are the addresses that a Gateway has for itself, as clients reach it: one at
// each edge, when its status says so.
func (s *soak) doorsOf(ctx context.Context, gateway string) (out []*user.Edge, err error) {
	http, https := s.lab.EdgePorts(s.fronts[0].Name)
	all, err := s.ownAddresses(ctx, gateway)
	for _, a := range all {
		out = append(out, user.NewEdge(fmt.Sprintf("Gateway %s at %s", gateway, a), a, http, https, s.ca.pool))
	}
	return out, err
}

func (s *soak) ownAddresses(ctx context.Context, gateway string) (out []netip.Addr, err error) {
	return out, await(ctx, "addresses of Gateway "+gateway, func(ctx context.Context) error {
		o, err := s.hub.Get(ctx, "Gateway", namespace, gateway)
		if err != nil {
			return err
		}
		if out = s.ownOf(o); len(out) != len(s.fronts) {
			return fmt.Errorf("its status lists %v of its own", out)
		}
		return nil
	})
}

// ownOf are the addresses in a Gateway's status that are not those of all.
func (s *soak) ownOf(o *unstructured.Unstructured) (out []netip.Addr) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "addresses")
	for _, one := range all {
		text, _, _ := unstructured.NestedString(one.(map[string]any), "value")
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() || slices.ContainsFunc(s.fronts, func(x *user.Edge) bool { return s.lab.EdgeAddress(x.Name) == a }) {
			continue
		}
		out = append(out, a)
	}
	return out
}

// prepareGateways writes what is there at first and waits until it is served.
func (s *soak) prepareGateways(ctx context.Context) error {
	p, err := s.ca.sign("*." + gateDomain)
	if err != nil {
		return err
	}
	s.listener, s.set = true, true
	to := routes{"/": workloads[0]}
	if err := write(ctx, s.hub, append(gatewayClasses(),
		secretObject(gateName, p), s.gate(), s.listenerSet(), gatewayObject(moverName, sharedClass, s.plain(moverHost)), s.relay(),
		httpRouteObject("extra", gateName, []string{s.extra.host}, to), httpRouteObject(setName, setName, []string{s.sets.host}, to), httpRouteObject(moverName, moverName, []string{moverHost}, to),
	)...); err != nil {
		return err
	}
	for _, t := range []*target{s.extra, s.sets, s.mover} {
		if err := s.toggle(ctx, t, true, func() error { return nil }); err != nil {
			return err
		}
	}
	for _, x := range s.routed {
		if err := s.become(ctx, x, to); err != nil {
			return err
		}
	}
	if s.beside.addresses, err = s.ownAddresses(ctx, relayName); err != nil {
		return err
	}
	for _, x := range s.beside.streams {
		if err := s.relayTo(ctx, x, workloads[0]); err != nil {
			return err
		}
	}
	return nil
}

// calmGateways brings all back.
func (s *soak) calmGateways(ctx context.Context) error {
	for _, back := range []struct {
		off bool
		do  func(*soak, context.Context, *rand.Rand) (string, error)
	}{{!s.listener, (*soak).toggleListener}, {!s.set, (*soak).toggleSet}, {s.own, (*soak).moveGateway}} {
		if back.off {
			if _, err := back.do(s, ctx, nil); err != nil {
				return err
			}
		}
	}
	for _, x := range s.beside.streams {
		if err := s.relayTo(ctx, x, workloads[0]); err != nil {
			return err
		}
	}
	return nil
}
