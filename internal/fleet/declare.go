package fleet

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// program is a Program and the tables in between that only this package reads.
// Most of those are cut-offs: they hold the little that readers need of a row,
// so that a change of the rest stops there. A field is set before any function
// that reads it is called.
type program struct {
	*Program
	gw *gateways

	// classes
	kinds            []*inc.Table[model.Class, ClassInfo] // of other kinds of objects
	classesByDefault *inc.Index[model.Workspace, model.Class, model.ClassSpec]
	defaultClass     *inc.Table[model.Workspace, defaultClass]
	allEdges         *inc.Index[model.All, model.Edge, model.EdgeSpec]
	served           *inc.Table[model.Class, model.There]
	policies         *inc.Table[model.Class, policy]
	classesOfEdge    *inc.Index[model.Edge, model.Class, ClassInfo]
	tenured          *inc.Table[model.Edge, model.There] // edges of whose addresses classes have had some
	allViews         *inc.Index[model.All, model.Edge, View]
	edgesAt          *inc.Index[model.Vantage, model.Edge, View]
	hostsAt          *inc.Index[model.Vantage, model.HostKey, Spread]
	usersOf          *inc.Index[UseID, model.HostKey, Spread]

	// members
	ages       *inc.Table[model.Member, inc.Val[int64]] // when they came to be
	homes      *inc.Table[model.Member, home]
	stands     *inc.Table[model.Member, stand]
	twins      *inc.Index[model.ClusterID, model.Member, inc.Val[model.ClusterID]] // members by the cluster that they are
	fits       *inc.Table[model.Object, fitting]                                   // by Placement
	hidden     *inc.Index[model.All, model.Member, Missing]                        // missing, tainted or not
	allStands  *inc.Index[model.All, model.Member, stand]
	sights     *inc.Table[sightID, sight]
	missing    *inc.Index[model.All, model.Member, Missing]
	anyMissing *inc.Table[model.All, model.There]
	unread     *inc.Table[model.Vantage, steer.Unread]

	spacesOf *inc.Index[model.NamespaceID, model.Member, model.Spaces] // members that do so, by how most call it

	// placements, by targets
	placementsOf   *inc.Index[model.Object, model.Object, model.PlacementSpec] // that are roots
	placementsOver *inc.Index[model.Object, model.Object, model.PlacementSpec] // that many roots are below

	// backends
	tlsAt      *inc.Index[model.Backend, model.Object, model.BackendTLSSpec] // by targets
	tlsNear    *inc.Index[bucket, model.Object, model.BackendTLSSpec]        // by those of targets
	overTLS    *inc.Index[model.Backend, model.Backend, Backend]             // spoken to over TLS, by service
	ruled      *inc.Index[model.Backend, model.RulesID, Claim]               // named by rules, also by those that lose
	defaults   *inc.Index[model.Backend, model.Object, Attachment]           // named as default
	servicesOf *inc.Index[model.Service, model.MemberService, model.ServiceSpec]
	slicesOf   *inc.Index[model.MemberService, model.SliceID, model.Slice]
	exportsOf  *inc.Index[model.Service, model.MemberService, model.Export]
	importsOf  *inc.Index[model.Service, model.Object, model.ImportSpec] // by what members call it
	groupsOf   *inc.Index[GroupID, model.Backend, Backend]
	podPorts   *inc.Table[model.Service, inc.List[podPort]] // of Services of which a Route names a port of pods

	// leaves
	allGrounds *inc.Index[model.All, model.Member, LeafGround]
	leafStates *inc.Index[model.Object, model.LeafID, model.LeafState] // by root
	leafRooms  *inc.Table[GroupID, leafRoom]                           // of backends of roots that have leaves

	// what is not dialled
	edgesNear  *inc.Index[block, model.Edge, public]
	edgesNamed *inc.Index[publicName, model.Edge, public]
	guardsNear *inc.Index[block, Guarded, Guard]
	refusedOf  *inc.Index[model.Backend, GroupID, refusals]

	// hosts
	claims    *inc.Index[model.HostKey, model.RulesID, Claim]
	keepers   *inc.Table[model.HostKey, keeper]
	fallbacks *inc.Table[model.HostKey, fallback]
	fitness   *inc.Table[model.SecretID, fitness]

	// findings
	unmatched *inc.Index[model.Backend, GroupID, Shape]             // groups with pods, none of which has the port
	ofClaims  *inc.Index[model.Object, model.RulesID, claimTrouble] // of roots with trouble
	company   *inc.Table[model.HostKey, inc.List[model.Object]]     // roots of several namespaces that have a host, the first of each
	ofBelow   *inc.Table[model.Object, model.Findings]
	ofRoots   *inc.Table[model.Object, model.Findings]
	ofExports *inc.Table[model.Object, model.Findings]
	ofClasses *inc.Table[model.Object, model.Findings]
	ofMembers *inc.Table[model.Object, model.Findings]
	ofRefused *inc.Table[model.Object, model.Findings]
	ofPlaced  *inc.Table[model.Object, model.Findings]
}

