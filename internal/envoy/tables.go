package envoy

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Tables are the resources of all views, and what is wrong with them.
type Tables struct {
	Listeners   *inc.Table[Key, Resource]
	Scopes      *inc.Table[Key, Resource]
	Routes      *inc.Table[Key, Resource]
	Clusters    *inc.Table[Key, Resource]
	Assignments *Assignments
	Secrets     *inc.Table[Key, Resource]

	// Parts is the number of parts of each backend that is split, LastParts what
	// it was: see parts.
	Parts     *inc.Table[model.Backend, Parts]
	LastParts *inc.Table[model.Backend, Parts]

	// Findings are what proxies rejected, by the objects it was made of, and
	// what could not be given to a class or a root because an older one has it.
	Findings *inc.Table[model.Object, model.Findings]

	// Clients are the resources of gRPC clients, which need no proxy.
	Clients *ClientTables

	d *derivation
}

// Type is the resources of a type, with its URL.
type Type struct {
	URL   string
	Table Rows
}

// Rows are resources by view and name: a table, or what is as good as one.
type Rows interface {
	Get(r *inc.Reader, k Key) (Resource, bool)
	Keys() []Key
	Watch(f func([]inc.Change[Key, Resource]))
}

// Types lists the tables in the order in which new names are sent: a resource
// comes after those it refers to.
func (t *Tables) Types() []Type {
	return []Type{
		{SecretType, t.Secrets}, {ClusterType, t.Clusters}, {AssignmentType, t.Assignments},
		{ListenerType, t.Listeners}, {ScopeType, t.Scopes}, {RouteType, t.Routes},
	}
}

// table returns the table of a type, nil for a type that is not ours.
func (t *Tables) table(typeURL string) Rows { return tableOf(t.Types(), typeURL) }

func tableOf(types []Type, typeURL string) Rows {
	for _, each := range types {
		if each.URL == typeURL {
			return each.Table
		}
	}
	return nil
}

// derivation is what the derived tables share: the program, and the tables in
// between. A field is set before any function that reads it is called.
type derivation struct {
	p     *fleet.Program
	sizes sizes

	timings         *inc.Table[model.Class, timing]
	ports           *inc.Table[model.View, ports]
	clusterNames    *inc.Table[model.Backend, clusterName]
	fragments       *inc.Table[model.HostKey, fragment]
	chainsOfClass   *inc.Index[model.Class, model.HostKey, fleet.Chain]
	hostTables      *inc.Table[model.HostKey, listed]
	scopeOfKey      *inc.Index[Key, scopeID, placed]
	owners          *inc.Table[scopeID, owner]
	routings        *inc.Table[scopeID, routing]
	placed          *inc.Table[scopeID, placed]
	chains          *inc.Table[classList, chains]
	demandLists     *inc.Table[shelf[classList], onShelf]
	sharedLists     *inc.Table[shelf[classList], onShelf] // of several classes
	demanders       *inc.Table[model.HostKey, demandedBy]
	presented       *inc.Table[certID, presented]
	presentedOfList *inc.Index[classList, certID, presented]
	shapesOfBackend *inc.Index[model.Backend, fleet.GroupID, fleet.Shape]
	lastParts       *inc.Table[model.Backend, Parts]
	split           *inc.Table[model.Backend, Parts]
	shapes          *inc.Table[clusterShape, shape]
	needs           *inc.Table[fleet.NeedID, clusterName]
	needOfKey       *inc.Index[Key, fleet.NeedID, clusterName]
	assigned        *inc.Table[fleet.UseID, assigned]
	sealedSecrets   *inc.Table[model.SecretID, sealed]
	hostsOfUser     *inc.Index[user, model.HostKey, fleet.Host]
	users           *inc.Table[user, model.There] // of views with several classes
	hostsOfSecret   *inc.Index[model.SecretID, model.HostKey, fleet.Chain]
	secretsOfView   *inc.Table[model.View, secretSet]
	demanded        *inc.Table[certID, demanded]
	demandOfKey     *inc.Index[Key, certID, demanded]
}

type timing struct{ model.Timing }

func (a timing) Equal(b timing) bool { return a == b }

// sizes are those from which something is written in another way, which means
// the same.
type sizes struct {
	treeFrom  int // matches of a host
	part      int // endpoints of a backend
	dealtFrom int // endpoints of a tier in a part
}

