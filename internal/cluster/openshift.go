package cluster

import (
	routev1 "github.com/openshift/api/route/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

const routesPlural = "routes"

// openShiftRoutes are many. What a Route has in itself is rows beside those of its host,
// as of a Secret or a ConfigMap: so its key is nowhere but where those of Secrets are.
func (h *Hub) openShiftRoutes(client *rest.RESTClient) *source {
	in := h.Inputs
	var w words
	s := newStore(h.Mailbox, func(o metav1.Object) []fact {
		id, root, rules, held, f := ingest.Route(o.(*routev1.Route))
		out := h.rootFacts(&w, id, root, rules)
		if c := held.Certificate; c != nil {
			out = append(out, row[model.SecretID, model.Certificate]{in.Certificates, model.InlineCertificate(id), *c})
		}
		if b := held.Authorities; b != nil {
			out = append(out, row[model.Object, model.Bundle]{in.Bundles, id, *b})
		}
		return append(out, facts(in, nil, false, f)...)
	}, rootsOf(in, model.OpenShiftRoute))
	h.inFull(s, h.leafy.has, func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
		return ingest.OpenShiftManifest(o.(*routev1.Route), text)
	})
	s.waits, s.saw = h.waits, h.sees(model.OpenShiftRoute)
	list := func() runtime.Object { return &routev1.RouteList{} }
	of := &source{resource: resource{client: client, plural: routesPlural, list: list}, store: s, optional: true, defined: true}
	return of.writtenBy(h.leafy.some, fresh[routev1.Route])
}
