package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Placement says which members serve objects of its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=placements,shortName=plc,categories=spillway
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.targetRefs[*].kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRefs[*].name`
// +kubebuilder:printcolumn:name="Chosen",type=integer,JSONPath=`.status.chosen`
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].status`
// +kubebuilder:printcolumn:name="RolledOut",type=string,JSONPath=`.status.conditions[?(@.type=="RolledOut")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the owner wants.
	//
	// +required
	Spec PlacementSpec `json:"spec"`

	// status is what came of it.
	//
	// +optional
	Status PlacementStatus `json:"status,omitzero"`
}

// PlacementList is a list of Placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Placement `json:"items"`
}

// PlacementSpec is what the owner wants.
type PlacementSpec struct {
	// targetRefs are the objects that it is for, in its own namespace. What is
	// said of a route goes before what is said of its Gateway, and that before
	// what is said of the namespace.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=group
	// +listMapKey=kind
	// +listMapKey=name
	TargetRefs []PlacementTarget `json:"targetRefs"`

	// members are those that may serve the targets. Left out: all.
	//
	// +optional
	Members MemberSelection `json:"members,omitzero"`

	// rollout has an edit of a target that controllers of members serve (dataPlane:
	// Leaf) go to the members in waves. Left out: all have it at once.
	//
	// +optional
	Rollout *PlacementRollout `json:"rollout,omitempty"`
}

// PlacementRollout says how an edit goes to the members.
type PlacementRollout struct {
	// waves, in order. A member is in the first whose selector matches it, and who
	// matches none is in one more, the last.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Waves []RolloutWave `json:"waves"`

	// pause is for how long all must be well in a wave, from when its last member has
	// the edit, before the next one has it.
	//
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="spec.rollout.pause: use 0s to 24h"
	Pause *metav1.Duration `json:"pause,omitempty"`
}

// RolloutWave is a part of the members.
type RolloutWave struct {
	// selector over the labels of MemberClusters; an empty one matches all.
	//
	// +required
	Selector metav1.LabelSelector `json:"selector"`
}