var usual = sizes{treeFrom: treeFrom, part: partSize, dealtFrom: dealtFrom}

// Declare adds the resources to the program. It reads p's tables and writes none.
func Declare(g *inc.Graph, p *fleet.Program) *Tables { return declare(g, p, usual) }

func declare(g *inc.Graph, p *fleet.Program, s sizes) *Tables {
	d := &derivation{p: p, sizes: s}
	t := &Tables{d: d, LastParts: inc.Input[model.Backend, Parts](g, "envoy.lastParts")}
	d.lastParts = t.LastParts
	d.declareShared(g)
	t.Parts = d.split
	d.declareEndpoints(g, t)
	d.declareSecrets(g, t)
	d.declareRoutes(g, t)
	t.Clients = declareClients(g, d)
	t.declareFindings(g)
	return t
}

func (d *derivation) declareShared(g *inc.Graph) {
	p := d.p
	d.timings = inc.Derive(g, "envoy.timings", func(r *inc.Reader, class model.Class) (timing, bool) {
		c, ok := p.ClassInfo.Get(r, class)
		return timing{c.Config.Timing}, ok
	}, p.ClassInfo)
	d.ports = inc.Derive(g, "envoy.ports", func(r *inc.Reader, view model.View) (ports, bool) {
		return portsOf(r, p, view)
	}, p.Fills)
	d.shapesOfBackend = inc.IndexBy(p.Shapes, func(k fleet.GroupID, _ fleet.Shape) []model.Backend { return []model.Backend{k.Backend} })
	d.split = inc.Derive(g, "envoy.parts", d.partsOf, d.shapesOfBackend)
	d.clusterNames = inc.Derive(g, "envoy.clusterNames", func(r *inc.Reader, b model.Backend) (clusterName, bool) {
		row, ok := p.Backends.Get(r, b)
		out := nameCluster(b, row.AppProtocol, row.External)
		if !row.External {
			out.parts, _ = d.split.Get(r, b)
		}
		return out, ok
	}, p.Backends)
}

func (d *derivation) declareEndpoints(g *inc.Graph, t *Tables) {
	p := d.p
	d.needs = inc.Derive(g, "envoy.needs", func(r *inc.Reader, need fleet.NeedID) (clusterName, bool) {
		return d.clusterNames.Get(r, need.Backend)
	}, p.Needs)
	d.needOfKey = inc.IndexBy(d.needs, clusterKeys)
	d.declareUsers(g)
	shapes := inc.IndexBy(d.needs, func(need fleet.NeedID, n clusterName) []clusterShape {
		var out []clusterShape
		for _, name := range n.clusters() {
			out = append(out, clusterShape{need.View.Classes(), need.Backend, name})
		}
		return out
	})
	d.shapes = inc.Derive(g, "envoy.shapes", func(r *inc.Reader, s clusterShape) (shape, bool) {
		n, ok := d.clusterNames.Get(r, s.backend)
		if !ok || n.external {
			return shape{}, false
		}
		return shapeOf(n, s.cluster, d.impatience(r, s.classes, s.backend)), true
	}, shapes)
	inc.MayWait(d.shapes, d.timings)
	t.Clusters = inc.Derive(g, "envoy.Clusters", d.clusterOf, d.needOfKey)
	d.assigned = inc.Derive(g, "envoy.Assignments", d.assignedOf, p.Uses)
	t.Assignments = &Assignments{d, t.Clusters}
}

// clusterKeys are the clusters of a backend in a view.
func clusterKeys(need fleet.NeedID, n clusterName) []Key {
	var out []Key
	for _, name := range n.clusters() {
		out = append(out, Key{need.View, name})
	}
	return out
}

