package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// edits are what users of the hub do.
var edits = []op{
	{name: "route", weight: 6, do: (*soak).editRoute},
	{name: "host comes or goes", weight: 6, do: (*soak).comeOrGo},
	{name: "certificate", weight: 3, do: (*soak).rotate},
	{name: "bad object", weight: 3, do: (*soak).badObject},
	{name: "timeouts", weight: 1, do: (*soak).timeouts},
	{name: "class comes and goes", weight: 1, do: (*soak).secondClass},
}

// site is a host with an Ingress of its own, or an HTTPRoute.
type site struct {
	name, host string
	secret     string // empty: HTTP only
	paths      routes // nil: it is not there
	targets    []*target

	route   bool   // it has an HTTPRoute
	alias   string // a second host that it may have
	aliased bool
}

// object is the site with these paths.
func (x *site) object(paths routes) object {
	if !x.route {
		return ingressObject(x.name, x.host, x.secret, paths)
	}
	hosts := []string{x.host}
	if x.aliased {
		hosts = append(hosts, x.alias)
	}
	return httpRouteObject(x.name, gateName, hosts, paths)
}

func (x *site) kind() string {
	if x.route {
		return "HTTPRoute"
	}
	return "Ingress"
}

// newSite makes the targets of a host that is not there.
func newSite(kind string, i int, tls bool) *site {
	x := &site{name: fmt.Sprintf("%s-%d", kind, i), host: hostName(kind, i)}
	x.targets = []*target{newTarget(x.host, "/", false, notFound), newTarget(x.host, "/x", false, notFound)}
	if tls {
		x.secret = x.name
		x.targets = append(x.targets, newTarget(x.host, "/", true, closed))
	}
	return x
}

// expect is what a target is answered while the host has these paths: first
// what comes at once, one of them, then what may besides. A connection of before may
// outlive the certificate of a host that goes; that of the gate is always there.
func (x *site) expect(t *target, paths routes) (first, also []string) {
	switch {
	case paths != nil && (t.host == x.host || x.aliased):
		return paths.of(t.path), nil
	case t.tls && !x.route:
		return []string{closed}, []string{notFound}
	}
	return []string{notFound}, nil
}

// become writes, or with nil deletes, the Ingress and waits until all edges
// answer accordingly. Meanwhile the old answers and the new ones are right, and
// over TLS 404, since a name's certificate and its routes are not one step.
func (s *soak) become(ctx context.Context, x *site, paths routes) error {
	return s.becomeAs(ctx, x, paths, x.aliased)
}

// becomeAs is become, with the second host or without.
func (s *soak) becomeAs(ctx context.Context, x *site, paths routes, aliased bool) error {
	now := time.Now()
	x.aliased = aliased
	for _, t := range x.targets {
		first, also := x.expect(t, paths)
		t.allow(now, slices.Concat(first, also)...)
		if t.tls && x.paths == nil {
			t.allow(now, notFound)
		}
	}
	var err error
	if paths == nil {
		err = erase(ctx, s.hub, x.kind(), namespace, x.name)
	} else {
		err = write(ctx, s.hub, x.object(paths))
	}
	if err != nil {
		return err
	}
	x.paths = paths
	for _, t := range x.targets {
		first, also := x.expect(t, paths)
		if err := s.answers(ctx, t, first...); err != nil {
			return err
		}
		t.only(time.Now(), slices.Concat(first, also)...)
	}
	return nil
}

