// Package fleet is the program: from what users wrote and members have, it
// derives who owns a host, which backends serve it, where, and in which shares.
// Everything that leaves Spillway is derived from these tables.
//
// It is pure. Only internal/app writes the inputs.
package fleet

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Inputs are the facts. Each is written by one shell, through internal/app.
type Inputs struct {
	Roots          *inc.Table[model.Object, model.Root]                   // Ingresses and routes of the hub
	Rules          *inc.Table[model.RulesID, model.Rules]                 // and what they ask for by host
	Problems       *inc.Table[model.Object, model.Findings]               // what ingest found wrong with one object
	Classes        *inc.Table[model.Class, model.ClassSpec]               // IngressClasses that are ours
	GatewayClasses *inc.Table[model.GatewayClass, model.GatewayClassSpec] // whose controller we are
	Gateways       *inc.Table[model.GatewayID, model.GatewaySpec]         // of any controller
	ListenerSets   *inc.Table[model.Object, model.ListenerSetSpec]        // of any controller
	Grants         *inc.Table[model.Object, model.Grant]                  // ReferenceGrants
	Namespaces     *inc.Table[model.NamespaceID, model.Labels]
	TLSPolicies    *inc.Table[model.Object, model.BackendTLSSpec]     // BackendTLSPolicies
	Placements     *inc.Table[model.Object, model.PlacementSpec]      // which members serve what
	Bundles        *inc.Table[model.Object, model.Bundle]             // certificates of authorities, in ConfigMaps of the hub
	Releases       *inc.Table[model.Object, model.Release]            // which the definition of the hub's GatewayClasses is of
	Configs        *inc.Table[model.Config, model.ConfigSpec]         // GatewayClassConfigs
	Edges          *inc.Table[model.Edge, model.EdgeSpec]             // Edges
	Zones          *inc.Table[model.ZoneID, model.ZoneSpec]           // DNSZones
	Certificates   *inc.Table[model.SecretID, model.Certificate]      // TLS Secrets of the hub
	SecretSpaces   *inc.Table[model.All, inc.Val[model.Texts]]        // namespaces whose Secrets are read; no row: all
	Expired        *inc.Table[model.SecretID, model.There]            // those that are over
	Members        *inc.Table[model.Member, model.MemberSpec]         // MemberClusters
	Sources        *inc.Table[model.Member, model.Source]             // how well a member's rows are known
	Awaited        *inc.Table[model.Member, model.There]              // members that may have been read before, though their status does not say so
	Outdated       *inc.Table[model.Member, model.There]              // members whose rows are of an old checkpoint: they were not read since
	Overdue        *inc.Table[model.Member, model.There]              // members that have been missing for longer than they are waited for
	Stale          *inc.Table[model.Member, model.There]              // members that have been away for longer than their StaleAfter
	Clusters       *inc.Table[model.Member, inc.Val[model.ClusterID]] // which cluster a member is, where it says so
	Contacts       *inc.Table[model.Member, model.Contact]            // how well its API answers, for status only
	Services       *inc.Table[model.MemberService, model.ServiceSpec]
	Slices         *inc.Table[model.SliceID, model.Slice]
	Exports        *inc.Table[model.MemberService, model.Export]  // ServiceExports of members
	Imports        *inc.Table[model.Object, model.ImportSpec]     // ServiceImports that are written on the hub
	Reports        *inc.Table[model.ReportID, model.Report]       // unexpired evidence about data paths
	Streams        *inc.Table[model.Edge, model.Streams]          // proxies of an edge
	Acks           *inc.Table[model.HostKey, model.EdgeSet]       // which edges acknowledged a host; latched: one that lost its stream still serves it
	Rejections     *inc.Table[model.RejectionID, model.Rejection] // recorded verdicts of proxies
	Reachable      *inc.Table[model.Edge, model.Reachability]     // our probe of an edge's public addresses
	Guarded        *inc.Table[Guarded, Guard]                     // what no endpoint may be
	Tenures        *inc.Table[model.TenureID, model.Tenure]       // addresses that classes had for themselves
	Manifests      *inc.Table[model.Object, model.Manifest]       // roots in full, of classes that members serve
	LeafStates     *inc.Table[model.LeafID, model.LeafState]      // what became of leaves
	HeldKeys       *inc.Table[model.HeldKey, model.KeyState]      // copies of Secrets that members may have
	LeavesWaiting  *inc.Table[model.Member, model.There]          // many leaves of it should go, and somebody must consent
	Globals        *inc.Table[model.Object, model.GlobalSeen]     // GlobalIngresses, whoever wrote them
	GlobalsOverdue *inc.Table[model.Object, model.There]          // those that have been on their way out for long
	Holdings       *inc.Table[model.Member, model.Holding]        // how many leaves it has
	LastSites      *inc.Table[model.Member, inc.Val[model.Texts]] // members that are being deleted, and stay: backends that nobody else has
	Tombstones     *inc.Table[model.TombstoneID, model.Tombstone] // leaves of members that left while they were away
	Diggings       *inc.Table[model.TombstoneID, model.Digging]   // what became of these
	Kept           *inc.Table[model.Backend, model.Kept]          // who had places of backends that Placements limit
	Rollouts       *inc.Table[model.Object, model.Rollout]        // which editions of roots members should have, where edits go in waves
}

