package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GlobalIngress says where the hosts of a root are served: an Ingress, a Route
// of OpenShift or a route of the Gateway API, once it is ready. Spillway writes
// its spec; controllers of load balancers and of DNS read it, and say in its
// status what they made of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=globalingresses,shortName=gi,categories=spillway
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.rootRef.kind`
// +kubebuilder:printcolumn:name="Root",type=string,JSONPath=`.spec.rootRef.name`
// +kubebuilder:printcolumn:name="Hosts",type=string,JSONPath=`.spec.hosts[*]`
// +kubebuilder:printcolumn:name="Serving",type=integer,JSONPath=`.spec.serving`
// +kubebuilder:printcolumn:name="Sites",type=string,JSONPath=`.spec.sites[*].name`,priority=1
// +kubebuilder:printcolumn:name="Consumers",type=string,JSONPath=`.status.consumers[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GlobalIngress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what Spillway says.
	//
	// +required
	Spec GlobalIngressSpec `json:"spec"`

	// status is what consumers say.
	//
	// +optional
	Status GlobalIngressStatus `json:"status,omitzero"`
}

// GlobalIngressList is a list of GlobalIngresses.
//
// +kubebuilder:object:root=true
type GlobalIngressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GlobalIngress `json:"items"`
}

// How much a GlobalIngress says at most; what is more is counted in omitted.
const (
	MaxGlobalHosts      = 256
	MaxGlobalSites      = 64
	MaxGlobalAddresses  = 16 // of a site
	MaxGlobalExceptions = 32 // hosts that a site does not serve
)

// GlobalIngressSpec is where the hosts of a root are served.
type GlobalIngressSpec struct {
	// rootRef is the object whose hosts these are, in the same namespace.
	//
	// +required
	RootRef GlobalRootRef `json:"rootRef"`

	// hosts of the root, sorted. One that begins with "*." is a wildcard.
	// Hosts that an older object has altogether are not among them, nor those
	// that a DNSZone refuses to the namespace.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Hosts []string `json:"hosts"`

	// sites where they may be served, sorted by name.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Sites []GlobalSite `json:"sites,omitempty"`

	// serving is how many sites serve, with those that were left out.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Serving int32 `json:"serving"`

	// steering is how clients are shared among the sites that serve.
	//
	// +required
	Steering GlobalSteering `json:"steering"`

	// omitted counts what there is no room for.
	//
	// +optional
	Omitted *GlobalOmitted `json:"omitted,omitempty"`
}

// GlobalSteering is how clients are shared among sites. Nearest: each client is
// sent to the site that is nearest to it, by zone, region and distance. Which
// share of all clients a site gets is then not known before they come.
//
// +kubebuilder:validation:Enum=Nearest
type GlobalSteering string

// SteeringNearest is the only value of GlobalSteering by now.
const SteeringNearest GlobalSteering = "Nearest"

// GlobalRootRef names an object.
type GlobalRootRef struct {
	// group of the root.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`

	// kind of the root.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the root.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid of the root.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`
}

// GlobalSiteKind is what a site is.
//
// +kubebuilder:validation:Enum=Edge;Member
type GlobalSiteKind string

// The values of GlobalSiteKind.
const (
	SiteEdge   GlobalSiteKind = "Edge"   // proxies of an Edge
	SiteMember GlobalSiteKind = "Member" // a controller of a MemberCluster, by a leaf
)

// GlobalHealth is what is known of a site.
//
// +kubebuilder:validation:Enum=Up;Down;Unknown
type GlobalHealth string

// The values of GlobalHealth. Unknown is a third value, not a failure.
const (
	HealthUp      GlobalHealth = "Up"
	HealthDown    GlobalHealth = "Down"
	HealthUnknown GlobalHealth = "Unknown"
)

// GlobalSite is a place where clients are served.
type GlobalSite struct {
	// name of the Edge or MemberCluster. A site is listed twice if some of the
	// root's Gateways have addresses of their own there.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// kind: Edge or Member.
	//
	// +required
	Kind GlobalSiteKind `json:"kind"`

	// region where it is.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`

	// zone where it is.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`

	// coordinates where it is.
	//
	// +optional
	Coordinates *Coordinates `json:"coordinates,omitempty"`

	// addresses to which clients connect, sorted.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Addresses []GlobalAddress `json:"addresses,omitempty"`

	// health of it, as far as its proxies and probes of its addresses say.
	//
	// +required
	Health GlobalHealth `json:"health"`

	// serving says whether clients may be sent there now.
	//
	// +optional
	Serving bool `json:"serving"`

	// reason why it serves or not, in one word.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z]+$`
	Reason string `json:"reason"`

	// drain says that an administrator takes it out.
	//
	// +optional
	Drain bool `json:"drain,omitempty"`

	// weight is for a consumer that can't send each client to its nearest site:
	// 100 of each site that serves, 0 of others. It is no measured share.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// exceptHosts are those of hosts that it does not serve though it serves
	// others.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	ExceptHosts []string `json:"exceptHosts,omitempty"`
}

// GlobalAddressType is what an address is.
//
// +kubebuilder:validation:Enum=IPAddress;Hostname
type GlobalAddressType string

// The values of GlobalAddressType.
const (
	AddressIP       GlobalAddressType = "IPAddress"
	AddressHostname GlobalAddressType = "Hostname"
)

// GlobalAddress is an address of a site.
type GlobalAddress struct {
	// type: IPAddress or Hostname.
	//
	// +required
	Type GlobalAddressType `json:"type"`

	// value of it.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value"`
}

// GlobalOmitted counts what was left out.
type GlobalOmitted struct {
	// hosts that were left out.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Hosts int32 `json:"hosts,omitempty"`

	// sites that were left out: such that do not serve go first.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sites int32 `json:"sites,omitempty"`

	// addresses of sites that were left out.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Addresses int32 `json:"addresses,omitempty"`
}

// GlobalIngressStatus is what consumers say. Spillway writes nothing of it. Each
// consumer applies its own entry, by server-side apply with a field manager of
// its own.
type GlobalIngressStatus struct {
	// consumers that act on it.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Consumers []GlobalConsumer `json:"consumers,omitempty"`
}

// GlobalConsumer is what one consumer says.
type GlobalConsumer struct {
	// name of the consumer: a domain, a slash and a word, as of a controller.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// observedGeneration of the GlobalIngress that it acted on last.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// addresses where its load balancer is reached, if it has one.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Addresses []GlobalAddress `json:"addresses,omitempty"`

	// conditions of it. By convention Programmed: what follows from the spec is
	// in use.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
