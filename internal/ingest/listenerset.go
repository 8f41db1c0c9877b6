package ingest

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// ListenerSet reads listeners that are added to a Gateway. It gives a row even if
// nothing of it is valid: whose it is depends on the Gateway, and each listener has a
// status.
func ListenerSet(o *gatewayv1.ListenerSet) (model.Object, model.ListenerSetSpec, model.Findings) {
	g := &gateway{report: reportOf(object(model.ListenerSetKind, o))}
	spec := model.ListenerSetSpec{Created: created(o), Generation: o.Generation, Ours: wroteConditions(o.ManagedFields)}
	if ref := o.Spec.ParentRef; otherwise(ref.Group, gatewayv1.GroupName) == gatewayv1.GroupName && otherwise(ref.Kind, model.GatewayKind) == model.GatewayKind {
		spec.Gateway = model.GatewayID{Workspace: g.Object.Workspace, Namespace: otherwise(ref.Namespace, o.Namespace), Name: string(ref.Name)}
	}
	for i := range o.Spec.Listeners {
		spec.Listeners = append(spec.Listeners, g.listener(model.Field("spec.listeners").Index(i), (*gatewayv1.Listener)(&o.Spec.Listeners[i])))
	}
	return g.Object, spec, g.Findings()
}

// wroteConditions reports whether conditions are ours: the API server notes who applied
// a status.
func wroteConditions(by []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(by, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.FieldManager && e.FieldsV1 != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:conditions"`)
	})
}

// sets reads which ListenerSets may attach to a Gateway: none, where nothing is said.
func (g *gateway) sets(field model.Field, n *gatewayv1.ListenerNamespaces) *model.Attachable {
	if n == nil || n.From == nil || *n.From == gatewayv1.NamespacesFromNone {
		return nil
	}
	var out model.Attachable
	out.From, out.Selector = g.from(field, (*gatewayv1.RouteNamespaces)(n))
	return &out
}