// Program is the inputs and all that is derived from them for every output.
type Program struct {
	In Inputs

	// Defaults is the configuration of classes that name none. It may be
	// changed before the first commit.
	Defaults model.ConfigSpec

	Attachments    *inc.Table[model.Object, Attachment]               // root -> the classes that serve it
	Claims         *inc.Table[model.RulesID, Claim]                   // what attached roots ask for of a host
	ClassInfo      *inc.Table[model.Class, ClassInfo]                 // class -> its configuration and edges
	Views          *inc.Table[model.Edge, View]                       // edge -> what its proxies hold
	Ports          *inc.Table[ClassSet, Ports]                        // classes of an edge -> what it listens on, for whom
	Listening      *inc.Table[model.Edge, Sockets]                    // ports on which an edge has listeners, of addresses that classes share
	ListeningAlone *inc.Table[model.LeaseID, Sockets]                 // the same of addresses that a class has for itself
	Sites          *inc.Table[model.Edge, Site]                       // edge -> what Binding needs of it: cuts off changes of its classes
	Leases         *inc.Table[model.LeaseID, model.Lease]             // addresses that classes have for themselves
	Tenures        *inc.Table[model.TenureID, Tenure]                 // the same, each address, and those that they have left
	Holdings       *inc.Table[model.LeaseID, Holding]                 // what proxies have for a class there
	Outlets        *inc.Table[model.Class, *Outlets]                  // class -> the tables and vantages that have it
	Collections    *inc.Table[model.View, inc.List[model.Collection]] // view -> what it is made of
	Hosts          *inc.Table[model.HostKey, Host]                    // who owns which part of a host
	Realms         *inc.Table[model.HostKey, Realm]                   // whose wildcards are, and the hosts that nobody names
	Chains         *inc.Table[model.HostKey, Chain]                   // TLS names and their certificates
	Groups         *inc.Table[GroupID, Group]                         // one member's endpoints of a backend
	Shapes         *inc.Table[GroupID, Shape]                         // how many there are, by zone: cuts off changes of addresses
	Imports        *inc.Table[model.Service, Import]                  // what a ServiceImport of that name leads to
	Backends       *inc.Table[model.Backend, Backend]                 // which members have it, and how it is spoken to
	Spreads        *inc.Table[model.HostKey, Spread]                  // which fronts and vantages have a host or a TLS name by now, and whether others have it
	OwnHosts       inc.Keys[HostIn]                                   // hosts that no other class has, in the fronts of theirs
	Owners         *inc.Table[HostIn, Owner]                          // who has a host that several classes have
	Presences      *inc.Table[model.HostKey, Presence]                // where such hosts are by now, and TLS names
	Presented      *inc.Table[HostIn, Presented]                      // certificates of TLS names that several have, or that have several
	Relays         *inc.Table[ClassList, Relays]                      // connections and datagrams of listeners
	ServerNames    *inc.Table[ClassList, ServerNames]                 // what listeners with certificates present
	Conflicts      *inc.Table[model.Object, model.Findings]           // what others have of what an object asks for
	Needs          inc.Keys[NeedID]                                   // which front needs which backend
	Uses           inc.Keys[UseID]                                    // from which vantage which backend gets requests: a host there uses it
	Paths          *inc.Table[model.Path, PathHealth]                 // health of the way from a place to a member
	Plans          *inc.Table[UseID, steer.Plan]                      // the decision, for DNS and proxies alike
	Outcomes       *inc.Table[UseID, Reach]                           // what a plan comes to: cuts off changes of its shares
	Missing        *inc.Table[model.Member, Missing]                  // members whose rows we should have and do not
	Findings       *inc.Table[model.Object, model.Findings]           // everything wrong with an object, of all sources

	// Spaces are the namespaces that members call otherwise. SpaceIn reads them.
	Spaces    *inc.Table[model.Member, model.Spaces]
	anySpaces *inc.Table[model.All, model.There]

	// Leafy are the classes that controllers of members serve, and what leaves look
	// like in them. A class whose configuration is not there is none.
	Leafy *inc.Table[model.Class, Leafy]
	// LeafPlaces are the hosts of such classes that routes of the Gateway API ask for.
	LeafPlaces *inc.Table[model.Object, inc.List[LeafPlace]]
	// LeafPlacesOf are those of a route, if it named these hosts.
	LeafPlacesOf func(r *inc.Reader, k model.Object, hosts []model.Host) []LeafPlace
	// LeafSets are the ListenerSets of Gateways that members serve.
	LeafSets inc.Keys[model.Object]
	// LeafGrants are the ReferenceGrants that such routes, Gateways and ListenerSets need in
	// members.
	LeafGrants *inc.Table[model.Object, inc.List[model.Object]]
	// LeafPolicies are the BackendTLSPolicies that such routes need in members.
	LeafPolicies *inc.Table[model.Object, inc.List[model.Object]]
	// Leafed are roots of such classes, and LeafGrounds what their leaves depend on of members.
	Leafed      *inc.Table[model.Object, Leafed]
	LeafGrounds *inc.Table[model.Member, LeafGround]
	// Global are the classes whose roots have a GlobalIngress.
	Global *inc.Table[model.Class, model.There]
	// LeafSites is what leaves are in DNS, and LeafReaches how well they serve a host.
	LeafSites   *inc.Table[model.LeafID, LeafSite]
	LeafReaches *inc.Table[model.HostKey, LeafReaches]
	// SitesOfRoot finds what leaves of a root are in DNS, and LeafAsks what sites are asked
	// for by our probe.
	SitesOfRoot *inc.Index[model.Object, model.LeafID, LeafSite]
	LeafAsks    *inc.Table[model.Edge, inc.List[LeafAsk]]

	// RulesOf finds the rules of a root, whoever serves it.
	RulesOf *inc.Index[model.Object, model.RulesID, model.Rules]
	// Gateways are those of ours.
	Gateways *inc.Table[model.GatewayID, *Gateway]
	// Parts are what Gateways of ours and their ListenerSets have of a Gateway.
	Parts *inc.Table[model.Object, *Part]
	// Parents are what routes of the Gateway API attach to.
	Parents *inc.Table[model.Object, Parents]
	// AttachedTo finds the routes of a listener.
	AttachedTo *inc.Index[ListenerID, model.Object, Parents]
	// Resolved tells of routes that attach whether their references are resolved.
	Resolved *inc.Table[model.Object, Resolved]

	// Rejected has the routes that lost all of a parent to routes of another kind, and
	// AnyRejected is there while one has.
	Rejected    *inc.Table[model.Object, Rejections]
	AnyRejected *inc.Table[model.All, model.There]

	// TLSPolicies are what becomes of BackendTLSPolicies.
	TLSPolicies *inc.Table[model.Object, TLSPolicy]
	// TLSUsers are the Gateways of ours whose routes lead to what a policy is for.
	TLSUsers *inc.Table[model.Object, inc.List[model.GatewayID]]

	// Traits are what Placements look at of members, and AllTraits finds all of them.
	Traits    *inc.Table[model.Member, Traits]
	AllTraits *inc.Index[model.All, model.Member, Traits]
	// Kept is who has places of backends whose Placements hold them.
	Kept *inc.Table[model.Backend, Kept]
	// PlacedBackends finds the backends that the Placement of a target limits.
	PlacedBackends *inc.Index[model.Object, model.Backend, Backend]

	// HostsOfRoot finds the hosts of which a root won a part.
	HostsOfRoot *inc.Index[model.Object, model.HostKey, Spread]
	// RootsOfName finds the roots that list a TLS name.
	RootsOfName *inc.Index[model.HostKey, model.Object, Attachment]
	// EdgesOfView finds the edges that have a view.
	EdgesOfView *inc.Index[model.View, model.Edge, View]
	// HostsNamed finds the classes that have a host.
	HostsNamed *inc.Index[model.Host, model.HostKey, Host]
	// ChainsNamed finds the classes that have certificates for a TLS name.
	ChainsNamed *inc.Index[model.Host, model.HostKey, Chain]
	// Contests are the collections of all views of what several classes have, or may have.
	Contests *inc.Table[model.Collection, model.There]
	// ListenerHosts are the hosts of the listeners of a front of a Gateway, sorted.
	ListenerHosts *inc.Table[model.Class, inc.List[model.Host]]
	// DeepHosts finds the wildcards of any depth of a class, and what has them by now.
	DeepHosts *inc.Index[model.Class, model.HostKey, inc.List[model.Collection]]

	// Chained is the lists of several classes that a class shares listeners with
	// which have certificates with them.
	Chained *inc.Table[model.Class, inc.List[ClassList]]

	placed      *inc.Table[model.Object, inc.Val[model.Object]]  // a root's own Placement
	placedOver  *inc.Table[model.Object, inc.Val[model.Object]]  // that of a namespace or a Gateway
	placing     *inc.Table[model.Object, model.There]            // namespaces with Placements of roots or of themselves
	disputes    *inc.Table[model.HostKey, inc.List[model.Class]] // TLS names of which several classes have a say in whose certificate they have
	bids        *inc.Table[model.Class, *bid]
	realmsNamed *inc.Index[model.Host, model.HostKey, Realm]
	catchAlls   *inc.Table[model.All, inc.List[model.HostKey]] // classes with hosts that nobody names
	anyDeep     *inc.Table[model.All, model.There]             // some class may have wildcards of any depth
	deepening   group                                          // classes that have some
	relaying    group                                          // that have hosts which take no requests
	rivalling   group                                          // that have such hosts, or the same
	relaysOf    *inc.Index[model.Class, model.HostKey, relayedHost]
	contesting  group                                                  // that have hosts of others
	looking     group                                                  // for whose hosts proxies look up addresses
	disputing   group                                                  // that have a say in certificates of others
	chaining    group                                                  // that have certificates
	contestsOf  *inc.Index[model.Class, model.Collection, model.There] // what a class is in of what several have, or may have
	chainsOf    *inc.Index[model.Class, model.HostKey, Chain]
	presentedIn *inc.Index[model.Collection, HostIn, Presented] // of listeners
	tenants     *inc.Index[model.Class, model.Class, *bid]      // by who has addresses for them
	tenuresOf   *inc.Index[model.LeaseID, model.TenureID, Tenure]
	left        *inc.Index[model.Class, model.TenureID, Tenure] // by a class
	boundTo     *inc.Index[bound, model.TenureID, Tenure]
	holdingsAt  *inc.Index[model.Edge, model.LeaseID, Holding]
	ownAt       *inc.Index[model.Edge, model.Class, ClassInfo] // classes that want addresses of their own there
}

