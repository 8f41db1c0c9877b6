package suite

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

var status = []test{
	{
		name:        "StatusOfGateway",
		description: "A Gateway is accepted and programmed with an address, counts its routes, and its conditions are of its generation.",
		kinds:       both,
		run:         statusOfGateway,
	},
	{
		name:        "StatusFollowsMembers",
		description: "ResolvedRefs of a route is False while no member has the backend, and True while any has; it is of the route's generation.",
		kinds:       both,
		run:         statusFollowsMembers,
	},
	{
		name:        "StatusOfRouteMadeAgain",
		description: "A route that is deleted and made again at once, whether its status had been written or not, has a status that is written for it.",
		kinds:       both,
		run:         statusOfRouteMadeAgain,
	},
}

func statusOfGateway(w *world) {
	w.offers("web", w.members[0])
	w.gateway()
	w.attached(0)
	w.route("a", w.leads("web"))
	w.attached(1)
	w.route("b", w.leads("web"))
	w.attached(2)
	w.remove(w.hub, "HTTPRoute", "a")
	w.attached(1)
	w.apply(w.hub, "Gateway", w.namespace, gatewayName, w.gatewayText("*."+domain))
	w.attached(1)
}

// attached returns when the Gateway is as it should be and has so many routes.
func (w *world) attached(routes int32) {
	w.Helper()
	w.await(fmt.Sprintf("a Gateway with %d routes", routes), func(ctx context.Context) error {
		g, err := w.readGateway(ctx)
		if err != nil {
			return err
		}
		for _, typ := range []gateway.GatewayConditionType{gateway.GatewayConditionAccepted, gateway.GatewayConditionProgrammed} {
			if err := hasCondition(g.Status.Conditions, g.Generation, string(typ), metav1.ConditionTrue, ""); err != nil {
				return err
			}
		}
		if len(g.Status.Listeners) != 1 || len(g.Status.Addresses) == 0 {
			return fmt.Errorf("expected one listener and an address, and there are %d and %d", len(g.Status.Listeners), len(g.Status.Addresses))
		}
		l := g.Status.Listeners[0]
		if l.AttachedRoutes != routes {
			return fmt.Errorf("expected attachedRoutes %d, and it is %d", routes, l.AttachedRoutes)
		}
		for _, typ := range []gateway.ListenerConditionType{gateway.ListenerConditionAccepted, gateway.ListenerConditionProgrammed, gateway.ListenerConditionResolvedRefs} {
			if err := hasCondition(l.Conditions, g.Generation, string(typ), metav1.ConditionTrue, ""); err != nil {
				return fmt.Errorf("listener %s: %w", l.Name, err)
			}
		}
		return nil
	})
}

func statusFollowsMembers(w *world) {
	first, second := w.members[0], w.members[1]
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.accepted("web")
	w.unresolved("web", gateway.RouteReasonBackendNotFound)
	w.answers(r, code(http.StatusInternalServerError))

	w.offers("web", first)
	w.resolved("web")
	w.answers(r, from("web", first))

	w.offers("web", second)
	w.withdraw(first, "web")
	w.answers(r, from("web", second))
	w.resolved("web")

	w.route("web", `[{matches: [{path: {type: PathPrefix, value: /edited}}], backendRefs: [`+w.ref("web")+`]}]`)
	w.accepted("web")
	w.resolved("web")
	edited := request{address: r.address, path: "/edited"}
	w.answers(edited, from("web", second))

	w.withdraw(second, "web")
	w.unresolved("web", gateway.RouteReasonBackendNotFound)
	w.answers(edited, code(http.StatusInternalServerError))
}

// timesMadeAgain is how often: each time a little later in what the implementation does
// about the route before.
const timesMadeAgain = 40

func statusOfRouteMadeAgain(w *world) {
	w.offers("web", w.members[0])
	w.gateway()
	for n := range timesMadeAgain {
		w.route("web", w.leads("web"))
		for range n % 10 {
			_, err := w.readGateway(w.Context())
			w.must(err)
		}
		w.remove(w.hub, "HTTPRoute", "web")
		w.route("web", w.leads("web"))
		w.accepted("web")
		w.remove(w.hub, "HTTPRoute", "web")
	}
}
