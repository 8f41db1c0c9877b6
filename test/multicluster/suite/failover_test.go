package suite

import (
	"net/http"
	"time"

	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

var failover = []test{
	{
		name:        "FailoverToOtherMember",
		description: "When a member has no endpoints any more others answer, and no request fails; when it has them again it serves.",
		kinds:       both,
		run:         failoverToOtherMember,
	},
	{
		name:        "FailoverNoEndpoints",
		description: "A backend that has no ready endpoint in any member is answered 503 and is resolved; the first endpoint anywhere serves.",
		kinds:       both,
		run:         failoverNoEndpoints,
	},
	{
		name:        "BackendNowhere",
		description: "A backend that no member has is answered 500 and told (ResolvedRefs is False, BackendNotFound); other rules go on.",
		kinds:       both,
		run:         backendNowhere,
	},
}

func failoverToOtherMember(w *world) {
	w.offers("web", w.members...)
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	anywhere := from("web", w.members...)
	first := w.answers(r, anywhere).member
	others := w.others(first)

	load := w.trickle(r)
	w.scale(0, "web", first)
	w.answers(r, from("web", others...))
	left := time.Now()
	w.always(r, from("web", others...), many)
	back := time.Now()
	w.scale(1, "web", first)
	w.scale(0, "web", others...)
	w.answers(r, from("web", first))
	w.always(r, from("web", first), many)
	w.resolved("web")
	load.noneFailed(anywhere)
	load.noneWrong(left, back, from("web", others...))
}

func failoverNoEndpoints(w *world) {
	w.offers("web", w.members...)
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.answers(r, from("web", w.members...))
	w.scale(0, "web", w.members...)
	w.answers(r, code(http.StatusServiceUnavailable))
	w.resolved("web")
	last := w.members[len(w.members)-1]
	w.scale(1, "web", last)
	w.answers(r, from("web", last))
}

func backendNowhere(w *world) {
	w.offers("web", w.members[0])
	address := w.gateway()
	w.route("web", `
  - {matches: [{path: {type: Exact, value: /nowhere}}], backendRefs: [`+w.ref("nowhere")+`]}
  - {backendRefs: [`+w.ref("web")+`]}
`)
	w.accepted("web")
	w.unresolved("web", gateway.RouteReasonBackendNotFound)
	w.answers(request{address: address, path: "/nowhere"}, code(http.StatusInternalServerError))
	w.answers(request{address: address}, from("web", w.members[0]))
}