// Attachment says which of our classes serve a root, and what the root asks for
// as a whole. No row: none does.
type Attachment struct {
	Classes model.Classes
	Created int64 // as of the root, like the rest
	Default *model.Backend
	TLS     []model.TLS

	Attached bool // it is a route of the Gateway API
	Leaf     bool // controllers of members serve it, by leaves: its class is such
	Global   bool // it has a GlobalIngress once it is ready: some class of it is such

	Placed model.Texts // whose Placement (model.Placed) limits it in each of the classes, empty where none does; none: nowhere
}

// Equal reports whether both are the same.
func (a Attachment) Equal(b Attachment) bool {
	return a.Classes == b.Classes && a.Created == b.Created && a.Attached == b.Attached && a.Leaf == b.Leaf && a.Global == b.Global && a.Placed == b.Placed && model.EqualPtr(a.Default, b.Default) &&
		slices.EqualFunc(a.TLS, b.TLS, model.TLS.Equal)
}

// Claim is what a root asks for of a host, in each of its classes.
type Claim struct {
	Classes model.Classes
	Created int64          // when the root came to be
	Default *model.Backend // of the root
	Rules   model.Rules
	Placed  model.Texts // as of the root: rules are before that, Default is after
	places  *Places     // nil: the host in each of the classes
}

