package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestFieldsOfLater: what may be a leaf is kept with fields that our types lack, whether
// the server streams lists or not, and follows edits.
func TestFieldsOfLater(t *testing.T) {
	for _, unable := range []bool{false, true} {
		api := newFakeAPI(t)
		api.future, api.unable = true, unable
		class := "members"
		root := ingress("web", "web")
		root.Spec.IngressClassName = &class
		open := openShiftRoute(t, "web", "shop.example")
		open.Annotations = map[string]string{v1alpha1.AnnotationIngressClass: class}
		other := httpRoute("other", "b.example", "web")
		other.Spec.ParentRefs[0].Name = "none"
		policy := &gatewayv1.BackendTLSPolicy{ObjectMeta: at("shop", "web"), Spec: gatewayv1.BackendTLSPolicySpec{Validation: gatewayv1.BackendTLSPolicyValidation{Hostname: "web.example"}}}
		grant := &gatewayv1.ReferenceGrant{ObjectMeta: at("shop", "web"), Spec: gatewayv1.ReferenceGrantSpec{To: []gatewayv1.ReferenceGrantTo{{Kind: "Secret"}}}}
		all := []runtime.Object{root, open, gateway("web"), httpRoute("web", "a.example", "web"), other, policy, listenerSet("web"), grant}
		api.apply(all...)
		r := newRig(t, nil).watch(api).start()
		r.await("known", func() bool { return r.known && r.in.Roots.Len() == 4 })
		r.hub.Leafy(LeafyClasses{"members": false})
		id := model.GatewayID{Namespace: "shop", Name: "web"}
		r.hub.LeafyGateways(LeafyGateways{Classes: map[model.GatewayClass]bool{"spillway": true}, Gateways: map[model.GatewayID]bool{id: true}})
		later := func(of ...string) bool {
			for _, kind := range []string{"Ingress", model.OpenShiftRoute, "Gateway", "HTTPRoute", "BackendTLSPolicy", model.ListenerSetKind, "ReferenceGrant"} {
				m, _ := r.in.Manifests.Get(nil, model.Object{Kind: kind, Namespace: "shop", Name: "web"})
				for _, part := range append(of, `"future":{"a":1}`) {
					if !strings.Contains(m.Body, part) {
						return false
					}
				}
				if kind == "HTTPRoute" && strings.Count(m.Body, "future") != 2 {
					return false
				}
			}
			return r.in.Manifests.Len() == 7
		}
		r.await("all are kept with what came later", func() bool { return later() })
		for _, o := range all {
			o.(metav1.Object).SetLabels(map[string]string{"b": "c"})
		}
		api.apply(all...)
		r.await("edits are followed", func() bool { return later(`"labels":{"b":"c"}`) })
		api.do(func() { api.future = false })
		r.hub.Leafy(LeafyClasses{})
		r.hub.LeafyGateways(LeafyGateways{})
		r.await("nothing is kept", func() bool { return r.in.Manifests.Len() == 0 && r.in.Roots.Len() == 4 })
		r.stop()
	}
}
