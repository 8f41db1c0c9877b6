package leaf

import (
	"cmp"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// A root of a class that members serve is written there, as leaves. What a leaf says is
// what the root says, of what it has: hosts and paths that an older root has are left
// out. Which members have one follows from inputs. Two things are remembered, both in
// what members told last (In.LeafStates): where none has a backend any more, the leaves
// that are there stay; and so does one in a member of which nobody knows what it has.

// Leaf is an object that a member should have.
type Leaf struct {
	Namespace, Name string          // in the member
	UID             string          // of the root
	Body            string          // an ingest.Body
	Keys            []model.HeldKey // copies of Secrets that it names, sorted
}

// Equal reports whether both are the same.
func (a Leaf) Equal(b Leaf) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name && a.UID == b.UID && a.Body == b.Body && slices.Equal(a.Keys, b.Keys)
}

// cast is what leaves of a root are made of.
type cast struct {
	members []model.Member // that have one, sorted
	body    string         // in those that want it as all do; empty: there is nothing to write
	uid     string
	spec    *model.LeafSpec
	secrets []string       // of the root's namespace that the body names, sorted, each once
	lost    model.Findings // what roots of other such classes have
	lacking model.Findings // Services that some of the members do not have
}

func (a *cast) Equal(b *cast) bool {
	return a == b || slices.Equal(a.members, b.members) && a.body == b.body && a.uid == b.uid && a.spec.Equal(b.spec) && slices.Equal(a.secrets, b.secrets) && a.lost.Equal(b.lost) && a.lacking.Equal(b.lacking)
}

// ground is what leaves depend on of a member.
type ground struct {
	again     bool // it is the cluster of an older one
	tainted   bool
	leaving   bool // and its leaves go with it
	addresses model.LeafAddresses
}

func (a ground) Equal(b ground) bool {
	return a.again == b.again && a.tainted == b.tainted && a.leaving == b.leaving && a.addresses.Equal(b.addresses)
}

// leaves are the tables of leaves that only this package reads.
type leaves struct {
	casts   *inc.Table[model.Object, *cast]
	grounds *inc.Table[model.Member, ground]
	all     *inc.Index[model.All, model.Member, ground]
	missing *inc.Index[model.All, model.Member, fleet.Missing]
	states  *inc.Index[model.Object, model.LeafID, model.LeafState]

	consents *inc.Table[model.SecretID, consent]
	left     *inc.Index[model.Object, model.HeldKey, model.KeyState]
}

// rootKind is the kind of roots that have leaves.
const rootKind = "Ingress"

// declareLeaves declares what is written in members, and what owners are told of it.
func (d *derivation) declareLeaves(g *inc.Graph) (findings []*inc.Table[model.Object, model.Findings]) {
	in, l := &d.p.In, &d.leaves
	l.grounds = inc.Derive(g, "leaf.grounds", func(r *inc.Reader, m model.Member) (ground, bool) {
		spec, ok := in.Members.Get(r, m)
		traits, _ := d.p.Traits.Get(r, m)
		return ground{traits.Again, len(traits.Taints) > 0, spec.Leaving && !spec.Orphans, spec.Leaves}, ok
	}, in.Members)
	l.all = inc.IndexBy(l.grounds, func(model.Member, ground) []model.All { return []model.All{{}} })
	l.missing = inc.IndexBy(d.p.Missing, func(model.Member, fleet.Missing) []model.All { return []model.All{{}} })
	l.states = inc.IndexBy(in.LeafStates, func(k model.LeafID, _ model.LeafState) []model.Object { return []model.Object{k.Root} })
	roots := inc.IndexBy(d.p.Attachments, func(k model.Object, a fleet.Attachment) []model.Object {
		if !a.Leaf || k.Kind != rootKind {
			return nil
		}
		return []model.Object{k}
	})
	d.t.LeavesUnread = inc.Derive(g, "leaf.unread", func(r *inc.Reader, k model.Object) (model.There, bool) {
		_, read := in.Manifests.Get(r, k)
		return model.There{}, !read
	}, roots)
	d.declareConsents(g)
	l.casts = inc.Derive(g, "leaf.casts", d.cast, roots)
	ids := inc.IndexBy(l.casts, func(k model.Object, c *cast) []model.LeafID {
		out := make([]model.LeafID, len(c.members))
		for i, m := range c.members {
			out[i] = model.LeafID{Member: m, Root: k}
		}
		return out
	})
	d.t.Leaves = inc.Derive(g, "leaf.Leaves", d.leaf, ids)
	return []*inc.Table[model.Object, model.Findings]{
		inc.Derive(g, "findings of leaves", d.leafFindings, roots),
		declareWaiting(g, d.p),
		d.declareKeys(g),
	}
}