// Declare declares the program's tables, inputs included. Once a graph. A class is
// what an IngressClass or a port of a Gateway asks for, or a row of one of kinds:
// nothing that follows from it knows which.
func Declare(g *inc.Graph, kinds ...*inc.Table[model.Class, ClassInfo]) *Program {
	d := &program{Program: &Program{In: inputs(g), Defaults: ingest.DefaultConfig()}, kinds: kinds}
	d.allEdges = inc.IndexBy(d.In.Edges, func(model.Edge, model.EdgeSpec) []model.All { return []model.All{{}} })
	d.declareGateways(g)
	d.declareClasses(g)
	d.declareViews(g)
	d.declareMembers(g)
	d.declarePlacements(g)
	d.declareFits(g)
	d.declareRoots(g)
	d.declareLeafPlaces(g)
	d.declarePublics(g)
	d.declareGuards()
	d.declareTLS(g)
	d.declareBackends(g)
	d.declareTLSUsers(g)
	d.declareLeafPolicies(g)
	d.gw.declareResolved(g)
	d.gw.declareKinds(g)
	d.declareLeafed(g)
	d.declareKeepers(g)
	d.declareHosts(g)
	d.DeclareFronts(g)
	d.declareUses()
	d.declareUnread(g)
	d.declarePaths(g)
	d.declarePlans(g)
	d.declareLeafSites(g)
	d.declareFindings(g)
	return d.Program
}

func inputs(g *inc.Graph) Inputs {
	return Inputs{
		Roots:          inc.Input[model.Object, model.Root](g, "roots"),
		GatewayClasses: inc.Input[model.GatewayClass, model.GatewayClassSpec](g, "gateway classes"),
		Gateways:       inc.Input[model.GatewayID, model.GatewaySpec](g, "gateway objects"),
		ListenerSets:   inc.Input[model.Object, model.ListenerSetSpec](g, "listener sets"),
		Grants:         inc.Input[model.Object, model.Grant](g, "grants"),
		Namespaces:     inc.Input[model.NamespaceID, model.Labels](g, "namespaces"),
		Exports:        inc.Input[model.MemberService, model.Export](g, "exports"),
		Imports:        inc.Input[model.Object, model.ImportSpec](g, "service imports"),
		Bundles:        inc.Input[model.Object, model.Bundle](g, "bundles"),
		TLSPolicies:    inc.Input[model.Object, model.BackendTLSSpec](g, "tls policies"),
		Placements:     inc.Input[model.Object, model.PlacementSpec](g, "placements"),
		Releases:       inc.Input[model.Object, model.Release](g, "releases"),
		Rules:          inc.Input[model.RulesID, model.Rules](g, "rules"),
		Problems:       inc.Input[model.Object, model.Findings](g, "problems"),
		Classes:        inc.Input[model.Class, model.ClassSpec](g, "classes"),
		Configs:        inc.Input[model.Config, model.ConfigSpec](g, "configs"),
		Edges:          inc.Input[model.Edge, model.EdgeSpec](g, "edges"),
		Zones:          inc.Input[model.ZoneID, model.ZoneSpec](g, "zones"),
		Certificates:   inc.Input[model.SecretID, model.Certificate](g, "certificates"),
		SecretSpaces:   inc.Input[model.All, inc.Val[model.Texts]](g, "namespaces of secrets"),
		Expired:        inc.Input[model.SecretID, model.There](g, "expired"),
		Members:        inc.Input[model.Member, model.MemberSpec](g, "members"),
		Sources:        inc.Input[model.Member, model.Source](g, "sources"),
		Outdated:       inc.Input[model.Member, model.There](g, "outdated"),
		Awaited:        inc.Input[model.Member, model.There](g, "awaited"),
		Overdue:        inc.Input[model.Member, model.There](g, "overdue"),
		Stale:          inc.Input[model.Member, model.There](g, "stale"),
		Clusters:       inc.Input[model.Member, inc.Val[model.ClusterID]](g, "clusters of members"),
		Contacts:       inc.Input[model.Member, model.Contact](g, "contacts"),
		Services:       inc.Input[model.MemberService, model.ServiceSpec](g, "services"),
		Slices:         inc.Input[model.SliceID, model.Slice](g, "slices"),
		Reports:        inc.Input[model.ReportID, model.Report](g, "reports"),
		Streams:        inc.Input[model.Edge, model.Streams](g, "streams"),
		Acks:           inc.Input[model.HostKey, model.EdgeSet](g, "acks"),
		Rejections:     inc.Input[model.RejectionID, model.Rejection](g, "rejections"),
		Reachable:      inc.Input[model.Edge, model.Reachability](g, "reachable"),
		Guarded:        inc.Input[Guarded, Guard](g, "guarded"),
		Tenures:        inc.Input[model.TenureID, model.Tenure](g, "tenures-last"),
		Manifests:      inc.Input[model.Object, model.Manifest](g, "manifests"),
		LeafStates:     inc.Input[model.LeafID, model.LeafState](g, "leaf states"),
		HeldKeys:       inc.Input[model.HeldKey, model.KeyState](g, "held keys"),
		LeavesWaiting:  inc.Input[model.Member, model.There](g, "leaves waiting"),
		Globals:        inc.Input[model.Object, model.GlobalSeen](g, "globals"),
		GlobalsOverdue: inc.Input[model.Object, model.There](g, "globals overdue"),
		Holdings:       inc.Input[model.Member, model.Holding](g, "leaf holdings"),
		LastSites:      inc.Input[model.Member, inc.Val[model.Texts]](g, "last sites"),
		Tombstones:     inc.Input[model.TombstoneID, model.Tombstone](g, "tombstones"),
		Diggings:       inc.Input[model.TombstoneID, model.Digging](g, "diggings"),
		Kept:           inc.Input[model.Backend, model.Kept](g, "kept-last"),
		Rollouts:       inc.Input[model.Object, model.Rollout](g, "rollouts-last"),
	}
}
