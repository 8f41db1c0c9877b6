// Package v1alpha1 holds the kinds of group spillway.dev that users write on
// the hub: MemberCluster, Edge, GatewayClassConfig, DNSZone and Placement.
//
// Its contract: types, defaults and validation only (as markers, from which the
// embedded CRDs are generated), the names others must agree on (conditions,
// reasons, taints, finalizers), no logic and no I/O. It imports apimachinery
// only, so that anybody can import it. Regenerate with `make generate` after a
// change of a type or a marker.
//
// +kubebuilder:object:generate=true
// +groupName=spillway.dev
package v1alpha1
