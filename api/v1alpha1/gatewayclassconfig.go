package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GatewayClassConfig says what serves a class: which data plane, on which
// edges and ports, with which DNS zones. An IngressClass points at it by
// `spec.parameters`.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=gcc,categories=spillway
// +kubebuilder:printcolumn:name="Data plane",type=string,JSONPath=`.spec.dataPlane`
// +kubebuilder:printcolumn:name="HTTP",type=integer,JSONPath=`.spec.listeners.http`
// +kubebuilder:printcolumn:name="HTTPS",type=integer,JSONPath=`.spec.listeners.https`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayClassConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the operator wants.
	//
	// +optional
	// +kubebuilder:default={}
	Spec GatewayClassConfigSpec `json:"spec,omitzero"`

	// status is what was seen.
	//
	// +optional
	Status GatewayClassConfigStatus `json:"status,omitzero"`
}

// GatewayClassConfigList is a list of GatewayClassConfigs.
//
// +kubebuilder:object:root=true
type GatewayClassConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GatewayClassConfig `json:"items"`
}

// GatewayClassConfigSpec is what the operator wants of a class.
//
// +kubebuilder:validation:XValidation:rule="!has(self.leaf) || has(self.dataPlane) && self.dataPlane == 'Leaf'",message="spec.leaf: set dataPlane to Leaf, or leave leaf out"
// +kubebuilder:validation:XValidation:rule="!has(self.dataPlane) || self.dataPlane != 'Leaf' || !has(self.edges)",message="spec.edges: members serve a class with dataPlane Leaf, and no edges: leave edges out"
// +kubebuilder:validation:XValidation:rule="!has(self.dataPlane) || self.dataPlane != 'Leaf' || !has(self.address) || self.address == 'Edge'",message="spec.address: a class with dataPlane Leaf has no edges: leave address out"
type GatewayClassConfigSpec struct {
	// dataPlane that serves the class: Envoy on its edges, or Leaf, the
	// controllers that members have themselves. These are given a copy of each
	// Ingress, its leaf.
	//
	// +optional
	// +kubebuilder:default=Envoy
	DataPlane DataPlane `json:"dataPlane,omitempty"`

	// leaf says what is written in members, with dataPlane Leaf.
	//
	// +optional
	Leaf *LeafOptions `json:"leaf,omitempty"`

	// edges that serve the class. Left out: all.
	//
	// +optional
	Edges *EdgeSelection `json:"edges,omitempty"`

	// listeners are the ports its edges listen on.
	//
	// +optional
	// +kubebuilder:default={http: 80, https: 443}
	Listeners ListenerPorts `json:"listeners,omitzero"`

	// address says whether the class shares the addresses of its edges with
	// other classes (Edge), or has addresses of its own (Own): one of each
	// family of the addressPool of each edge. An edge without a free one does
	// not serve the class.
	//
	// +optional
	// +kubebuilder:default=Edge
	Address AddressSharing `json:"address,omitempty"`

	// tls says how the proxies come by certificates.
	//
	// +optional
	// +kubebuilder:default={}
	TLS TLSOptions `json:"tls,omitzero"`

	// zones are the DNSZones that answer for hosts of the class. A host
	// outside of them is served, but not in our DNS. Left out: every DNSZone.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	Zones []DNSZoneRef `json:"zones,omitempty"`

	// globalIngress says whether each Ingress and route of the class that is
	// ready has a GlobalIngress, for controllers of load balancers and of DNS.
	// Left out: Always with dataPlane Leaf, and Never with Envoy.
	//
	// +optional
	GlobalIngress GlobalIngressPolicy `json:"globalIngress,omitempty"`

	// externalNames says whether backends of type ExternalName are served.
	// They let whoever writes a Service make the edges send requests
	// anywhere, so they are denied by default.
	//
	// +optional
	// +kubebuilder:default=Deny
	ExternalNames ExternalNamePolicy `json:"externalNames,omitempty"`

	// pathHealth says how fast a member whose data path is silent is found.
	// The bound is failureThreshold × (interval + timeout) + 100ms.
	//
	// +optional
	// +kubebuilder:default={}
	PathHealth PathHealth `json:"pathHealth,omitzero"`

	// timeouts of the proxies.
	//
	// +optional
	// +kubebuilder:default={}
	Timeouts Timeouts `json:"timeouts,omitzero"`
}

// DataPlane is what serves a class.
//
// +kubebuilder:validation:Enum=Envoy;Leaf
type DataPlane string

// The values of DataPlane.
const (
	DataPlaneEnvoy DataPlane = "Envoy" // Envoy, driven by xDS
	DataPlaneLeaf  DataPlane = "Leaf"  // controllers of members
)

// LeafOptions say what leaves look like in members.
type LeafOptions struct {
	// ingressClassName of leaves. Left out: none, so that the default class of
	// the member has them.
	//
	// +optional
	IngressClassName LeafClassName `json:"ingressClassName,omitempty"`

	// gatewayClassName of leaves of Gateways. Without it a GatewayClass can't
	// have the configuration.
	//
	// +optional
	GatewayClassName LeafClassName `json:"gatewayClassName,omitempty"`

	// annotations of an object that its leaves have too, by name; a name that
	// ends in / stands for all that begin with it. Those by which other tools
	// and Kubernetes keep track of an object never go along.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	Annotations []AnnotationPattern `json:"annotations,omitempty"`

	// tls says which Secrets leaves name under tls: those that members have
	// themselves (Local), or copies that are made of those of the hub where these
	// allow it by the annotation spillway.dev/distribute (Distribute).
	//
	// +optional
	// +kubebuilder:default=Local
	TLS LeafTLS `json:"tls,omitempty"`

	// members that want it otherwise.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	Members []LeafMember `json:"members,omitempty"`
}

