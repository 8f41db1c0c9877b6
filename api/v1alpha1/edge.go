package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Edge is a fleet of proxies with one place and public addresses. A proxy
// belongs to the Edge that its `node.cluster` names.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=spillway
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.locality.region`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.locality.zone`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.addresses[*].value`
// +kubebuilder:printcolumn:name="Proxies",type=integer,JSONPath=`.status.connectedProxies`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Drain",type=boolean,JSONPath=`.spec.drain`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name: use a DNS label (a-z, 0-9 and -, at most 63 characters, no dots); proxies carry it as node.cluster and in their SPIFFE ID"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.identity) || !has(self.spec.identity.spiffeIDs) || self.spec.identity.spiffeIDs.all(i, i.matches('/(edge|grpc)/[^/]+$') && i.substring(i.lastIndexOf('/') + 1) == self.metadata.name)",message="spec.identity.spiffeIDs: each must end in /edge/ or /grpc/ and the name of this Edge, such as spiffe://shop.example/edge/fra for fra"
type Edge struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the operator wants.
	//
	// +required
	Spec EdgeSpec `json:"spec"`

	// status is what was seen.
	//
	// +optional
	Status EdgeStatus `json:"status,omitzero"`
}

// EdgeList is a list of Edges.
//
// +kubebuilder:object:root=true
type EdgeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Edge `json:"items"`
}

// EdgeSpec is what the operator wants of an edge.
type EdgeSpec struct {
	// locality is where its proxies are. It decides which members are near.
	//
	// +optional
	Locality Locality `json:"locality,omitzero"`

	// coordinates order members and clients of other regions by distance.
	//
	// +optional
	Coordinates *Coordinates `json:"coordinates,omitempty"`

	// networks names the networks its proxies can dial. Members that share
	// one are dialled directly.
	//
	// +optional
	// +kubebuilder:default={"default"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	Networks []NetworkName `json:"networks,omitempty"`

	// addresses at which clients reach its proxies: what DNS answers and what
	// the status of an Ingress lists. Without any, the edge serves but is in
	// no answer.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=value
	Addresses []EdgeAddress `json:"addresses,omitempty"`

	// addressPool has the addresses of which classes with `address: Own` get
	// one of each family for themselves. A class keeps what it has while it is
	// here. One that is taken out is closed when no resolver has it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=address
	AddressPool []PoolAddress `json:"addressPool,omitempty"`

	// clientIP says how its proxies know the address of a client. Left out: a
	// client's address is that of its connection.
	//
	// +optional
	ClientIP *ClientIP `json:"clientIP,omitempty"`

	// identity says who may be a proxy of this edge.
	//
	// +optional
	Identity *EdgeIdentity `json:"identity,omitempty"`

	// drain takes the edge out of DNS answers while another can take its
	// clients. Its proxies keep serving those that still come.
	//
	// +optional
	// +kubebuilder:default=false
	Drain bool `json:"drain"`

	// drainReason says why, for whoever reads it next.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DrainReason string `json:"drainReason,omitempty"`
}

// Locality is a place, as in Envoy: each part lies inside the one before.
//
// +kubebuilder:validation:XValidation:rule="!has(self.zone) || has(self.region)",message="spec.locality: a zone needs its region"
// +kubebuilder:validation:XValidation:rule="!has(self.subZone) || has(self.zone)",message="spec.locality: a subZone needs its zone"
type Locality struct {
	// region as the provider names it.
	//
	// +optional
	Region PlaceName `json:"region,omitempty"`

	// zone inside the region.
	//
	// +optional
	Zone PlaceName `json:"zone,omitempty"`

	// subZone inside the zone.
	//
	// +optional
	SubZone PlaceName `json:"subZone,omitempty"`
}

// EdgeAddress is one public address of an edge.
type EdgeAddress struct {
	// value is an IPv4 or IPv6 address, or a host name.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || (!self.matches('^[0-9.]+$') && self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$'))",message="spec.addresses: use an IPv4 or IPv6 address without port, or a lower-case host name"
	Value string `json:"value"`
}

// PoolAddress is an address of an edge that one class may have for itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bindAddress) || ip(self.bindAddress).family() == ip(self.address).family()",message="spec.addressPool: bindAddress must be of the same family as address"
type PoolAddress struct {
	// address at which clients reach it, IPv4 or IPv6.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="spec.addressPool: use an IPv4 or IPv6 address without port"
	Address string `json:"address"`

	// bindAddress is what its proxies listen on, where that is another one:
	// behind a load balancer or address translation. Each proxy must have it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="spec.addressPool: use an IPv4 or IPv6 address without port"
	BindAddress string `json:"bindAddress,omitempty"`

	// autoAssign is false where only those get it that ask for it by its address:
	// Gateways in spec.addresses.
	//
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// routability is from where clients reach it, where that is not from everywhere:
	// Cluster for the ClusterIP of a Service before the proxies, or a name of your own,
	// such as example.com/vpc. Only those get the address that ask for it: Gateways in
	// spec.addresses (Gateway API, GEP-5093). It is said in their status, and not checked.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self == 'Cluster' || self.matches('^[^/]+/.+$') && !self.matches('^([^/]*[.])?k8s[.]io/')",message="spec.addressPool: use Cluster or a name such as example.com/vpc; k8s.io and its subdomains are reserved"
	Routability string `json:"routability,omitempty"`
}

// ClientIP says how proxies know the address of a client.
type ClientIP struct {
	// trustedHops is how many proxies that speak HTTP, such as a load balancer
	// or a CDN, are in front of the edge, each of which appends the address of
	// its own client to X-Forwarded-For. With 1, the last address in it is the
	// client's, and X-Forwarded-Proto is believed. Whoever reaches the edge past
	// them can claim any address.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	TrustedHops int32 `json:"trustedHops"`
}

// EdgeIdentity says who may be a proxy or a gRPC client of an edge.
type EdgeIdentity struct {
	// spiffeIDs that a client certificate may carry. Each ends in /edge/NAME,
	// for a proxy, or /grpc/NAME, for a gRPC client that needs none, with the
	// name of this Edge. Left out: these names in any trust domain that
	// `spillway serve` accepts.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	SPIFFEIDs []SPIFFEID `json:"spiffeIDs,omitempty"`
}

// SPIFFEID is a workload identity, by the SPIFFE-ID standard, section 2.
//
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^spiffe://[a-z0-9._-]+(/[A-Za-z0-9._-]+)+$`
type SPIFFEID string

// EdgeStatus is what was seen of an edge.
type EdgeStatus struct {
	// conditions: Accepted, Connected.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// addresses that are in use, sorted.
	//
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`

	// connectedProxies counts the proxies with a stream. Absent: unknown.
	//
	// +optional
	ConnectedProxies *int32 `json:"connectedProxies,omitempty"`
}
