package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberCluster is a cluster of the fleet: how to reach it, where it is, and
// whether it may take traffic.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=member;members,categories=spillway
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.location.region`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.location.zone`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Endpoints",type=integer,JSONPath=`.status.endpoints`
// +kubebuilder:printcolumn:name="Drain",type=boolean,JSONPath=`.spec.drain`
// +kubebuilder:printcolumn:name="Taint",type=string,priority=1,JSONPath=`.spec.taints[*].key`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name: use a DNS label (a-z, 0-9 and -, at most 63 characters, no dots); it becomes part of locality and resource names"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the operator wants.
	//
	// +required
	Spec MemberClusterSpec `json:"spec"`

	// status is what was seen.
	//
	// +optional
	Status MemberClusterStatus `json:"status,omitzero"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MemberCluster `json:"items"`
}

// MemberClusterSpec is what the operator wants of a member.
//
// +kubebuilder:validation:XValidation:rule="!self.taints.exists(t, t.key == 'spillway.dev/joining') || oldSelf.taints.exists(t, t.key == 'spillway.dev/joining')",message="spec.taints: spillway.dev/joining can't come back once it is gone. Where taints is left out it is the default: write `taints: []`, or set drain to take traffic away"
type MemberClusterSpec struct {
	// connection says how to reach the member's API.
	//
	// +required
	Connection MemberConnection `json:"connection"`

	// clusterSet is the set of clusters in which one namespace name means the
	// same namespace.
	//
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterSet string `json:"clusterSet,omitempty"`

	// location is where the member is. Traffic goes to the nearest: same
	// zone, same region, then by distance. Endpoints that carry a zone of
	// their own keep it.
	//
	// +optional
	Location Location `json:"location,omitzero"`

	// networks names the networks its pods are in. Edges that share one dial
	// pods directly.
	//
	// +optional
	// +kubebuilder:default={"default"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	Networks []NetworkName `json:"networks,omitempty"`

	// podRanges are where its pods are. Endpoints that it names elsewhere are
	// refused. Left out or empty, they may be anywhere.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	PodRanges []CIDR `json:"podRanges,omitempty"`

	// taints keep traffic away. Left out, a new member has the taint
	// spillway.dev/joining with effect NoTraffic; an empty list means none.
	//
	// +optional
	// +kubebuilder:default={{key: "spillway.dev/joining", effect: "NoTraffic"}}
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	Taints []Taint `json:"taints,omitzero"`

	// drain moves all traffic away while another member can take it.
	//
	// +optional
	// +kubebuilder:default=false
	Drain bool `json:"drain"`

	// drainReason says why, for whoever reads it next.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DrainReason string `json:"drainReason,omitempty"`

	// staleAfter is how long the member's API may be away before its
	// endpoints rank behind fresh ones. Left out: never.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="spec.staleAfter: use 1s or more, or leave it out for never"
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`

	// leafDeletionPolicy says what happens to the objects we wrote into the
	// member when it leaves: Delete them, or Orphan them.
	//
	// +optional
	// +kubebuilder:default=Delete
	LeafDeletionPolicy LeafDeletionPolicy `json:"leafDeletionPolicy,omitempty"`

	// leafAddresses are what the member's own controllers may name as their
	// addresses in the statuses of leaves: ranges such as 192.0.2.0/24, host
	// names, and *.example.com for all names below. Others do not count. Left
	// out, none do.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	LeafAddresses []LeafAddress `json:"leafAddresses,omitempty"`

	// namespaces of the hub that the member calls otherwise. There are Services
	// that count, and leaves and keys are written there. No two may have the same
	// name, and a name that is given to one is not that of the hub's namespace of
	// this name. Those that are not listed have the name that the hub has.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Namespaces []MemberNamespace `json:"namespaces,omitempty"`

	// readNamespaces are the namespaces that are read of the member, as it calls
	// them. What is in others does not count, and no right is needed for it. Left out
	// or empty: all.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	ReadNamespaces []NamespaceName `json:"readNamespaces,omitempty"`

	// createNamespaces allows that a namespace is made in the member when a leaf
	// or a key is to be written there and it is not there. None is ever deleted.
	//
	// +optional
	// +kubebuilder:default=false
	CreateNamespaces bool `json:"createNamespaces,omitempty"`
}