// Equal reports whether both ask for the same.
func (a Claim) Equal(b Claim) bool {
	return a.Classes == b.Classes && a.Created == b.Created && model.EqualPtr(a.Default, b.Default) && a.Rules.Equal(b.Rules) && a.Placed == b.Placed &&
		(a.places == nil) == (b.places == nil) && (a.places == nil || slices.Equal(*a.places, *b.places))
}

// keys are the hosts that it is for, given the one that the root names.
func (a Claim) keys(h model.Host) []model.HostKey {
	if a.places != nil {
		return *a.places
	}
	return keysOf(a.Classes, h)
}

// Wants reports whether a socket is for a port that the class wants.
func (a ClassInfo) Wants(s model.Socket) bool {
	if a.Relay.Number != 0 {
		return s.Shares(a.Relay)
	}
	return s.Traffic == model.Requests && s.Number == a.Config.Port(s.TLS) && (!s.TLS || s.Clients == a.Clients)
}

// ClassInfo is a front: which ports it wants at which edges, how it is served there,
// and since when and by which object. That of an IngressClass is its configuration
// resolved; one that names a configuration that is not there has no row and is not
// served.
type ClassInfo struct {
	Spec   model.ClassSpec
	Config model.ConfigSpec // the built-in defaults if the class names none
	Edges  []model.Edge     // sorted
	Client model.SecretID   // certificate that is shown to backends over TLS; zero: none

	Relay     model.Socket           // for connections or datagrams, of which no name is known; number 0: none
	Clients   model.ClientTrust      // that are let in at its HTTPS port
	Lines     bool                   // some listener takes no requests
	Requested []model.AddressRequest // what it may have for itself of edges' pools; none: one of each family

	// What the standard of its kind says of hosts. No object changes it, so that a
	// listener does not depend on what is attached.
	Deep      bool // its hosts may be wildcards of any depth
	Continues bool // what no rule of a host matches goes on to the next of Host.Wider that its table has
}

