package hub

import (
	routev1 "github.com/openshift/api/route/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// kind is how the API names a kind of object.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

var gatewayAPI = schema.GroupVersion(gatewayv1.GroupVersion)

// kinds are the objects of the hub that may be written about.
var kinds = map[string]kind{
	"Ingress":            {networkingv1.SchemeGroupVersion.WithResource("ingresses"), true},
	"IngressClass":       {networkingv1.SchemeGroupVersion.WithResource("ingressclasses"), false},
	"DNSZone":            {v1alpha1.GroupVersion.WithResource("dnszones"), true},
	"Placement":          {v1alpha1.GroupVersion.WithResource("placements"), true},
	model.GlobalKind:     {v1alpha1.GroupVersion.WithResource("globalingresses"), true},
	"Edge":               {v1alpha1.GroupVersion.WithResource("edges"), false},
	"GatewayClassConfig": {v1alpha1.GroupVersion.WithResource("gatewayclassconfigs"), false},
	"MemberCluster":      {v1alpha1.GroupVersion.WithResource("memberclusters"), false},
	"GatewayClass":       {gatewayAPI.WithResource("gatewayclasses"), false},
	"Gateway":            {gatewayAPI.WithResource("gateways"), true},
	"ListenerSet":        {gatewayAPI.WithResource("listenersets"), true},
	"BackendTLSPolicy":   {gatewayAPI.WithResource("backendtlspolicies"), true},
	"HTTPRoute":          {gatewayAPI.WithResource("httproutes"), true},
	"GRPCRoute":          {gatewayAPI.WithResource("grpcroutes"), true},
	"TLSRoute":           {gatewayAPI.WithResource("tlsroutes"), true},
	"TCPRoute":           {gatewayAPI.WithResource("tcproutes"), true},
	"UDPRoute":           {gatewayAPI.WithResource("udproutes"), true},
	model.OpenShiftRoute: {routev1.GroupVersion.WithResource("routes"), true},
}

// onHub reports whether an object is one of the hub that we may write about.
func onHub(o model.Object) (kind, bool) {
	k, ok := kinds[o.Kind]
	return k, ok && o.Member == "" && o.Name != ""
}

var events = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
