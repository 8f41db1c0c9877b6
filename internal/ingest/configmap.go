package ingest

import (
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

// isConfigMap reports whether a reference is to a ConfigMap.
func isConfigMap(group gatewayv1.Group, kind gatewayv1.Kind) bool {
	return group == "" && kind == "ConfigMap"
}