// Equal reports whether both are the same.
func (a ClassInfo) Equal(b ClassInfo) bool {
	return a.Spec.Equal(b.Spec) && a.Config.Equal(b.Config) && slices.Equal(a.Edges, b.Edges) && a.Client == b.Client && slices.Equal(a.Requested, b.Requested) && a.Relay == b.Relay && a.Clients == b.Clients && a.Lines == b.Lines &&
		a.Deep == b.Deep && a.Continues == b.Continues
}

// View is the view of an edge. An edge without classes has one too: its proxies
// hold nothing.
type View struct {
	Key     model.View
	Classes []model.Class // sorted
}

// Equal reports whether both are the same.
func (a View) Equal(b View) bool {
	return a.Key == b.Key && slices.Equal(a.Classes, b.Classes)
}

// Host is how a host of a class is served. The row of the empty host serves
// every host that no other row names.
type Host struct {
	Routes    []Route        // the first that a request matches has it; no two have one match
	Default   *Target        // what no route matches; nil: see Continues
	Roots     []model.Object // that won a part of it, in the order of their Origin
	Dial      model.Dial     // how new connections to endpoints are made, as the class says
	Lookups   bool           // proxies look up the addresses of some backend
	Traffic   model.Traffic  // what goes to its backends; but for Requests, all of it by one route
	Pass      bool           // of Connections: TLS ends at the backend
	Continues bool           // what nothing matches goes on to the next host of the table (model.Host.Wider); else it is answered 404
	Layered   bool           // routes are in order of precedence only among those of roots that name one host
	Secure    uint16         // the port of HTTPS that clients are led to; 0: the usual one
	Leaf      bool           // controllers of members serve it
	Passed    *Target        // where its connections go unread, on a port that takes requests of others over TLS; nil: they are not passed on
}

// Route says what becomes of what matches.
type Route struct {
	Match  model.Match
	Target Target
}

