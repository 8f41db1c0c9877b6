package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// refused is a rejection of what an edge has now, and whose it is.
type refused struct {
	owners   []model.Object
	by, what string
	others   bool // refused it, too
}

func (a refused) Equal(b refused) bool {
	return a.by == b.by && a.what == b.what && a.others == b.others && slices.Equal(a.owners, b.owners)
}

func (t *Tables) declareFindings(g *inc.Graph) {
	d := t.d
	d.declareOwners()
	rejected := inc.Derive(g, "envoy.rejected", t.refusedOf, d.p.In.Rejections)
	// What nothing is wrong with has no row here.
	refusable := inc.IndexBy(d.fragments, func(key model.HostKey, f *fragment) []model.HostKey {
		if f.invalid == "" {
			return nil
		}
		return []model.HostKey{key}
	})
	invalid := inc.Derive(g, "envoy.invalid", d.invalidOf, refusable)
	cut := inc.Derive(g, "envoy.cut", d.cutOf, d.indexes)
	byCut := inc.IndexBy(cut, func(_ fleet.HostIn, v model.Findings) []model.Object { return v.Objects() })
	withSessions := inc.IndexBy(d.p.Hosts, func(key model.HostKey, h fleet.Host) []model.HostKey {
		if !hasSessions(h) {
			return nil
		}
		return []model.HostKey{key}
	})
	scattered := inc.Derive(g, "envoy.scattered", d.scatteredOf, withSessions)
	byScattered := inc.IndexBy(scattered, func(_ model.HostKey, v model.Findings) []model.Object { return v.Objects() })
	byOwner := inc.IndexBy(rejected, func(_ model.RejectionID, v refused) []model.Object { return v.owners })
	byHost := inc.IndexBy(invalid, func(_ model.HostKey, v model.Findings) []model.Object { return v.Objects() })
	t.Findings = inc.Derive(g, "envoy.Findings", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := &model.Collector{Object: o}
		tell(n, byOwner.Keys(r, o), byOwner.Get(r, o))
		for _, v := range byHost.Get(r, o) {
			n.Take(v)
		}
		for _, v := range byCut.Get(r, o) {
			n.Take(v)
		}
		for _, v := range byScattered.Get(r, o) {
			n.Take(v)
		}
		return n.Row()
	}, byOwner, byHost, byCut, byScattered)
}

// invalidOf tells the roots of a host whose routes no proxy is sent, since it
// would refuse them.
func (d *derivation) invalidOf(r *inc.Reader, key model.HostKey) (model.Findings, bool) {
	f, ok := d.fragments.Get(r, key)
	if !ok || f.invalid == "" {
		return nil, false
	}
	var out model.Findings
	for _, root := range d.rootsOfHosts(r, []model.HostKey{key}) {
		out = append(out, model.ErrorOf(root, "spec.rules", model.ReasonInternal,
			"the routes of %s stay as they were, since Envoy would refuse the new ones: %s; undo the last change of this host, and please report it", cmp.Or(key.Host.Written(), "*"), f.invalid))
	}
	return out.Sorted(), len(out) > 0
}

// refusedOf tells what a rejection means: nothing, once another version of the
// resource is there.
func (t *Tables) refusedOf(r *inc.Reader, id model.RejectionID) (refused, bool) {
	rejection, ok := t.d.p.In.Rejections.Get(r, id)
	view, there := t.d.p.Views.Get(r, id.Edge)
	if !ok || !there {
		return refused{}, false
	}
	now, ok := t.Find(r, view.Key, id.Type, id.Name, id.GRPC)
	if !ok || now.Version != rejection.Version {
		return refused{}, false
	}
	out := refused{by: refuser(id, rejection.By[0]), others: len(rejection.By) > 1}
	if id.GRPC {
		out.owners = t.Clients.ownersOf(r, view.Key, id.Type, id.Name)
	} else {
		out.owners = t.d.ownersOf(r, view.Key, id.Type, id.Name, rejection.Error)
	}
	kind := id.Type[strings.LastIndexByte(id.Type, '.')+1:]
	out.what = fmt.Sprintf("refused the %s %s made of this: %s", kind, id.Name, rejection.Error)
	return out, len(out.owners) > 0
}

// refuser names who refuses something: one is enough to look at.
func refuser(id model.RejectionID, by model.Refuser) string {
	who, of := "proxy", "Envoy"
	if id.GRPC {
		who, of = "gRPC client", "gRPC"
	}
	return fmt.Sprintf("%s %s (%s %s) of edge %s", who, by.Node, of, cmp.Or(by.Version, "of an unknown version"), id.Edge)
}

