package suite

import (
	"fmt"
	"net/http"

	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

var grants = []test{
	{
		name:        "ReferenceGrantOnHub",
		description: "A backend of another namespace needs a ReferenceGrant there, on the hub, for its very kind; when it is removed, nobody is served.",
		needs:       []string{featureGrant},
		kinds:       both,
		run:         referenceGrantOnHub,
	},
}

func referenceGrantOnHub(w *world) {
	r := request{address: w.gateway()}
	from, to := w.namespace, w.newNamespace()
	w.in(to, func() { w.offers("web", w.members...) })
	granted := want{backend: "web", members: w.members}
	denied := code(http.StatusInternalServerError)
	w.route("web", "[{backendRefs: ["+refTo(w.kind, "web", port, "namespace: "+to)+"]}]")
	w.accepted("web")

	w.unresolved("web", gateway.RouteReasonRefNotPermitted)
	w.answers(r, denied)

	other := service
	if w.kind == service {
		other = serviceImport
	}
	w.grant(to, from, other)
	w.always(r, denied, many)
	w.unresolved("web", gateway.RouteReasonRefNotPermitted)

	w.grant(to, from, w.kind)
	w.resolved("web")
	w.answers(r, granted)

	w.must(w.hub.remove(w.Context(), "ReferenceGrant", to, "grant"))
	w.unresolved("web", gateway.RouteReasonRefNotPermitted)
	w.answers(r, denied)
}

// grant lets HTTPRoutes of a namespace refer to backends of a kind in another.
func (w *world) grant(to, from string, k kind) {
	w.Helper()
	w.apply(w.hub, "ReferenceGrant", to, "grant", fmt.Sprintf("spec: {from: [{group: %s, kind: HTTPRoute, namespace: %s}], to: [{group: %q, kind: %s}]}", gatewayGroup, from, k.group(), k))
}
