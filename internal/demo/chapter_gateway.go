package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// gatewayHost is what the example's HTTPRoute serves.
const gatewayHost = "new.shop.example"

// tellGateway serves the Service by a Gateway with addresses of its own, beside the
// Ingress, and takes it away again.
func tellGateway(ctx context.Context, f *fleet, s *scene) error {
	s.undo = f.removeGateway
	return f.unharmed(ctx, s, edges, func(ctx context.Context, l *load) error {
		began := time.Now()
		if err := f.await(ctx, "the hub to take examples/gateway.yaml", func(ctx context.Context) error { return apply(ctx, f.hub, examples.Gateway) }); err != nil {
			return err
		}
		if err := f.await(ctx, "the Gateway to be programmed", f.gatewayProgrammed); err != nil {
			return err
		}
		s.ms("programmed_ms", time.Since(began))
		if err := f.await(ctx, "the HTTPRoute to be accepted", f.routeAccepted); err != nil {
			return err
		}
		if err := f.await(ctx, "the GatewayClass to know the hub's version", f.versionSupported); err != nil {
			return err
		}
		for _, edge := range edges {
			if err := f.await(ctx, "the Gateway to answer near edge "+edge, func(ctx context.Context) error { return f.gatewayAnswers(ctx, edge) }); err != nil {
				return err
			}
		}
		s.ms("served_ms", time.Since(began))
		s.say("programmed at both edges, with addresses of its own that DNS names, after %s", round(time.Since(began)))
		if err := f.removeGateway(ctx); err != nil {
			return err
		}
		if err := f.await(ctx, "DNS to forget the host", func(ctx context.Context) error {
			got, err := resolve(ctx, f.opts.dns(), gatewayHost, clients["eu"].subnet)
			if err == nil {
				return fmt.Errorf("DNS names %v", got)
			}
			return nil
		}); err != nil {
			return err
		}
		return f.more(ctx, l, hold/2)
	})
}

// removeGateway deletes what users wrote of the example.
func (f *fleet) removeGateway(ctx context.Context) error {
	var errs []error
	for _, o := range []struct{ kind, namespace, name string }{
		{"HTTPRoute", namespace, "web"}, {"Gateway", namespace, "web"}, {"GatewayClass", "", "spillway"}, {"GatewayClassConfig", "", "own"},
	} {
		if err := f.hub.Delete(ctx, o.kind, o.namespace, o.name); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// gatewayProgrammed is nil once it is, at an address of each edge's pool.
func (f *fleet) gatewayProgrammed(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "Gateway", namespace, "web")
	if err != nil {
		return err
	}
	if got := condition(o, "Programmed"); got != "True" {
		return fmt.Errorf("the Gateway's Programmed is %q", got)
	}
	all, _, err := unstructured.NestedSlice(o.Object, "status", "addresses")
	if err != nil || len(all) != len(edges) {
		return fmt.Errorf("the Gateway's status lists %v: %w", all, err)
	}
	return nil
}

// versionSupported is nil once the GatewayClass says that we support what our hub
// installed.
func (f *fleet) versionSupported(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "GatewayClass", "", "spillway")
	if err != nil {
		return err
	}
	if got := condition(o, "SupportedVersion"); got != "True" {
		return fmt.Errorf("the GatewayClass's SupportedVersion is %q", got)
	}
	return nil
}

// routeAccepted is nil once our entry in the HTTPRoute's status says so.
func (f *fleet) routeAccepted(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "HTTPRoute", namespace, "web")
	if err != nil {
		return err
	}
	return accepted(o)
}

// accepted is nil if our entry in a route's status says so.
func accepted(o *unstructured.Unstructured) error {
	parents, _, _ := unstructured.NestedSlice(o.Object, "status", "parents")
	for _, p := range parents {
		entry, ok := p.(object)
		if !ok || entry["controllerName"] != "spillway.dev/gateway" {
			continue
		}
		got := condition(&unstructured.Unstructured{Object: object{"status": entry}}, "Accepted")
		if got == "True" {
			return nil
		}
		return fmt.Errorf("the %s's Accepted is %q", o.GetKind(), got)
	}
	return errors.New("its status has no entry of ours")
}

// gatewayAnswers is nil if clients near an edge are named an address that is not the
// edge's own, where the nearest member answers, and a redirect leads to what it says.
func (f *fleet) gatewayAnswers(ctx context.Context, edge string) error {
	named, err := resolve(ctx, f.opts.dns(), gatewayHost, clients[edge].subnet)
	if err != nil {
		return err
	}
	own := func(a netip.Addr) bool { return a != f.lab.EdgeAddress(edge) }
	if len(named) == 0 || !own(named[0]) {
		return fmt.Errorf("DNS names %v", named)
	}
	httpPort, httpsPort := f.lab.EdgePorts(edge)
	at := user.NewEdge(edge, named[0], httpPort, httpsPort, nil)
	defer at.Close()
	a, err := ask(ctx, at, "http://"+gatewayHost+"/")
	if err != nil {
		return err
	}
	if a.Member != nearest[edge] {
		return fmt.Errorf("%s answers at %s, not %s", a.Member, named[0], nearest[edge])
	}
	r := user.Request{Edge: at, URL: "http://" + gatewayHost + "/old/x?y=z", Fresh: true}.Send(ctx)
	if r.Err != nil {
		return r.Err
	}
	if where := r.Location; r.Status != http.StatusMovedPermanently || !strings.HasSuffix(where, "/x?y=z") {
		return fmt.Errorf("/old is answered %d, to %q", r.Status, where)
	}
	others := slices.DeleteFunc(slices.Clone(edges), func(e string) bool { return e == edge })
	if slices.Contains(named, f.lab.EdgeAddress(others[0])) {
		return fmt.Errorf("DNS names %v, the address that all share", named)
	}
	return nil
}