// tell says once of each resource that it is refused, however many edges do.
func tell(n *model.Collector, ids []model.RejectionID, rows []refused) {
	at := map[model.RejectionID]int{}
	var each []refused
	for i, id := range ids {
		id.Edge = ""
		if first, told := at[id]; told {
			each[first].others = true
			continue
		}
		at[id] = len(each)
		each = append(each, rows[i])
	}
	for _, v := range each {
		others := ""
		if v.others {
			others = " and others"
		}
		n.Error("", model.ReasonRejected, "%s%s %s", v.by, others, v.what)
	}
}

// Owners returns the objects that a resource was made of, sorted: roots, or the
// classes where it is made of too many roots to blame one. text is a proxy's
// error; it narrows the answer where it names a host.
func (t *Tables) Owners(view model.View, typeURL, name, text string) []model.Object {
	return t.d.ownersOf(nil, view, typeURL, name, text)
}

func (d *derivation) declareOwners() {
	d.hostsOfSecret = inc.IndexBy(d.p.Chains, func(_ model.HostKey, c fleet.Chain) []model.SecretID { return c.Secrets })
}

func eachTarget(h fleet.Host, f func(fleet.Target)) {
	for _, route := range h.Routes {
		f(route.Target)
	}
	if h.Default != nil {
		f(*h.Default)
	}
}

func (d *derivation) ownersOf(r *inc.Reader, view model.View, typeURL, name, text string) []model.Object {
	var out []model.Object
	switch typeURL {
	case ClusterType, AssignmentType:
		if b, ok := d.backendOf(r, name); ok {
			out = d.rootsOfBackend(r, view, b)
		}
	case SecretType:
		out = d.rootsOfHosts(r, d.hostsPresenting(r, view, name))
	case RouteType, ScopeType:
		for _, c := range d.holders(r, view, typeURL, name) {
			out = append(out, d.rootsOfHosts(r, d.hostsBehind(r, Key{c, name}))...)
		}
	case ListenerType:
		ports, _ := d.p.Ports.Get(r, fleet.SetOf(view))
		for _, p := range ports.List {
			if of := (port{Port: p}); of.name() == strings.TrimSuffix(name, ipv6Suffix) {
				tls, _ := d.p.ServerNames.Get(r, p.Static)
				out = d.blame(r, tls.Of, text, p.Classes)
			}
		}
		if class, ok := d.p.ClassAt(r, view.Edge(), boundTo(name)); ok {
			tls, _ := d.p.ServerNames.Get(r, fleet.ClassList(class))
			out = d.blame(r, tls.Of, text, []model.Class{class})
		}
	}
	slices.SortFunc(out, model.Object.Compare)
	return slices.Compact(out)
}

// rootsOfBackend are those of a view's classes that name a backend.
func (d *derivation) rootsOfBackend(r *inc.Reader, view model.View, b model.Backend) []model.Object {
	classes := fleet.ClassesOf(view.Classes())
	var out []model.Object
	keys, rows := d.hostsOfBackend.Keys(r, b), d.hostsOfBackend.Get(r, b)
	for i, host := range rows {
		if !slices.Contains(classes, keys[i].Class) {
			continue
		}
		eachTarget(host, func(t fleet.Target) {
			if slices.ContainsFunc(t.Backends, func(w model.WeightedBackend) bool { return w.Backend == b }) || slices.Contains(t.Mirrors(), b) || t.Auth().Backend == b {
				out = append(out, t.Root)
			}
		})
	}
	return out
}

func (d *derivation) rootsOfHosts(r *inc.Reader, hosts []model.HostKey) []model.Object {
	var out []model.Object
	for _, key := range hosts {
		host, _ := d.p.Hosts.Get(r, key)
		out = append(out, host.Roots...)
	}
	return out
}

// named returns the host names in a text, whole ones: "shop.example" is not in
// "myshop.example" nor in "www.shop.example".
func named(text string) map[model.Host]bool {
	out := map[model.Host]bool{}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool {
		return c != '.' && c != '-' && c != '_' && c != '*' && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		out[model.Host(strings.Trim(word, "."))] = true // a dot may end the sentence
	}
	return out
}

// blame finds the roots of the hosts that an error names, or of the only host
// there is; else it is the classes' own.
func (d *derivation) blame(r *inc.Reader, hosts []model.HostKey, text string, classes []model.Class) []model.Object {
	blamed := hosts
	if len(hosts) > 1 {
		blamed = nil
		in := named(text)
		for _, key := range hosts {
			if key.Host != "" && in[key.Host] {
				blamed = append(blamed, key)
			}
		}
	}
	if roots := d.rootsOfHosts(r, blamed); len(roots) > 0 {
		return roots
	}
	var out []model.Object
	for _, class := range classes {
		if c, ok := d.p.ClassInfo.Get(r, class); ok {
			out = append(out, c.Spec.Origin.Object)
		}
	}
	return out
}
