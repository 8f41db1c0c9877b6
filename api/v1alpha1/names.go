package v1alpha1

// Names that users, controllers and data planes must agree on.
const (
	// ControllerIngress is the controller of the IngressClasses we serve.
	ControllerIngress = "spillway.dev/ingress"

	// ControllerGateway is the controller of the GatewayClasses we serve.
	ControllerGateway = "spillway.dev/gateway"

	// RouterName is what we call ourselves in the status of Routes of OpenShift.
	RouterName = "spillway"

	// AnnotationIngressClass names the IngressClass that serves a Route of OpenShift,
	// which has no field for it.
	AnnotationIngressClass = "spillway.dev/ingress-class"

	// FieldManager is who writes what we write, in metadata.managedFields.
	FieldManager = "spillway"

	// TaintJoining keeps traffic away from a member until an operator has
	// looked at it. It is the default of MemberCluster.spec.taints.
	TaintJoining = "spillway.dev/joining"

	// FinalizerMember holds a deleted MemberCluster back until its traffic
	// has been moved.
	FinalizerMember = "spillway.dev/member"

	// FinalizerLeaves is on a MemberCluster that may have leaves, before the first
	// is written. It holds a deleted one back until they are gone, or written down
	// in a MemberTombstone.
	FinalizerLeaves = "spillway.dev/leaves"

	// AnnotationForceDelete, set to "true" on a MemberCluster that is being
	// deleted, lets it go though hostnames are served nowhere else.
	AnnotationForceDelete = "spillway.dev/force-delete"

	// AnnotationAllowProxy, set to "true" on a MemberCluster, lets its kubeconfig
	// name a proxy.
	AnnotationAllowProxy = "spillway.dev/allow-proxy"

	// AnnotationDeleteLeaves, set to "true" on a MemberCluster, consents that many
	// of its leaves are deleted at once.
	AnnotationDeleteLeaves = "spillway.dev/delete-leaves"

	// AnnotationAdopt, on a root, consents that an object of its name that is in a
	// member already becomes its leaf: "true" in all members, or names of members,
	// with commas between them. On that object, in the member, "true" consents to
	// the same there; the policy of member-leaves.yaml asks for it.
	AnnotationAdopt = "spillway.dev/adopt"

	// AnnotationLeafDeletion, on a root, says what becomes of its leaves when they
	// are wanted no more: Delete or Orphan, as leafDeletionPolicy of a MemberCluster.
	// Leaves have it, too, so that it is known when the root is gone.
	AnnotationLeafDeletion = "spillway.dev/leaf-deletion-policy"

	// AnnotationRollout, on a root whose edits go to members in waves, says what is to
	// become of an edit that goes out or is stopped: "resume=TOKEN" or "back=TOKEN", with
	// the token that is told of it.
	AnnotationRollout = "spillway.dev/rollout"

	// AnnotationDistribute, on a Secret of the hub, consents that its key goes to
	// members with a leaf that needs it: "true", or the names of members, with
	// commas between.
	AnnotationDistribute = "spillway.dev/distribute"

	// LabelKey, on a Secret that we made in a member, is the end of its name, by
	// which those that are not wanted are told from others.
	LabelKey = "spillway.dev/key"

	// LabelHub, on a leaf in a member, is the UID of the hub whose leaf it is: the
	// mark. An object with the mark of another hub, or with none, is never touched.
	// Who takes the label away takes the object away from Spillway.
	LabelHub = "spillway.dev/hub"

	// LabelRootUID, on a leaf, is the UID of its root on the hub.
	LabelRootUID = "spillway.dev/root-uid"

	// AnnotationRoot, on a leaf, names its root: kind/workspace/namespace/name.
	AnnotationRoot = "spillway.dev/root"

	// AnnotationApplied, on a leaf, is a hash of what was applied last. It tells
	// that a field is wanted no more.
	AnnotationApplied = "spillway.dev/applied"

	// LabelManagedBy, on a GlobalIngress, says that Spillway wrote it: the mark.
	// One without it is never touched.
	LabelManagedBy = "spillway.dev/managed-by"

	// ManagedByServe is the value of LabelManagedBy.
	ManagedByServe = "serve"

	// AnnotationRootCreated, on a GlobalIngress, is when its root was made, in Unix
	// seconds: one that was made anew is another one.
	AnnotationRootCreated = "spillway.dev/root-created"

	// FinalizerPrefix begins the finalizers that controllers of Spillway hold.
	FinalizerPrefix = "spillway.dev/"

	// DefaultNetwork is the network of members and edges that name none.
	DefaultNetwork = "default"

	// DefaultClusterSet is the cluster set of members that name none.
	DefaultClusterSet = "default"

	// DefaultKubeconfigKey is the key of a kubeconfig in its Secret.
	DefaultKubeconfigKey = "kubeconfig"
)

// Condition types. Which kind carries which is said on its reference page.
const (
	// ConditionAccepted: the spec is understood and in use.
	ConditionAccepted = "Accepted"
	// ConditionResolvedRefs: everything the spec refers to exists.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionProgrammed: what follows from the spec has reached those who
	// carry it out.
	ConditionProgrammed = "Programmed"
	// ConditionConnected: the API of the member, or a proxy of the edge, is
	// there. It says nothing about traffic.
	ConditionConnected = "Connected"
	// ConditionServing: the proxies of the edge take connections.
	ConditionServing = "Serving"
	// ConditionHealthy: traffic reaches the member. Unknown is a third value,
	// not a failure.
	ConditionHealthy = "Healthy"
	// ConditionSynced: what we know of the member is current.
	ConditionSynced = "Synced"
	// ConditionPruned: leaves of a member that left are gone.
	ConditionPruned = "Pruned"
	// ConditionRolledOut: members have what roots with leaves say now.
	ConditionRolledOut = "RolledOut"

	// ConditionPlaced: members are chosen.
	ConditionPlaced = "Placed"
)

