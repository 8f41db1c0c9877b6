package suite

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

var exports = []test{
	{
		name:        "ExportedMembersOnly",
		description: "Of members that have a Service, those that export it serve its ServiceImport, and no others, even when those have no endpoints.",
		kinds:       imports,
		run:         exportedMembersOnly,
	},
	{
		name:        "ExportsMove",
		description: "An export that comes or goes moves requests, and none fails while another member exports.",
		kinds:       imports,
		run:         exportsMove,
	},
	{
		name:        "ExportNowhere",
		description: "A ServiceImport of what members have and none exports is answered 500 and told (ResolvedRefs is False, BackendNotFound).",
		kinds:       imports,
		run:         exportNowhere,
	},
	{
		name:        "ExportedPortsAreTheUnion",
		description: "A ServiceImport has each port that some exported Service has, and requests for it go to those that have it.",
		kinds:       imports,
		run:         exportedPortsAreTheUnion,
	},
	{
		name:        "ExportedPortConflict",
		description: "Of ports of one name with different numbers a route can use that of the oldest export, and of the next when that goes.",
		kinds:       imports,
		run:         exportedPortConflict,
	},
	{
		name:        "ServiceImportByHand",
		description: "A ServiceImport that somebody writes on the hub is served by all members that have the Service, without any export.",
		needs:       []string{featureByHand},
		kinds:       imports,
		run:         serviceImportByHand,
	},
}

// hasService has pods and a Service in members, without any export, and returns when all
// have a ready endpoint.
func (w *world) hasService(name string, members ...*cluster) {
	w.Helper()
	w.each(members, func(m *cluster) error {
		if err := w.deploy(m, name, 1, listens); err != nil {
			return err
		}
		return w.service(m, name, onePort(listens))
	})
	w.each(members, func(m *cluster) error { return w.ready(m, name, 1) })
}

// exports exports a Service from a member.
func (w *world) exports(m *cluster, name string) {
	w.Helper()
	_, err := w.export(m, name)
	w.must(err)
}

func exportedMembersOnly(w *world) {
	exporting := w.members[0]
	w.hasService("web", w.members...)
	w.exports(exporting, "web")
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.accepted("web")
	w.resolved("web")
	w.answers(r, from("web", exporting))
	w.always(r, from("web", exporting), many)
	w.scale(0, "web", exporting)
	w.answers(r, code(http.StatusServiceUnavailable))
	w.always(r, code(http.StatusServiceUnavailable), many)
}

func exportsMove(w *world) {
	first, second := w.members[0], w.members[1]
	w.hasService("web", w.members...)
	w.exports(first, "web")
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.answers(r, from("web", first))
	load := w.trickle(r)
	for _, move := range []struct{ from, to *cluster }{{first, second}, {second, first}} {
		w.exports(move.to, "web")
		w.answers(r, from("web", first, second))
		w.withdraw(move.from, "web")
		w.answers(r, from("web", move.to))
		w.always(r, from("web", move.to), inARow)
	}
	w.resolved("web")
	load.noneFailed(from("web", first, second))
}

func exportNowhere(w *world) {
	w.hasService("web", w.members...)
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.accepted("web")
	w.unresolved("web", gateway.RouteReasonBackendNotFound)
	w.answers(r, code(http.StatusInternalServerError))
	w.always(r, code(http.StatusInternalServerError), many)
}

// byPort has a route for each port of a ServiceImport: path /NUMBER leads to the port.
func (w *world) byPort(name string, ports ...int) (address string) {
	w.Helper()
	address = w.gateway()
	for _, p := range ports {
		w.route(fmt.Sprint("port-", p), fmt.Sprintf("[{matches: [{path: {type: PathPrefix, value: /%d}}], backendRefs: [%s]}]", p, refTo(serviceImport, name, p, "")))
	}
	return address
}

func exportedPortsAreTheUnion(w *world) {
	has := map[int]*cluster{80: w.members[0], 81: w.members[1]}
	for p, m := range has {
		w.must(w.deploy(m, "web", 1, listens))
		w.must(w.serve(m, "web", fmt.Sprintf("[{name: port-%d, port: %[1]d, targetPort: %d}]", p, listens)))
		w.must(w.ready(m, "web", 1))
	}
	address := w.byPort("web", 80, 81)
	for p, m := range has {
		w.resolved(fmt.Sprint("port-", p))
		r := request{address: address, path: fmt.Sprint("/", p)}
		w.answers(r, from("web", m))
		w.always(r, from("web", m), many)
	}
}

func exportedPortConflict(w *world) {
	older, younger := w.members[0], w.members[1]
	for m, p := range map[*cluster]int{older: 80, younger: 81} {
		w.must(w.deploy(m, "web", 1, listens))
		w.must(w.service(m, "web", fmt.Sprintf("[{name: http, port: %d, targetPort: %d}]", p, listens)))
		w.must(w.ready(m, "web", 1))
	}
	first, err := w.export(older, "web")
	w.must(err)
	w.applyLater(first, younger, "ServiceExport", "web", "{}")
	address := w.byPort("web", 80, 81)
	old, other := request{address: address, path: "/80"}, request{address: address, path: "/81"}

	w.resolved("port-80")
	w.answers(old, from("web", older, younger))
	w.becomes("port-81", gateway.RouteConditionResolvedRefs, metav1.ConditionFalse, "")
	w.answers(other, code(http.StatusInternalServerError))

	w.withdraw(older, "web")
	w.resolved("port-81")
	w.answers(other, from("web", younger))
	w.becomes("port-80", gateway.RouteConditionResolvedRefs, metav1.ConditionFalse, "")
	w.answers(old, code(http.StatusInternalServerError))
}

func serviceImportByHand(w *world) {
	w.hasService("web", w.members...)
	w.apply(w.hub, "ServiceImport", w.namespace, "web", fmt.Sprintf("spec: {type: ClusterSetIP, ports: [{name: http, protocol: TCP, port: %d}]}", port))
	r := request{address: w.gateway()}
	w.route("web", w.leads("web"))
	w.accepted("web")
	w.resolved("web")
	for _, m := range w.members {
		w.alone("web", m)
		w.answers(r, from("web", m))
	}
}
