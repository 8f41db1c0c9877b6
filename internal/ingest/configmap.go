package ingest

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// bundleKey is the key of a ConfigMap that holds certificates of authorities
// (BackendTLSPolicy.spec.validation.caCertificateRefs).
const bundleKey = "ca.crt"

// ConfigMap reads the certificates of authorities in a ConfigMap; false: it has none.
// What is wrong with them is in the row: whether it matters to anybody depends on who
// refers to it.
func ConfigMap(o *corev1.ConfigMap) (model.Object, model.Bundle, bool) {
	name := object("ConfigMap", o)
	text, ok := o.Data[bundleKey]
	if !ok {
		return name, model.Bundle{}, false
	}
	if chain, _, err := parseChain([]byte(text)); err == nil {
		return name, model.Bundle{PEM: string(chain)}, true
	}
	return name, model.Bundle{Problem: "its key " + bundleKey + " holds no certificates, or one that can't be parsed: write PEM"}, true
}

// ClusterTrustBundle reads the certificates of authorities in a ClusterTrustBundle.
func ClusterTrustBundle(o *certificatesv1.ClusterTrustBundle) (model.Object, model.Bundle) {
	name := object(trustBundleKind, o)
	if chain, _, err := parseChain([]byte(o.Spec.TrustBundle)); err == nil {
		return name, model.Bundle{PEM: string(chain)}
	}
	return name, model.Bundle{Problem: "its trustBundle holds no certificates, or one that can't be parsed"}
}

const trustBundleKind = "ClusterTrustBundle"

// authorities is the object of a reference to certificates of authorities; false: there
// are none in that kind.
func authorities(workspace, namespace string, ref gatewayv1.LocalObjectReference) (model.Object, bool) {
	switch {
	case ref.Group == "" && ref.Kind == "ConfigMap":
		return model.ConfigMap(workspace, namespace, string(ref.Name)), true
	case ref.Group == certificatesv1.GroupName && ref.Kind == trustBundleKind:
		return model.Object{Workspace: workspace, Kind: trustBundleKind, Name: string(ref.Name)}, true
	}
	return model.Object{}, false
}

// noAuthorities tells of a reference to what holds no certificates of authorities.
const noAuthorities = "a %s holds no certificates of authorities: name a ConfigMap that has them under " + bundleKey + ", or a ClusterTrustBundle"