// cast decides what leaves of a root say, and which members have one.
func (d *derivation) cast(r *inc.Reader, k model.Object) (*cast, bool) {
	a, ours := d.p.Attachments.Get(r, k)
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !ours || !read {
		return nil, false
	}
	class := a.Classes.List()[0] // an Ingress has one
	leafy, _ := d.p.Leafy.Get(r, class)
	body, err := ingest.BodyOf(manifest.Body)
	if leafy.Spec == nil || err != nil {
		return nil, false
	}
	out := &cast{uid: manifest.UID, spec: leafy.Spec}
	part := d.partOf(r, k, class)
	out.lost = part.lost.Findings()
	if !part.cut(&body.Spec) {
		return out, true
	}
	maps.DeleteFunc(body.Metadata.Annotations, func(name, _ string) bool { return !leafy.Spec.Allows(name) })
	body.Spec.IngressClassName = classNamed(leafy.Spec.Class)
	out.body, out.secrets = body.Text(), secretsOf(body.Spec.TLS)
	d.place(r, k, d.p.NamedBackends(r, k, a, class), out)
	return out, true
}

// classNamed is the class of a leaf; nil: the member's default.
func classNamed(class string) *string {
	if class == "" {
		return nil
	}
	return &class
}

// place chooses the members of a root's leaves: those that are part of one of its
// backends, as its Placement says where it has one. Where its backends have no member
// any more, though no Placement wants that, leaves stay where they are; and so does one
// in a member whose rows are missing, or that keeps its place.
func (d *derivation) place(r *inc.Reader, k model.Object, backends []model.Backend, out *cast) {
	rows, grounds := make([]fleet.Backend, len(backends)), d.allGrounds(r)
	chosen, willed := map[model.Member]bool{}, false
	for i, b := range backends {
		rows[i], _ = d.p.Backends.Get(r, b)
		willed = willed || rows[i].Placing != nil && rows[i].Placing.Outside
		for _, m := range rows[i].Members {
			chosen[m] = chosen[m] || rows[i].Placing != nil || !grounds[m].tainted
		}
	}
	there := d.leafed(r, k, grounds)
	keeps := d.leaves.missing.Keys(r, model.All{})
	for _, row := range rows {
		if row.Placing != nil {
			keeps = append(slices.Clip(keeps), row.Placing.Held...)
		}
	}
	for _, m := range keeps {
		if there[m] {
			chosen[m] = true
		}
	}
	maps.DeleteFunc(chosen, func(m model.Member, is bool) bool {
		g, member := grounds[m]
		return !is || !member || g.again || g.leaving
	})
	if len(chosen) == 0 && !willed {
		chosen = there
	}
	out.members = slices.Sorted(maps.Keys(chosen))
	out.lacking = incomplete(k, out.members, backends, rows)
}

func (d *derivation) allGrounds(r *inc.Reader) map[model.Member]ground {
	out := map[model.Member]ground{}
	d.leaves.all.Each(r, model.All{}, func(m model.Member, g ground) { out[m] = g })
	return out
}