// PlacementTarget is an object in the namespace of the Placement, or the namespace
// itself.
//
// +kubebuilder:validation:XValidation:rule="size(self.group) == 0 ? self.kind == 'Namespace' : self.group == 'networking.k8s.io' ? self.kind == 'Ingress' : self.group == 'route.openshift.io' ? self.kind == 'Route' : self.group == 'gateway.networking.k8s.io' && self.kind in ['Gateway', 'HTTPRoute', 'GRPCRoute', 'TLSRoute', 'TCPRoute', 'UDPRoute']",message="spec.targetRefs: name a Namespace of group \"\", an Ingress of group networking.k8s.io, a Route of group route.openshift.io, or a Gateway, HTTPRoute, GRPCRoute, TLSRoute, TCPRoute or UDPRoute of group gateway.networking.k8s.io"
type PlacementTarget struct {
	// group of the object; "" of a Namespace.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`

	// kind of the object.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object. Of a Namespace it is the Placement's own.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MemberSelection is the union of the members named and those selected; without
// either, all members. Of these, those fit whose taints are tolerated.
type MemberSelection struct {
	// selector over the labels of MemberClusters; an empty one selects all.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// names of MemberClusters.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Names []string `json:"names,omitempty"`

	// count is how many members serve a Service at most, of those that fit and
	// have it. Which these are changes as little as possible when members come
	// and go. Left out: all.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Count *int32 `json:"count,omitempty"`

	// hold is for how long a member that was chosen keeps its place when its
	// Service is gone. If the Service is back within it, nothing has moved. 0s:
	// the next member has the place at once.
	//
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="spec.members.hold: use 0s to 24h"
	Hold *metav1.Duration `json:"hold,omitempty"`

	// tolerations let members fit in spite of their taints.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Tolerations []Toleration `json:"tolerations,omitempty"`
}

// Toleration is for taints of members what a toleration of a pod is for taints of
// nodes.
//
// +kubebuilder:validation:XValidation:rule="has(self.key) || (has(self.operator) && self.operator == 'Exists')",message="spec.members.tolerations: without a key, operator must be Exists, which tolerates every taint"
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.operator) || self.operator != 'Exists'",message="spec.members.tolerations: with operator Exists leave value out"
type Toleration struct {
	// key of the taint. Left out, with operator Exists: every taint.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// operator: Exists, whatever the taint's value, or Equal.
	//
	// +optional
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`

	// value of the taint, with operator Equal.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect of the taint. Left out: every effect.
	//
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator says how the value of a taint is compared.
//
// +kubebuilder:validation:Enum=Exists;Equal
type TolerationOperator string

// The values of TolerationOperator.
const (
	TolerationExists TolerationOperator = "Exists"
	TolerationEqual  TolerationOperator = "Equal"
)

// PlacementStatus is what came of a Placement. An absent number is unknown, not zero.
type PlacementStatus struct {
	// ancestors are the targets, and what became of each.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Ancestors []PlacementAncestor `json:"ancestors,omitempty"`

	// conditions: Accepted, Placed; with spec.rollout RolledOut, too.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// chosen is how many members are chosen.
	//
	// +optional
	Chosen *int32 `json:"chosen,omitempty"`

	// total is how many members there are.
	//
	// +optional
	Total *int32 `json:"total,omitempty"`

	// members are those, by name, the chosen ones first, and why each is chosen
	// or not. The first 300 are listed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=300
	// +listType=map
	// +listMapKey=name
	Members []PlacementMember `json:"members,omitempty"`

	// edits are those that not all members have, of objects whose edits go out by this
	// Placement: those that are stopped first, then those that were taken back, then
	// the others, by object. The first 100 are listed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Edits []PlacementEdit `json:"edits,omitempty"`
}

// MaxPlacementMembers is how many members a status lists.
const MaxPlacementMembers = 300

// MaxPlacementEdits is how many edits a status lists.
const MaxPlacementEdits = 100

// PlacementAncestor is a target and what became of it, as GEP-713 has it.
type PlacementAncestor struct {
	// ancestorRef is the target.
	//
	// +required
	AncestorRef PlacementAncestorRef `json:"ancestorRef"`

	// controllerName is who says it.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	ControllerName string `json:"controllerName"`

	// conditions: Accepted, Placed.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlacementAncestorRef is a target.
type PlacementAncestorRef struct {
	// group of the target; "" of a Namespace.
	//
	// +optional
	Group string `json:"group,omitempty"`

	// kind of the target.
	//
	// +required
	Kind string `json:"kind"`

	// namespace of the target; left out of a Namespace.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the target.
	//
	// +required
	Name string `json:"name"`
}

// PlacementMember is a member and why it is chosen or not.
type PlacementMember struct {
	// name of the MemberCluster.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// chosen: it serves, if it has endpoints.
	//
	// +required
	Chosen bool `json:"chosen"`

	// reason, one word: Chosen, Held, Unknown, NotSelected, Tainted,
	// SameCluster, NoService or BeyondCount.
	//
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message says more.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PlacementEdit is an edit of an object that not all members have.
type PlacementEdit struct {
	// kind of the object: an Ingress, a Gateway, a route of the Gateway API, or a
	// Route of OpenShift.
	//
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// namespace of the object. That of a route may be another one than that of the
	// Placement of its Gateway.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace"`

	// name of the object.
	//
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// token by which the annotation spillway.dev/rollout of the object names the edit.
	//
	// +required
	// +kubebuilder:validation:MaxLength=64
	Token string `json:"token"`

	// reason, one word: Stopped, Back or InWave.
	//
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// wave is the last one that has the edit, from 1; 0: none.
	//
	// +required
	Wave int32 `json:"wave"`

	// waves is how many there are.
	//
	// +required
	Waves int32 `json:"waves"`

	// having is how many members have the edit.
	//
	// +required
	Having int32 `json:"having"`

	// members is how many have a leaf of the object, or should.
	//
	// +required
	Members int32 `json:"members"`

	// returnable: what was before the edit is known, so that all may have that again.
	//
	// +required
	Returnable bool `json:"returnable"`

	// message says why it is stopped, or for what it waits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
