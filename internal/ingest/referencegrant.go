package ingest

import (
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// ReferenceGrant reads a ReferenceGrant.
func ReferenceGrant(o *gatewayv1.ReferenceGrant) (model.Object, model.Grant) {
	var out model.Grant
	for _, from := range o.Spec.From {
		out.From = append(out.From, model.GrantFrom{Group: string(from.Group), Kind: string(from.Kind), Namespace: string(from.Namespace)})
	}
	for _, to := range o.Spec.To {
		out.To = append(out.To, model.GrantTo{Group: string(to.Group), Kind: string(to.Kind), Name: otherwise(to.Name, "")})
	}
	return object("ReferenceGrant", o), out
}

// Namespace reads the labels of a namespace, by which listeners choose routes.
func Namespace(o *corev1.Namespace) (model.NamespaceID, model.Labels) {
	return model.NamespaceID{Workspace: string(Workspace(o)), Name: o.Name}, o.Labels
}