// leafed are the members that have a leaf of a root, as far as they told.
func (d *derivation) leafed(r *inc.Reader, k model.Object, grounds map[model.Member]ground) map[model.Member]bool {
	out := map[model.Member]bool{}
	d.leaves.states.Each(r, k, func(id model.LeafID, s model.LeafState) {
		if _, member := grounds[id.Member]; member && s.There {
			out[id.Member] = true
		}
	})
	return out
}

// incomplete tells which Services that a leaf names its member does not have, though
// another one has them.
func incomplete(k model.Object, members []model.Member, backends []model.Backend, rows []fleet.Backend) model.Findings {
	n := model.Collector{Object: k, Once: true}
	for i, row := range rows {
		without := slices.DeleteFunc(slices.Clone(members), func(m model.Member) bool { return slices.Contains(row.Members, m) })
		if len(row.Members) > 0 && len(without) > 0 && len(without) < len(members) {
			n.Warning("spec", model.ReasonServiceNotFound, "%s of the leaf is not in every member that has a leaf: requests for it are refused by %s", backends[i].Described(), few(names(without)))
		}
	}
	return n.Findings()
}

// leaf is what one member should have.
func (d *derivation) leaf(r *inc.Reader, k model.LeafID) (Leaf, bool) {
	c, ok := d.leaves.casts.Get(r, k.Root)
	if !ok {
		return Leaf{}, false
	}
	out := Leaf{Namespace: model.MemberNamespace(k.Root.Workspace, k.Root.Namespace), Name: k.Root.Name, UID: c.uid, Body: c.body}
	at := c.spec.Member(k.Member)
	if out.Keys = d.keysOf(r, k, c, at); at.Class != c.spec.Class || len(at.Annotations)+len(out.Keys) > 0 {
		out.Body = otherwise(c.body, at, out.Keys)
	}
	return out, true
}

// otherwise is a body as one member wants it.
func otherwise(text string, at model.LeafMember, keys []model.HeldKey) string {
	body, err := ingest.BodyOf(text)
	if err != nil {
		panic("a leaf that we wrote can't be read: " + err.Error())
	}
	body.Spec.IngressClassName = classNamed(at.Class)
	name(body.Spec.TLS, keys)
	if body.Metadata.Annotations == nil {
		body.Metadata.Annotations = map[string]string{}
	}
	maps.Copy(body.Metadata.Annotations, at.Annotations)
	return body.Text()
}

// part is what a root has of what it asks for.
type part struct {
	won      map[model.Field]bool // rules of its rows of which it has some match
	rows     map[model.Host]bool  // hosts of its rows, and whether it has the default backend of each
	fallback bool                 // its default backend serves the hosts that nobody names
	lost     model.Collector
}

// partOf finds it in the hosts of the class, and in those of other classes that members
// serve: there too the older root has a path.
func (d *derivation) partOf(r *inc.Reader, k model.Object, class model.Class) *part {
	out := &part{won: map[model.Field]bool{}, rows: map[model.Host]bool{}, lost: model.Collector{Object: k, Once: true}}
	root, _ := d.p.In.Roots.Get(r, k)
	age := model.Origin{Created: root.Created, Object: k}
	ids, rules := d.p.RulesOf.Keys(r, k), d.p.RulesOf.Get(r, k)
	for i, id := range ids {
		host, _ := d.p.Hosts.Get(r, model.HostKey{Class: class, Host: id.Host})
		out.rows[id.Host] = host.Default != nil && host.Default.Root == k
		has := owners(host)
		others := d.elders(r, id.Host, class, age)
		for _, rule := range rules[i] {
			for _, m := range rule.Matches {
				switch by, taken := others[m]; {
				case has[m] != k:
				case taken:
					out.lost.Error(rule.Field, model.ReasonConflict, "%s is older and has %s", by, m.Of(id.Host))
				default:
					out.won[rule.Field] = true
				}
			}
		}
	}
	rest, _ := d.p.Hosts.Get(r, model.HostKey{Class: class})
	out.fallback = rest.Default != nil && rest.Default.Root == k
	return out
}