// Target is what becomes of requests, and the rule that says so. Its backends are
// those that may be used; without any, or if no member has any, and without an
// answer of its own, a request is answered by the kind of the root, of an Ingress
// with 503.
type Target struct {
	Root model.Object
	Rule string // the name of the rule; empty: it has none
	model.Action
	Nowhere bool // it is known that no member has any of the backends
}

// Used are the backends that proxies have clusters for.
func (a Target) Used() []model.WeightedBackend {
	if a.Nowhere {
		return nil
	}
	return a.Backends
}

// Mirrors are the backends that get copies of requests.
func (a Target) Mirrors() []model.Backend {
	if len(a.Used()) == 0 || a.Reply != nil {
		return nil
	}
	var out []model.Backend
	for _, m := range a.Filters.Mirrors() {
		out = append(out, m.Backend)
	}
	return out
}

// Auth is who is asked before a request goes to a backend. What the proxy answers itself
// is for everybody.
func (a Target) Auth() model.Auth {
	if len(a.Used()) == 0 || a.Reply != nil {
		return model.Auth{}
	}
	return a.Filters.Auth()
}

// Equal reports whether both are the same.
func (a Target) Equal(b Target) bool {
	return a.Root == b.Root && a.Rule == b.Rule && a.Nowhere == b.Nowhere && a.Action.Equal(b.Action)
}

// Equal reports whether both are the same.
func (a Host) Equal(b Host) bool {
	same := func(a, b Route) bool { return a.Match == b.Match && a.Target.Equal(b.Target) }
	return slices.EqualFunc(a.Routes, b.Routes, same) && slices.Equal(a.Roots, b.Roots) && a.Dial == b.Dial && a.Lookups == b.Lookups && a.Continues == b.Continues && a.Traffic == b.Traffic && a.Pass == b.Pass && a.Layered == b.Layered && a.Secure == b.Secure && a.Leaf == b.Leaf &&
		equalTargets(a.Default, b.Default) && equalTargets(a.Passed, b.Passed)
}

func equalTargets(a, b *Target) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// Chain is the certificates for one TLS name, oldest root first. All are usable
// and cover the name, and all are of the namespace that it belongs to; the
// empty host is for names that nobody else has.
type Chain struct {
	Secrets []model.SecretID // none: there is only a dispute
	Dispute *Dispute         // nil: all roots that list the name are of one namespace
}

// Dispute is about a TLS name that roots of several namespaces list.
type Dispute struct {
	Owner model.Object   // the root by which the name belongs to its namespace
	Lost  []model.Object // roots of others that list it, oldest first
}

// Equal reports whether both are the same.
func (a Chain) Equal(b Chain) bool {
	return slices.Equal(a.Secrets, b.Secrets) && (a.Dispute == nil) == (b.Dispute == nil) &&
		(a.Dispute == nil || a.Dispute.Owner == b.Dispute.Owner && slices.Equal(a.Dispute.Lost, b.Dispute.Lost))
}

// GroupID names what one member has of a backend.
type GroupID struct {
	Backend model.Backend
	Member  model.Member
}

// Compare orders by backend and member.
func (a GroupID) Compare(b GroupID) int {
	return cmp.Or(a.Backend.Compare(b.Backend), a.Member.Compare(b.Member))
}

// String is "shop/web/http@eu-1".
func (a GroupID) String() string { return a.Backend.String() + "@" + string(a.Member) }

// Group is one member's endpoints of a backend, resolved against its own Service.
type Group struct {
	AppProtocol string
	Endpoints   model.Endpoints // sorted by address and port, each once
	Unmatched   bool            // there are pods, but no slice has the port
	Rare        *RareGroup      // nil: all of it is zero
}

// RareGroup is what few groups have.
type RareGroup struct {
	External string    // DNS name of an ExternalName Service; no endpoints then
	Port     uint16    // of External
	Refused  []Refusal // what is not dialled, sorted
}

// External is the name of an ExternalName Service and the port that is dialled there;
// empty: it is of another type.
func (a Group) External() (name string, port uint16) {
	if a.Rare == nil {
		return "", 0
	}
	return a.Rare.External, a.Rare.Port
}

// Refused is what is not dialled, sorted.
func (a Group) Refused() []Refusal {
	if a.Rare == nil {
		return nil
	}
	return a.Rare.Refused
}