// LeafMember says what leaves look like in one member.
type LeafMember struct {
	// name of the MemberCluster.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// ingressClassName of leaves there. Left out: that of all members.
	//
	// +optional
	IngressClassName LeafClassName `json:"ingressClassName,omitempty"`

	// tls there. Left out: as in all members.
	//
	// +optional
	TLS LeafTLS `json:"tls,omitempty"`

	// gatewayClassName of leaves of Gateways there. Left out: that of all members.
	//
	// +optional
	GatewayClassName LeafClassName `json:"gatewayClassName,omitempty"`

	// annotations that leaves have there, whatever their root says.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// LeafTLS says whose Secrets leaves name.
//
// +kubebuilder:validation:Enum=Local;Distribute
type LeafTLS string

// The values of LeafTLS.
const (
	LeafTLSLocal      LeafTLS = "Local"      // the member's own
	LeafTLSDistribute LeafTLS = "Distribute" // copies of the hub's, where these allow it
)

// LeafClassName is the name of an IngressClass, or a GatewayClass, of a member.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
type LeafClassName string

// AnnotationPattern is the name of an annotation, or the beginning of some up to a /.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?)$`
type AnnotationPattern string

// AnnotationValue is what an annotation says.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// EdgeSelection is the union of the edges named and those selected.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.names)",message="spec.edges: set selector or names, or leave edges out for all"
type EdgeSelection struct {
	// selector over the labels of Edges; an empty one selects all.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// names of Edges.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Names []string `json:"names,omitempty"`
}

// ListenerPorts are the ports edges listen on.
//
// +kubebuilder:validation:XValidation:rule="self.http != self.https",message="spec.listeners: http and https need different ports"
type ListenerPorts struct {
	// http port.
	//
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTP int32 `json:"http,omitempty"`

	// https port.
	//
	// +optional
	// +kubebuilder:default=443
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTPS int32 `json:"https,omitempty"`
}

// TLSOptions say how the proxies of a class come by certificates.
type TLSOptions struct {
	// certificates says whether a proxy holds all certificates of the class
	// from the start (Static), or fetches each when a client first asks for
	// its name (OnDemand). OnDemand costs session resumption and HTTP/3; in
	// return the listener does not change when certificates come and go, which
	// pays with more than 300 certificates.
	//
	// +optional
	// +kubebuilder:default=Static
	Certificates CertificateDelivery `json:"certificates,omitempty"`
}

// CertificateDelivery says when a proxy gets a certificate.
//
// +kubebuilder:validation:Enum=Static;OnDemand
type CertificateDelivery string

// The values of CertificateDelivery.
const (
	CertificatesStatic   CertificateDelivery = "Static"
	CertificatesOnDemand CertificateDelivery = "OnDemand"
)

// AddressSharing says whose addresses a class has.
//
// +kubebuilder:validation:Enum=Edge;Own
type AddressSharing string

// The values of AddressSharing.
const (
	AddressOfEdge AddressSharing = "Edge"
	AddressOwn    AddressSharing = "Own"
)

// DNSZoneRef names a DNSZone.
type DNSZoneRef struct {
	// namespace of the DNSZone.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the DNSZone.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// GlobalIngressPolicy says whether roots have a GlobalIngress.
//
// +kubebuilder:validation:Enum=Always;Never
type GlobalIngressPolicy string

// The values of GlobalIngressPolicy.
const (
	GlobalIngressAlways GlobalIngressPolicy = "Always"
	GlobalIngressNever  GlobalIngressPolicy = "Never"
)

// ExternalNamePolicy says whether ExternalName backends are served.
//
// +kubebuilder:validation:Enum=Deny;Allow
type ExternalNamePolicy string

// The values of ExternalNamePolicy.
const (
	ExternalNamesDeny  ExternalNamePolicy = "Deny"
	ExternalNamesAllow ExternalNamePolicy = "Allow"
)

// PathHealth says how the path from an edge's place to a member is watched.
// A silent path is found after at most failureThreshold × (interval +
// timeout) + 100ms, the time between two reports: 1 s by default.
type PathHealth struct {
	// interval between two checks of one canary.
	//
	// +optional
	// +kubebuilder:default="150ms"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('50ms') && duration(self) <= duration('1m')",message="spec.pathHealth.interval: use 50ms to 1m"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// timeout of one check.
	//
	// +optional
	// +kubebuilder:default="300ms"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('1m')",message="spec.pathHealth.timeout: use 10ms to 1m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// failureThreshold is how many checks in a row fail before a canary
	// counts as failed.
	//
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// successThreshold is how many checks in a row succeed before a failed
	// canary counts as working.
	//
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
}

// Timeouts of the proxies of a class.
type Timeouts struct {
	// connect bounds the opening of a connection to an endpoint.
	//
	// +optional
	// +kubebuilder:default="500ms"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('1m')",message="spec.timeouts.connect: use 10ms to 1m"
	Connect *metav1.Duration `json:"connect,omitempty"`

	// perTry is how long one attempt of a request that is safe to retry may
	// stay without an answer before another endpoint is tried.
	//
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('50ms') && duration(self) <= duration('1h')",message="spec.timeouts.perTry: use 50ms to 1h"
	PerTry *metav1.Duration `json:"perTry,omitempty"`
}

// GatewayClassConfigStatus is what was seen of a class's configuration.
type GatewayClassConfigStatus struct {
	// conditions: Accepted, ResolvedRefs.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
