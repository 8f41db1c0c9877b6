package envoy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// Tables are the resources of all collections, and what is wrong with them. A
// view holds those of its collections.
type Tables struct {
	Listeners   *inc.Table[Key, Resource]
	Scopes      Rows
	Routes      Rows
	Clusters    *inc.Table[Key, Resource]
	Assignments *Assignments
	Secrets     *inc.Table[Key, Resource]

	// Parts is the number of parts of each backend that is split, LastParts what
	// it was: see parts.
	Parts     *inc.Table[model.Backend, Parts]
	LastParts *inc.Table[model.Backend, Parts]

	// Findings are what proxies rejected, or would, by the objects it was made of.
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

// Rows are resources by collection and name: a table, or what is as good as one.
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

// derivation is what the derived tables share: the program, and the tables in
// between. A field is set before any function that reads it is called.
type derivation struct {
	p       *fleet.Program
	sizes   sizes
	scratch []byte // see made

	timings         *inc.Table[model.Class, inc.Val[model.Timing]]
	clusterNames    *inc.Table[model.Backend, clusterName]
	backendsOfName  *inc.Index[clusterKey, model.Backend, clusterName]
	fragments       *inc.Table[model.HostKey, *fragment]
	served          *inc.Table[fleet.HostIn, served]
	indexes         *inc.Index[fleet.HostIn, model.Collection, model.There] // of wildcards
	shapesOfBackend *inc.Index[model.Backend, fleet.GroupID, fleet.Shape]
	lastParts       *inc.Table[model.Backend, Parts]
	split           *inc.Table[model.Backend, Parts]
	needs           *inc.Table[fleet.NeedID, clusterName]
	needOfKey       *inc.Index[Key, fleet.NeedID, clusterName]
	lookupOfKey     *inc.Index[Key, fleet.NeedID, lookups]
	assigned        *inc.Table[fleet.UseID, assigned]
	secrets         *inc.Table[model.SecretID, Resource]
	hostsOfBackend  *inc.Index[model.Backend, model.HostKey, fleet.Host]
	hostsOfSecret   *inc.Index[model.SecretID, model.HostKey, fleet.Chain]
}

// sizes are those from which something is written in another way, which means
// the same, and what tests can't wait for.
type sizes struct {
	treeFrom  int           // matches of a host
	part      int           // endpoints of a backend
	dealtFrom int           // endpoints of a tier in a part
	silence   time.Duration // until the first bytes of a connection; 0: firstBytes
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
	t.Clients = declareClients(g, d, t.Assignments)
	t.declareFindings(g)
	return t
}

func (d *derivation) declareShared(g *inc.Graph) {
	p := d.p
	d.timings = inc.Derive(g, "envoy.timings", func(r *inc.Reader, class model.Class) (inc.Val[model.Timing], bool) {
		c, ok := p.ClassInfo.Get(r, class)
		return inc.ValOf(c.Config.Timing), ok
	}, p.ClassInfo)
	d.shapesOfBackend = inc.IndexBy(p.Shapes, func(k fleet.GroupID, _ fleet.Shape) []model.Backend { return []model.Backend{k.Backend} })
	d.clusterNames = inc.Derive(g, "envoy.clusterNames", func(r *inc.Reader, b model.Backend) (clusterName, bool) {
		row, ok := p.Backends.Get(r, b)
		out := nameCluster(b, row)
		if ok && !row.External {
			out.parts = d.partsOf(r, b)
		}
		return out, ok
	}, p.Backends)
	split := inc.IndexBy(d.clusterNames, func(b model.Backend, n clusterName) []model.Backend {
		if n.parts <= 1 {
			return nil
		}
		return []model.Backend{b}
	})
	d.split = inc.Derive(g, "envoy.parts", func(r *inc.Reader, b model.Backend) (Parts, bool) {
		n, ok := d.clusterNames.Get(r, b)
		return n.parts, ok
	}, split)
	d.backendsOfName = inc.IndexBy(d.clusterNames, func(_ model.Backend, n clusterName) []clusterKey {
		var out []clusterKey
		for _, name := range n.clusters() {
			out = append(out, clusterKey(name))
		}
		return out
	})
	d.hostsOfBackend = inc.IndexBy(p.Hosts, func(_ model.HostKey, h fleet.Host) []model.Backend {
		var out []model.Backend
		eachTarget(h, func(t fleet.Target) {
			for _, b := range t.Used() {
				out = append(out, b.Backend)
			}
			out = append(out, t.Mirrors()...)
			if a := t.Auth(); a != (model.Auth{}) {
				out = append(out, a.Backend)
			}
		})
		return out
	})
}

// clusterKey is the name of a cluster, and of the assignment that it may lead to.
type clusterKey string

func (a clusterKey) Compare(b clusterKey) int { return strings.Compare(string(a), string(b)) }

// backendOf is the one that a cluster or an assignment is of.
func (d *derivation) backendOf(r *inc.Reader, name string) (model.Backend, bool) {
	all := d.backendsOfName.Keys(r, clusterKey(assignmentOf(name))) // an entry, too: it has the mark alike
	if len(all) == 0 {
		return model.Backend{}, false
	}
	return all[0], true
}

func (d *derivation) declareEndpoints(g *inc.Graph, t *Tables) {
	p := d.p
	d.needs = inc.Derive(g, "envoy.needs", func(r *inc.Reader, need fleet.NeedID) (clusterName, bool) {
		n, ok := d.clusterNames.Get(r, need.Backend)
		n.dial(need.Dial)
		return n, ok && !n.tls.Broken()
	}, p.Needs)
	d.needOfKey = inc.IndexBy(d.needs, func(need fleet.NeedID, n clusterName) []Key {
		if n.external {
			return nil
		}
		return clusterKeys(need.Front, n)
	})
	external := inc.IndexBy(d.needs, func(need fleet.NeedID, n clusterName) []fleet.NeedID {
		if !n.external {
			return nil
		}
		return []fleet.NeedID{need}
	})
	from := inc.Derive(g, "envoy.lookups", d.lookupsOf, external)
	d.lookupOfKey = inc.IndexBy(from, func(need fleet.NeedID, row lookups) []Key {
		out := make([]Key, len(row.from))
		for i, at := range row.from {
			out[i] = Key{model.LookupsOf(need.Front.Class(), at), row.name}
		}
		return out
	})
	t.Clusters = inc.Derive(g, "envoy.Clusters", d.clusterOf, d.needOfKey, d.lookupOfKey)
	d.assigned = inc.Derive(g, "envoy.Assignments", d.assignedOf, p.Uses)
	t.Assignments = &Assignments{d}
}

// clusterKeys are the clusters of a backend in a collection.
func clusterKeys(in model.Collection, n clusterName) []Key {
	var out []Key
	for _, name := range n.clusters() {
		out = append(out, Key{in, name})
	}
	return out
}

// lookups is the vantages from which edges of a class use a backend whose address
// proxies look up.
type lookups struct {
	name string
	from []model.Vantage // sorted, each once
}

func (a lookups) Equal(b lookups) bool { return a.name == b.name && slices.Equal(a.from, b.from) }

func (d *derivation) lookupsOf(r *inc.Reader, need fleet.NeedID) (lookups, bool) {
	n, ok := d.needs.Get(r, need)
	if !ok {
		return lookups{}, false
	}
	at, ok := d.p.Outlets.Get(r, need.Front.Class())
	if !ok {
		return lookups{}, false
	}
	return lookups{n.spoken(), at.Vantages}, true
}

func (d *derivation) declareSecrets(g *inc.Graph, t *Tables) {
	d.secrets = inc.Derive(g, "envoy.sealedSecrets", func(r *inc.Reader, id model.SecretID) (Resource, bool) {
		return d.secretAs(r, id.String(), id)
	}, d.p.In.Certificates)
	shown := inc.IndexBy(d.needs, func(need fleet.NeedID, n clusterName) []Key {
		if id := n.conn.Key().Client; id != (model.SecretID{}) {
			return []Key{{need.Front, id.String()}}
		}
		return nil
	})
	t.Secrets = inc.Derive(g, "envoy.Secrets", d.secretUnder, inc.IndexBy(d.p.Presences, secretKeys), shown)
}

func (d *derivation) declareRoutes(g *inc.Graph, t *Tables) {
	d.fragments = inc.Derive(g, "envoy.fragments", d.fragmentOf, d.p.Hosts)
	inc.MayWait(d.fragments, d.timings)
	inc.Shared(d.fragments, d.timings)
	shared := inc.IndexBy(d.p.Collections, func(_ model.View, all inc.List[model.Collection]) []Key { return listenersIn(fleet.Few(all)) })
	alone := inc.IndexBy(d.p.Holdings, func(_ model.LeaseID, h fleet.Holding) []Key { return listenersIn(h.Collections) })
	t.Listeners = inc.Derive(g, "envoy.Listeners", d.listenerOf, shared, alone)
	d.declareScopes(g, t)
}

// listenersIn are those of some collections.
func listenersIn(all []model.Collection) []Key {
	var out []Key
	for _, c := range all {
		if c.Kind() == model.Sockets {
			out = append(out, Key{c, listenerPort(c).name()})
		}
	}
	return out
}

func (d *derivation) clusterOf(r *inc.Reader, k Key) (Resource, bool) {
	if k.Collection.Kind() == model.Lookups {
		return d.lookupOf(r, k)
	}
	needs := d.needOfKey.Keys(r, k)
	if len(needs) == 0 {
		return Resource{}, false
	}
	n, ok := d.needs.Get(r, needs[0])
	return d.clusterUnder(n, k.Name), ok
}

// lookupOf is a cluster that carries its endpoints. There is none before there
// is a plan: what is not known yet is not empty.
func (d *derivation) lookupOf(r *inc.Reader, k Key) (Resource, bool) {
	needs := d.lookupOfKey.Keys(r, k)
	if len(needs) == 0 {
		return Resource{}, false
	}
	n, ok := d.needs.Get(r, needs[0])
	plan, groups, planned := d.planOf(r, fleet.UseID{Vantage: k.Collection.Vantage(), Backend: needs[0].Backend})
	if !ok || !planned {
		return Resource{}, false
	}
	c := cluster(n, k.Name)
	c.LoadAssignment = lookedUp(k.Name, localities(plan, groups))
	body := sealed(c)
	return versioned(k.Name, body, doubted(model.BodyOf(body), plan, needs[0].Backend)), true
}

// planOf reads the plan of a use and the groups of its members.
func (d *derivation) planOf(r *inc.Reader, use fleet.UseID) (plan steer.Plan, groups map[model.Member]fleet.Group, ok bool) {
	plan, ok = d.p.Plans.Get(r, use)
	groups = make(map[model.Member]fleet.Group, len(plan.Shares))
	for _, s := range plan.Shares {
		if _, ok := groups[s.Member]; !ok {
			groups[s.Member], _ = d.p.Groups.Get(r, fleet.GroupID{Backend: use.Backend, Member: s.Member})
		}
	}
	return plan, groups, ok
}

func (d *derivation) listenerOf(r *inc.Reader, k Key) (Resource, bool) {
	p := listenerPort(k.Collection)
	var tls fleet.ServerNames
	if p.TLS && !p.OnDemand {
		tls, _ = d.p.ServerNames.Get(r, p.Static)
	}
	relays := d.relaysOf(r, p)
	if p.OnDemand {
		relays = withNames(relays)
	}
	l := listener(p, tls, relays, cmp.Or(d.sizes.silence, firstBytes))
	if l == nil {
		return Resource{}, false
	}
	rendered := sealed(l)
	body := model.BodyOf(rendered, listenerRefs(p, tls, relays)...)
	if len(relays) > 0 {
		body = relaying{body, hostsRelayed(relays)}
	}
	return versioned(k.Name, rendered, body), true
}
