package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MemberTombstone remembers leaves of a MemberCluster that was deleted while the
// member was away. `spillway serve` writes it, looks now and then whether the
// member is reached again, deletes there what has our mark, and then deletes the
// MemberTombstone.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=tombstone;tombstones,categories=spillway
// +kubebuilder:printcolumn:name="Member",type=string,JSONPath=`.spec.member`
// +kubebuilder:printcolumn:name="Leaves",type=integer,JSONPath=`.spec.leaves`
// +kubebuilder:printcolumn:name="Pruned",type=string,JSONPath=`.status.conditions[?(@.type=="Pruned")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MemberTombstone struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was known when the MemberCluster left. It does not change.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec of a MemberTombstone does not change: delete it to give up on its leaves"
	Spec MemberTombstoneSpec `json:"spec"`

	// status is what was seen since.
	//
	// +optional
	Status MemberTombstoneStatus `json:"status,omitzero"`
}

// MemberTombstoneList is a list of MemberTombstones.
//
// +kubebuilder:object:root=true
type MemberTombstoneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MemberTombstone `json:"items"`
}

// MemberTombstoneSpec is what was known of a member when it left.
type MemberTombstoneSpec struct {
	// member is the name that the MemberCluster had.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Member string `json:"member"`

	// memberUID is the UID that the MemberCluster had.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	MemberUID string `json:"memberUID,omitempty"`

	// connection says how to reach the member's API, as the MemberCluster said.
	//
	// +required
	Connection MemberConnection `json:"connection"`

	// allowProxy: the kubeconfig may name a proxy, as the MemberCluster allowed.
	//
	// +optional
	AllowProxy bool `json:"allowProxy,omitempty"`

	// clusterUID is which cluster it is: the UID of its namespace kube-system.
	// Left out, it never told.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterUID string `json:"clusterUID,omitempty"`

	// hubUID is the hub whose mark the leaves have.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	HubUID string `json:"hubUID"`

	// leaves is how many there were, as far as known.
	//
	// +optional
	Leaves *int32 `json:"leaves,omitempty"`

	// keys is how many copies of TLS Secrets it may have. Left out: none that
	// are known.
	//
	// +optional
	Keys *int32 `json:"keys,omitempty"`

	// keyNamespaces are the member's namespaces in which these are.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	KeyNamespaces []string `json:"keyNamespaces,omitempty"`
}

// MemberTombstoneStatus is what was seen since the member left.
type MemberTombstoneStatus struct {
	// conditions: Pruned.
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