func (d *derivation) declareSecrets(g *inc.Graph, t *Tables) {
	p := d.p
	d.chainsOfClass = inc.IndexBy(p.Chains, func(key model.HostKey, _ fleet.Chain) []model.Class { return []model.Class{key.Class} })
	tlsLists := inc.IndexBy(d.ports, func(_ model.View, ports ports) []classList { return ports.tlsLists() })
	d.declareDemanders(g)
	d.chains = inc.Derive(g, "envoy.chains", d.chainsOf, tlsLists)
	d.sealedSecrets = inc.Derive(g, "envoy.sealedSecrets", func(r *inc.Reader, id model.SecretID) (sealed, bool) {
		c, ok := p.In.Certificates.Get(r, id)
		if !ok || c.Problem != "" || len(c.Chain) == 0 {
			return sealed{}, false
		}
		return seal(secret(id.String(), c)), true
	}, p.In.Certificates)
	d.secretsOfView = inc.Derive(g, "envoy.secretsOfView", d.secretsOf, d.ports)
	secretKeys := inc.IndexBy(d.secretsOfView, func(view model.View, s secretSet) []Key {
		out := make([]Key, len(s.names))
		for i, name := range s.names {
			out[i] = Key{view, name}
		}
		return out
	})
	d.declareDemand(g)
	t.Secrets = inc.Derive(g, "envoy.Secrets", func(r *inc.Reader, k Key) (Resource, bool) {
		s, ok := d.secretUnder(r, k)
		return Resource{Name: k.Name, Version: s.version, Body: s.body}, ok
	}, secretKeys, d.demandOfKey)
}

func (d *derivation) declareRoutes(g *inc.Graph, t *Tables) {
	d.fragments = inc.Derive(g, "envoy.fragments", d.fragmentOf, d.p.Hosts)
	inc.MayWait(d.fragments, d.timings)
	listenerKeys := inc.IndexBy(d.ports, func(view model.View, ports ports) []Key {
		var out []Key
		for _, p := range ports.list {
			out = append(out, Key{view, p.name()})
		}
		return out
	})
	t.Listeners = inc.Derive(g, "envoy.Listeners", d.listenerOf, listenerKeys)
	d.declareScopes(g, t)
}

func (d *derivation) clusterOf(r *inc.Reader, k Key) (Resource, bool) {
	needs := d.needOfKey.Keys(r, k)
	if len(needs) == 0 {
		return Resource{}, false
	}
	need := needs[0]
	s, shared := d.shapes.Get(r, clusterShape{need.View.Classes(), need.Backend, k.Name})
	body := s.sealed
	out := Resource{Name: k.Name, Refs: s.refs}
	if !shared {
		n, ok := d.clusterNames.Get(r, need.Backend)
		if !ok {
			return Resource{}, false
		}
		c := cluster(n, k.Name, d.impatience(r, need.View.Classes(), need.Backend))
		plan, groups := d.planOf(r, need.Use())
		c.LoadAssignment = lookedUp(k.Name, localities(plan, groups))
		body = seal(c)
		out.doubt(plan, need.Backend)
	}
	out.Version, out.Body = body.version, body.body
	return out, true
}

// planOf reads the plan of a use and the groups of its members.
func (d *derivation) planOf(r *inc.Reader, use fleet.UseID) (plan steer.Plan, groups map[model.Member]fleet.Group) {
	plan, _ = d.p.Plans.Get(r, use)
	groups = make(map[model.Member]fleet.Group, len(plan.Shares))
	for _, s := range plan.Shares {
		if _, ok := groups[s.Member]; !ok {
			groups[s.Member], _ = d.p.Groups.Get(r, fleet.GroupID{Backend: use.Backend, Member: s.Member})
		}
	}
	return plan, groups
}

func (d *derivation) listenerOf(r *inc.Reader, k Key) (Resource, bool) {
	row, _ := d.ports.Get(r, k.View)
	i := slices.IndexFunc(row.list, func(p port) bool { return p.name() == k.Name })
	if i < 0 {
		return Resource{}, false
	}
	p := row.list[i]
	var tls chains
	if p.tls && !p.onDemand {
		tls, _ = d.chains.Get(r, p.classes)
	}
	l := listener(p, tls)
	if l == nil {
		return Resource{}, false
	}
	s := seal(l)
	return Resource{Name: k.Name, Version: s.version, Body: s.body, Refs: listenerRefs(p, tls)}, true
}

// secretSet is the secrets that the proxies of a view present.
type secretSet struct{ names []string } // sorted

func (a secretSet) Equal(b secretSet) bool { return slices.Equal(a.names, b.names) }

func (d *derivation) secretsOf(r *inc.Reader, view model.View) (secretSet, bool) {
	row, _ := d.ports.Get(r, view)
	var out secretSet
	for _, classes := range row.tlsLists() {
		tls, _ := d.chains.Get(r, classes)
		for _, c := range tls.list {
			out.names = append(out.names, c.secrets...)
		}
	}
	slices.Sort(out.names)
	out.names = slices.Compact(out.names)
	return out, len(out.names) > 0
}