func one[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// editRoute sends a path elsewhere, adds it, or takes it away.
func (s *soak) editRoute(ctx context.Context, rng *rand.Rand) (string, error) {
	x, to := one(rng, s.edited), one(rng, workloads)
	paths := maps.Clone(x.paths)
	path := one(rng, []string{"/", "/x"})
	if _, has := paths[path]; has && path != "/" && rng.IntN(2) == 0 {
		delete(paths, path)
		to = "nowhere else"
	} else {
		paths[path] = to
	}
	return fmt.Sprintf("%s%s to %s", x.host, path, to), s.become(ctx, x, paths)
}

// comeOrGo adds a host, or deletes it.
func (s *soak) comeOrGo(ctx context.Context, rng *rand.Rand) (string, error) {
	x, to := one(rng, s.comers), one(rng, workloads)
	if x.paths != nil {
		return x.host + " goes", s.become(ctx, x, nil)
	}
	if x.secret != "" {
		p, err := s.ca.sign(x.host)
		if err != nil {
			return "", err
		}
		if err := write(ctx, s.hub, secretObject(x.secret, p)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s comes, to %s", x.host, to), s.become(ctx, x, routes{"/": to})
}

// rotate replaces the certificate of a host that is asked for all the time, and
// waits until new connections get the new one.
func (s *soak) rotate(ctx context.Context, rng *rand.Rand) (string, error) {
	x := one(rng, s.secure)
	p, err := s.ca.sign(x.host)
	if err != nil {
		return "", err
	}
	if err := write(ctx, s.hub, secretObject(x.secret, p)); err != nil {
		return "", err
	}
	for _, at := range s.fronts {
		if err := await(ctx, "the new certificate at edge "+at.Name, func(ctx context.Context) error {
			got := user.Request{Edge: at, URL: x.targets[len(x.targets)-1].String(), Fresh: true}.Send(ctx)
			if got.Serial != p.serial {
				return fmt.Errorf("it is number %d instead of %d: %s", got.Serial, p.serial, answer(got))
			}
			return nil
		}); err != nil {
			return "", err
		}
	}
	return "of " + x.host, nil
}

// timeouts changes what all clusters of the class have in common, and waits
// until Envoy says so.
func (s *soak) timeouts(ctx context.Context, rng *rand.Rand) (string, error) {
	connect := 300 + 10*rng.IntN(170)
	perTry := 3000 + 100*rng.IntN(50)
	change := object{"spec": object{"timeouts": object{"connect": fmt.Sprintf("%dms", connect), "perTry": fmt.Sprintf("%dms", perTry)}}}
	if err := await(ctx, "the hub to take a patch", func(ctx context.Context) error {
		return s.hub.Patch(ctx, "GatewayClassConfig", "", config, change)
	}); err != nil {
		return "", err
	}
	written, err := protojson.Marshal(durationpb.New(time.Duration(connect) * time.Millisecond)) // "1s", "0.380s"
	if err != nil {
		return "", err
	}
	sign := `"connect_timeout": ` + string(written)
	for _, at := range s.fronts {
		if err := await(ctx, "the new timeout at edge "+at.Name, func(ctx context.Context) error {
			dump, err := s.admin.Page(ctx, s.lab.AdminAddress(at.Name), "/config_dump?resource=dynamic_active_clusters")
			if err == nil && !strings.Contains(string(dump), sign) {
				err = fmt.Errorf("no cluster has %s", sign)
			}
			return err
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("connect %d ms, per try %d ms", connect, perTry), nil
}

// secondClass adds a class on the ports of the first, with a host, and takes it
// away. Both edges serve other classes then, which is another view.
func (s *soak) secondClass(ctx context.Context, _ *rand.Rand) (string, error) {
	const name, host = "second", "second.example"
	http, https := s.lab.EdgePorts(s.fronts[0].Name)
	o := ingressObject(name, host, "", routes{"/": workloads[0]})
	o["spec"].(object)["ingressClassName"] = name
	t := newTarget(host, "/", false)
	if err := write(ctx, s.hub, append(classObjects(name, object{"listeners": object{"http": http, "https": https}}), o)...); err != nil {
		return "", err
	}
	if err := s.answers(ctx, t, served(workloads[0])); err != nil {
		return "", err
	}
	for _, kind := range []string{"IngressClass", "GatewayClassConfig"} {
		if err := erase(ctx, s.hub, kind, "", name); err != nil {
			return "", err
		}
	}
	if err := s.answers(ctx, t, notFound); err != nil {
		return "", err
	}
	return name, erase(ctx, s.hub, "Ingress", namespace, name)
}