// owners are the roots that have a host's matches.
func owners(h fleet.Host) map[model.Match]model.Object {
	out := make(map[model.Match]model.Object, len(h.Routes))
	for _, route := range h.Routes {
		out[route.Match] = route.Target.Root
	}
	return out
}

// elders are the older roots of other classes that members serve, by what they have of
// a host.
func (d *derivation) elders(r *inc.Reader, h model.Host, class model.Class, than model.Origin) map[model.Match]model.Object {
	out := map[model.Match]model.Object{}
	for _, at := range d.p.HostsNamed.Keys(r, h) {
		if _, leafy := d.p.Leafy.Get(r, at.Class); !leafy || at.Class == class {
			continue
		}
		host, _ := d.p.Hosts.Get(r, at)
		for m, root := range owners(host) {
			row, _ := d.p.In.Roots.Get(r, root)
			if o := (model.Origin{Created: row.Created, Object: root}); o.Compare(than) < 0 && (out[m] == model.Object{} || root.Compare(out[m]) < 0) {
				out[m] = root
			}
		}
	}
	return out
}

// cut leaves of an Ingress what its root has, and reports whether that is anything. A
// default backend that serves only the root's own hosts becomes a path of these: in a
// member it would be for all hosts.
func (p *part) cut(spec *networkingv1.IngressSpec) bool {
	own := spec.DefaultBackend
	if !p.fallback {
		spec.DefaultBackend = nil
	}
	var rules []networkingv1.IngressRule
	had, kept := map[string]bool{}, map[string]bool{}
	for i, rule := range spec.Rules {
		field := model.Field("spec.rules").Index(i)
		bare := rule.HTTP == nil || len(rule.HTTP.Paths) == 0
		had[rule.Host] = true
		if bare && !p.won[field] {
			continue
		}
		if !bare {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: p.paths(field+".http.paths", rule.HTTP.Paths)}
		}
		if own != nil && !p.fallback && p.rows[model.Host(rule.Host)] && !kept[rule.Host] {
			rule.HTTP = withRest(rule.HTTP, own)
		}
		if bare || len(rule.HTTP.Paths) > 0 {
			rules = append(rules, rule)
			kept[rule.Host] = true
		}
	}
	spec.Rules = rules
	p.cutTLS(spec, func(h string) bool { return had[h] && !kept[h] })
	return len(rules) > 0 || spec.DefaultBackend != nil
}

// paths are those of a rule that the root has.
func (p *part) paths(field model.Field, all []networkingv1.HTTPIngressPath) []networkingv1.HTTPIngressPath {
	var out []networkingv1.HTTPIngressPath
	for i := range all {
		if p.won[field.Index(i)] {
			out = append(out, all[i])
		}
	}
	return out
}

// withRest has a backend serve what no path of a rule matches.
func withRest(rule *networkingv1.HTTPIngressRuleValue, rest *networkingv1.IngressBackend) *networkingv1.HTTPIngressRuleValue {
	out := &networkingv1.HTTPIngressRuleValue{}
	if rule != nil {
		out.Paths = slices.Clone(rule.Paths)
	}
	if slices.ContainsFunc(out.Paths, func(p networkingv1.HTTPIngressPath) bool {
		return p.PathType != nil && *p.PathType == networkingv1.PathTypePrefix && cmp.Or(p.Path, "/") == "/"
	}) {
		return out
	}
	prefix := networkingv1.PathTypePrefix
	out.Paths = append(out.Paths, networkingv1.HTTPIngressPath{Path: "/", PathType: &prefix, Backend: *rest})
	return out
}

// cutTLS leaves out the names of hosts of which the root has nothing.
func (p *part) cutTLS(spec *networkingv1.IngressSpec, lost func(string) bool) {
	var out []networkingv1.IngressTLS
	for _, t := range spec.TLS {
		hosts := slices.DeleteFunc(slices.Clone(t.Hosts), lost)
		if len(hosts) == 0 && len(t.Hosts) > 0 {
			continue
		}
		t.Hosts = hosts
		out = append(out, t)
	}
	spec.TLS = out
}