// Reasons why a Placement chooses a member, or not.
const (
	// MemberChosen: it is chosen.
	MemberChosen = "Chosen"
	// MemberHeld: its Service is gone, and it keeps its place for a while.
	MemberHeld = "Held"
	// MemberUnknown: it is chosen as long as nobody knows what it has.
	MemberUnknown = "Unknown"
	// MemberNotSelected: neither names nor the selector have it.
	MemberNotSelected = "NotSelected"
	// MemberTainted: a taint of it is not tolerated.
	MemberTainted = "Tainted"
	// MemberSameCluster: it is the cluster of an older member.
	MemberSameCluster = "SameCluster"
	// MemberNoService: it has no Service that the targets use, or adds nothing to it.
	MemberNoService = "NoService"
	// MemberBeyondCount: others go before it.
	MemberBeyondCount = "BeyondCount"
)

// Condition reasons.
const (
	// ReasonAccepted: Accepted is True.
	ReasonAccepted = "Accepted"
	// ReasonInvalid: Accepted is False; the message names the field.
	ReasonInvalid = "Invalid"
	// ReasonNotSupported: Accepted is False; the spec asks for something this
	// version does not do, such as a network that needs a gateway.
	ReasonNotSupported = "NotSupported"
	// ReasonConflict: Accepted is False; an older object has what this one asks for.
	ReasonConflict = "Conflict"

	// ReasonResolvedRefs: ResolvedRefs is True.
	ReasonResolvedRefs = "ResolvedRefs"
	// ReasonRefNotFound: ResolvedRefs is False; the message names the object.
	ReasonRefNotFound = "RefNotFound"
	// ReasonRefNotPermitted: ResolvedRefs is False; the other object's owner
	// does not allow the reference.
	ReasonRefNotPermitted = "RefNotPermitted"

	// ReasonProgrammed: Programmed is True.
	ReasonProgrammed = "Programmed"
	// ReasonPending: not decided yet.
	ReasonPending = "Pending"

	// ReasonConnected: Connected is True.
	ReasonConnected = "Connected"
	// ReasonSecretNotFound: the Secret or its key is missing.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonInvalidKubeconfig: the Secret's kubeconfig can't be parsed.
	ReasonInvalidKubeconfig = "InvalidKubeconfig"
	// ReasonUnsafeKubeconfig: the kubeconfig would run a program, read a
	// file, lead over a proxy or in clear.
	ReasonUnsafeKubeconfig = "UnsafeKubeconfig"
	// ReasonUnauthorized: the member's API refuses the credentials.
	ReasonUnauthorized = "Unauthorized"
	// ReasonFailing: the member's API answers, and not as it should.
	ReasonFailing = "Failing"
	// ReasonTooManyObjects: the member has more than is read of one.
	ReasonTooManyObjects = "TooManyObjects"
	// ReasonUnreachable: the member's API does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonAnotherCluster: what answers is another cluster than the one whose
	// leaves are meant.
	ReasonAnotherCluster = "AnotherCluster"
	// ReasonAnotherHub: leaves of another hub are meant.
	ReasonAnotherHub = "AnotherHub"
	// ReasonRegistered: the cluster is a MemberCluster again, which has its leaves.
	ReasonRegistered = "Registered"
	// ReasonLeavesLeft: leaves are there that should not be.
	ReasonLeavesLeft = "LeavesLeft"
	// ReasonKeysLeft: keys are there that should not be.
	ReasonKeysLeft = "KeysLeft"
	// ReasonNoProxy: no proxy of the edge is connected.
	ReasonNoProxy = "NoProxy"
	// ReasonServing: Serving is True.
	ReasonServing = "Serving"
	// ReasonNoListener: proxies are connected, and none acknowledged a listener.
	ReasonNoListener = "NoListener"
	// ReasonNoAnswer: proxies are connected, and no public address answers.
	ReasonNoAnswer = "NoAnswer"

	// ReasonHealthy: Healthy is True.
	ReasonHealthy = "Healthy"
	// ReasonPathDown: Healthy is False; every canary fails from some edge.
	ReasonPathDown = "PathDown"
	// ReasonNoEvidence: Healthy is Unknown; nobody has reported.
	ReasonNoEvidence = "NoEvidence"

	// ReasonSynced: Synced is True.
	ReasonSynced = "Synced"
	// ReasonStale: Synced is False; the last good rows are kept.
	ReasonStale = "Stale"

	// ReasonConflicted: Accepted is False; an older policy of the kind is for the
	// target, too (GEP-713).
	ReasonConflicted = "Conflicted"
	// ReasonTargetNotFound: Accepted is False; the target is not there (GEP-713).
	ReasonTargetNotFound = "TargetNotFound"

	// ReasonRolledOut: RolledOut is True.
	ReasonRolledOut = "RolledOut"
	// ReasonInWave: RolledOut is False; an edit is on its way.
	ReasonInWave = "InWave"
	// ReasonStopped: RolledOut is False; an edit goes to nobody else until its owner acts.
	ReasonStopped = "Stopped"
	// ReasonBack: RolledOut is False; the owner wants that members have what was before.
	ReasonBack = "Back"

	// ReasonPlaced: Placed is True.
	ReasonPlaced = "Placed"
	// ReasonNoMembers: Placed is False; no member is chosen.
	ReasonNoMembers = "NoMembers"
	// ReasonNotUsed: Placed is False; nothing is served by the target in question.
	ReasonNotUsed = "NotUsed"
)