// Equal reports whether both are the same.
func (a Group) Equal(b Group) bool {
	return a.AppProtocol == b.AppProtocol && a.Endpoints.Equal(b.Endpoints) && a.Unmatched == b.Unmatched && a.Rare.equal(b.Rare)
}

func (a *RareGroup) equal(b *RareGroup) bool {
	return a == b || a != nil && b != nil && a.External == b.External && a.Port == b.Port && slices.Equal(a.Refused, b.Refused)
}

// Shape counts the endpoints of a group by zone. An ExternalName counts as one
// ready endpoint without a zone.
type Shape struct {
	Zones     []ZoneCount // sorted by zone
	Unmatched bool        // as of the group
}

// ZoneCount counts endpoints of one zone.
type ZoneCount struct {
	Zone            model.Zone
	Ready, Draining uint32
}

// Equal reports whether both are the same.
func (a Shape) Equal(b Shape) bool {
	return slices.Equal(a.Zones, b.Zones) && a.Unmatched == b.Unmatched
}

// Backend is what all members together make of a backend. Every backend that a
// root names has a row, if only with problems.
type Backend struct {
	AppProtocol string            // of the oldest member that has it
	Members     []model.Member    // that have the port and agree about it, with or without endpoints, sorted
	External    bool              // an ExternalName: its address is looked up by the proxy
	TLS         model.UpstreamTLS // as a BackendTLSPolicy says
	Problems    []Problem         // of members that have the Service and add nothing, sorted by member
	Placing     *Placing          // what a Placement makes of it; nil: none is for it
}

// Equal reports whether both are the same.
func (a Backend) Equal(b Backend) bool {
	return a.AppProtocol == b.AppProtocol && slices.Equal(a.Members, b.Members) && a.External == b.External && a.TLS == b.TLS &&
		slices.Equal(a.Problems, b.Problems) && a.Placing.equal(b.Placing)
}

// Problem is why a member that has the Service adds nothing to a backend.
type Problem struct {
	Member  model.Member
	Reason  model.Reason // of a model.Finding
	Message string
}

// NeedID says that hosts of a front need a backend, and how they connect to it.
type NeedID struct {
	Front   model.Collection
	Backend model.Backend
	Dial    model.Dial // as in Host
}

// Compare orders by front, backend and how they connect.
func (a NeedID) Compare(b NeedID) int {
	return cmp.Or(a.Front.Compare(b.Front), a.Backend.Compare(b.Backend), a.Dial.Compare(b.Dial))
}

// String is the front and the backend.
func (a NeedID) String() string { return a.Front.String() + " " + a.Backend.String() }

// UseID says that a backend gets requests from a vantage.
type UseID struct {
	Vantage model.Vantage
	Backend model.Backend
}

// Compare orders by vantage and backend.
func (a UseID) Compare(b UseID) int {
	return cmp.Or(a.Vantage.Compare(b.Vantage), a.Backend.Compare(b.Backend))
}

// String is the vantage and the backend.
func (a UseID) String() string { return a.Vantage.String() + " " + a.Backend.String() }

// PathHealth is the verdict about a path and what it rests on. A path that
// nobody reported on has no row: it is Unknown.
type PathHealth struct {
	Health  model.Health
	Proxies int // that reported
}

// Equal reports whether both are the same.
func (a PathHealth) Equal(b PathHealth) bool { return a == b }

// Reach is how well a backend is served from a vantage, or a host, which is as
// well as the backend of it that is served best.
type Reach struct {
	Room   steer.Room // NoRoom: by nobody
	Unsure bool       // a member whose rows are missing may serve it better
}

// Equal reports whether both are the same.
func (a Reach) Equal(b Reach) bool { return a == b }

// Missing marks a member that had objects and of which we have no rows, or
// none but old ones: what it may be part of is unsure.
type Missing struct {
	Serves  bool // it may get new requests: it does not drain
	Overdue bool // In.Overdue says so
	Old     bool // there are rows, of an old checkpoint: they are used where nothing better is known
	Barred  bool // it is tainted: who does not tolerate that has nothing of it
}

// Equal reports whether both are the same.
func (a Missing) Equal(b Missing) bool { return a == b }

func (a Missing) wait() steer.Wait {
	if a.Overdue {
		return steer.Overdue
	}
	return steer.Waiting
}