// MemberNamespace says what a member calls a namespace of the hub.
//
// +kubebuilder:validation:XValidation:rule="!self.as.startsWith('kube-') && self.as != 'spillway-system'",message="spec.namespaces: as: those of Kubernetes (kube-*) and of Spillway (spillway-system) have no leaves"
type MemberNamespace struct {
	// workspace of the hub, where it has workspaces.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Workspace string `json:"workspace,omitempty"`

	// namespace of the hub.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// as is its name in the member.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	As string `json:"as"`
}

// NamespaceName is the name of a namespace.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NamespaceName string

// LeafAddress is a range of IP addresses, a host name, or all names below one.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:Pattern=`^([0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}|[0-9a-fA-F:]{2,39}/[0-9]{1,3}|(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
type LeafAddress string

// CIDR is a range of IP addresses, such as 10.1.0.0/16 or 2001:db8:1::/48.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:Pattern=`^([0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}|[0-9a-fA-F:]{2,39}/[0-9]{1,3})$`
type CIDR string

// MemberConnection says how to reach a member's API: exactly one way is set.
// More ways will be added.
//
// +kubebuilder:validation:XValidation:rule="[has(self.kubeconfigSecretRef)].filter(set, set).size() == 1",message="spec.connection: set exactly one way to reach the member; this version knows kubeconfigSecretRef"
type MemberConnection struct {
	// kubeconfigSecretRef is a Secret in the namespace `spillway serve` runs
	// in. Its kubeconfig may hold inline certificates, keys and tokens only.
	//
	// +optional
	KubeconfigSecretRef *SecretKeyRef `json:"kubeconfigSecretRef,omitempty"`
}

// SecretKeyRef is one key of a Secret.
type SecretKeyRef struct {
	// name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// key in the Secret's data.
	//
	// +optional
	// +kubebuilder:default=kubeconfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// Location is where a member is.
//
// +kubebuilder:validation:XValidation:rule="!has(self.zone) || has(self.region)",message="spec.location: a zone needs its region"
type Location struct {
	// provider that runs the place, such as aws or on-premises.
	//
	// +optional
	Provider PlaceName `json:"provider,omitempty"`

	// region as the provider names it.
	//
	// +optional
	Region PlaceName `json:"region,omitempty"`

	// zone inside the region, for endpoints that have none of their own.
	//
	// +optional
	Zone PlaceName `json:"zone,omitempty"`

	// coordinates order the members of other regions by distance.
	//
	// +optional
	Coordinates *Coordinates `json:"coordinates,omitempty"`
}

// Taint keeps traffic away from a member.
type Taint struct {
	// key is a label key.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`

	// value says more, for people and for tolerations of Placements.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect of the taint.
	//
	// +required
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is what a taint does.
//
// +kubebuilder:validation:Enum=NoTraffic
type TaintEffect string

// TaintNoTraffic keeps all traffic away.
const TaintNoTraffic TaintEffect = "NoTraffic"

// LeafDeletionPolicy says what happens to leaf objects when a member leaves.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type LeafDeletionPolicy string

// The values of LeafDeletionPolicy.
const (
	LeafDelete LeafDeletionPolicy = "Delete"
	LeafOrphan LeafDeletionPolicy = "Orphan"
)

// MemberClusterStatus is what was seen of a member. An absent count is
// unknown, not zero.
type MemberClusterStatus struct {
	// conditions: Accepted, Connected, Healthy, Synced.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// credentialExpiry is when the client certificate in use expires.
	//
	// +optional
	CredentialExpiry *metav1.Time `json:"credentialExpiry,omitempty"`

	// services counts the member's Services we know.
	//
	// +optional
	Services *int32 `json:"services,omitempty"`

	// endpoints counts the member's endpoints we know.
	//
	// +optional
	Endpoints *int32 `json:"endpoints,omitempty"`

	// leaves counts the objects of ours that are in the member.
	//
	// +optional
	Leaves *int32 `json:"leaves,omitempty"`

	// staleSince is when the member's API was last heard, while it is away.
	//
	// +optional
	StaleSince *metav1.Time `json:"staleSince,omitempty"`
}
