package user

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an API object as JSON has it.
type Object = map[string]any

// Ours is the group and version of our own kinds.
var Ours = schema.GroupVersion{Group: "spillway.dev", Version: "v1alpha1"}

var (
	gatewayAPI  = schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}
	certManager = schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}
)

// resources of the kinds that are read and written.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":                        {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":                   {Version: "v1", Resource: "serviceaccounts"},
	"Secret":                           {Version: "v1", Resource: "secrets"},
	"Service":                          {Version: "v1", Resource: "services"},
	"ConfigMap":                        {Version: "v1", Resource: "configmaps"},
	"Pod":                              {Version: "v1", Resource: "pods"},
	"EndpointSlice":                    {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"Deployment":                       {Group: "apps", Version: "v1", Resource: "deployments"},
	"CustomResourceDefinition":         {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	"Ingress":                          {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"IngressClass":                     {Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"},
	"Role":                             {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"GatewayClass":                     gatewayAPI.WithResource("gatewayclasses"),
	"Gateway":                          gatewayAPI.WithResource("gateways"),
	"ListenerSet":                      gatewayAPI.WithResource("listenersets"),
	"HTTPRoute":                        gatewayAPI.WithResource("httproutes"),
	"GRPCRoute":                        gatewayAPI.WithResource("grpcroutes"),
	"TLSRoute":                         gatewayAPI.WithResource("tlsroutes"),
	"TCPRoute":                         gatewayAPI.WithResource("tcproutes"),
	"UDPRoute":                         gatewayAPI.WithResource("udproutes"),
	"BackendTLSPolicy":                 gatewayAPI.WithResource("backendtlspolicies"),
	"ReferenceGrant":                   gatewayAPI.WithResource("referencegrants"),
	"ServiceExport":                    {Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"},
	"ServiceImport":                    {Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"},
	"Route":                            {Group: "route.openshift.io", Version: "v1", Resource: "routes"},
	"MemberCluster":                    Ours.WithResource("memberclusters"),
	"Edge":                             Ours.WithResource("edges"),
	"GatewayClassConfig":               Ours.WithResource("gatewayclassconfigs"),
	"DNSZone":                          Ours.WithResource("dnszones"),
	"GlobalIngress":                    Ours.WithResource("globalingresses"),
	"Placement":                        Ours.WithResource("placements"),
	"ClusterTrustBundle":               {Group: "certificates.k8s.io", Version: "v1", Resource: "clustertrustbundles"},
	"Issuer":                           certManager.WithResource("issuers"), // of a lab that has cert-manager, as those below
	"Certificate":                      certManager.WithResource("certificates"),
	"Challenge":                        {Group: "acme.cert-manager.io", Version: "v1", Resource: "challenges"},
}

// Knows tells whether a Cluster can read and write objects of a kind.
func Knows(kind string) bool {
	_, known := resources[kind]
	return known
}

// Named is an object with what every kind has, and the rest. Cluster-wide
// objects have no namespace.
func Named(apiVersion, kind, namespace, name string, rest Object) Object {
	meta := Object{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	out := Object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	maps.Copy(out, rest)
	return out
}

// IngressClass is one of ours, with a GatewayClassConfig as its parameters.
func IngressClass(name, config string) Object {
	return Named("networking.k8s.io/v1", "IngressClass", "", name, Object{"spec": Object{
		"controller": "spillway.dev/ingress",
		"parameters": Object{"apiGroup": Ours.Group, "kind": "GatewayClassConfig", "name": config, "scope": "Cluster"},
	}})
}

// Condition is the condition of a type in an object's status, nil without one.
func Condition(o *unstructured.Unstructured, typ string) Object {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if m, ok := c.(Object); ok && m["type"] == typ {
			return m
		}
	}
	return nil
}
