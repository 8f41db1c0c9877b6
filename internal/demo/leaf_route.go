package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/examples"
)

// tellLeafRoute serves the Service by a Gateway of members, too, and takes it away again. A
// Contour that gets a Gateway listens anew, so nothing is said of requests meanwhile.
func tellLeafRoute(ctx context.Context, f *fleet, s *scene) error {
	s.undo = f.removeLeafGateway
	began := time.Now()
	if err := f.await(ctx, "the hub to take examples/leaf-gateway.yaml", func(ctx context.Context) error { return apply(ctx, f.hub, examples.LeafGateway) }); err != nil {
		return err
	}
	for _, w := range []struct {
		figure, what string
		check        func(context.Context) error
	}{
		{"leaves_ms", "leaves of both in each member", func(ctx context.Context) error { return f.routeLeaves(ctx, len(leafMembers)) }},
		{"served_ms", "each member to answer for the HTTPRoute", func(ctx context.Context) error { return f.allAnswer(ctx, leafRouteHost, leafMembers...) }},
		{"status_ms", "the Gateway's status to list all addresses", f.gatewayLists},
		{"accepted_ms", "the HTTPRoute to be accepted", f.leafRouteAccepted},
		{"ingress_ms", "each member to answer for the Ingress as before", func(ctx context.Context) error { return f.allAnswer(ctx, leafHost, leafMembers...) }},
	} {
		if err := f.await(ctx, w.what, w.check); err != nil {
			return err
		}
		s.ms(w.figure, time.Since(began))
		s.say("%s after %s", w.what, round(time.Since(began)))
	}
	began = time.Now()
	if err := f.removeLeafGateway(ctx); err != nil {
		return err
	}
	if err := f.await(ctx, "the leaves of both to go", func(ctx context.Context) error { return f.routeLeaves(ctx, 0) }); err != nil {
		return err
	}
	s.ms("leaves_gone_ms", time.Since(began))
	return f.await(ctx, "each member to answer for the Ingress alone", func(ctx context.Context) error {
		if err := f.noneAnswers(ctx, leafRouteHost, leafMembers...); err != nil {
			return err
		}
		return f.allAnswer(ctx, leafHost, leafMembers...)
	})
}

// removeLeafGateway deletes what users wrote of the example.
func (f *fleet) removeLeafGateway(ctx context.Context) error {
	return errors.Join(
		f.hub.Delete(ctx, "HTTPRoute", namespace, leafRoot), f.hub.Delete(ctx, "Gateway", namespace, leafRoot),
		f.hub.Delete(ctx, "GatewayClass", "", "members"))
}

// routeLeaves is nil when so many members have leaves of the Gateway and the HTTPRoute, with
// our mark, and the others have none.
func (f *fleet) routeLeaves(ctx context.Context, want int) error {
	for _, kind := range []string{"Gateway", "HTTPRoute"} {
		number := 0
		for _, m := range leafMembers {
			o, err := f.members[m].Get(ctx, kind, namespace, leafRoot)
			switch {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return err
			case o.GetLabels()[hubMark] == "":
				return fmt.Errorf("the %s in %s has the labels %v", kind, m, o.GetLabels())
			}
			number++
		}
		if number != want {
			return fmt.Errorf("%d members have a leaf of the %s, not %d", number, kind, want)
		}
	}
	return nil
}

// gatewayLists is nil when the root's status lists what all members call their addresses,
// and nothing else.
func (f *fleet) gatewayLists(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "Gateway", namespace, leafRoot)
	if err != nil {
		return err
	}
	if got := condition(o, "Programmed"); got != "True" {
		return fmt.Errorf("the Gateway's Programmed is %q", got)
	}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "addresses")
	var got, want []string
	for _, a := range all {
		if m, ok := a.(object); ok {
			got = append(got, fmt.Sprint(m["value"]))
		}
	}
	for _, m := range leafMembers {
		want = append(want, f.called(m))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the Gateway's status lists %v, not %v", got, want)
	}
	return nil
}

// leafRouteAccepted is nil once our entry in the HTTPRoute's status says so.
func (f *fleet) leafRouteAccepted(ctx context.Context) error {
	o, err := f.hub.Get(ctx, "HTTPRoute", namespace, leafRoot)
	if err != nil {
		return err
	}
	return accepted(o)
}
