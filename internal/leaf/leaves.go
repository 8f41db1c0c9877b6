package leaf

import (
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// A root of a class that members serve is written there, as leaves. What a leaf says is
// what the root says, of what it has: hosts and paths that an older root has are left
// out. Which members have one is decided in package fleet (Leafed).

// Leaf is an object that a member should have.
type Leaf struct {
	Namespace, Name string          // in the member
	UID             string          // of the root
	Body            string          // an ingest.Whole
	Adopt           bool            // an object of the name becomes it
	Keys            []model.HeldKey // copies of Secrets that it names, sorted
	Lets            []model.HeldKey // of a ReferenceGrant, copies that it lets others name, sorted

	Edition string // that it is, of a root whose edits go in waves
	Keep    bool   // what the member has of an older edition stays as it is
}

// Equal reports whether both are the same.
func (a Leaf) Equal(b Leaf) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name && a.UID == b.UID && a.Body == b.Body && a.Adopt == b.Adopt && slices.Equal(a.Keys, b.Keys) && slices.Equal(a.Lets, b.Lets) && a.Edition == b.Edition && a.Keep == b.Keep
}

// cast is what leaves of a root are made of.
type cast struct {
	members []model.Member // that have one, sorted
	body    string         // in those that want it as all do; empty: there is nothing to write
	uid     string
	adopts  model.Texts // as model.Manifest has it
	orphans bool        // the same
	spec    *model.LeafSpec
	secrets []model.SecretID // that the body names, and may, sorted, each once
	denied  []model.SecretID // that it names, and no ReferenceGrant lets it
	inline  bool             // it has a key in itself, which stays on the hub
	lost    model.Findings   // what roots of other such classes have
	lacking model.Findings   // Services that some of the members do not have
	via     []via            // of a route of the Gateway API, by which Gateways it has them
}

func (a *cast) Equal(b *cast) bool {
	return a == b || slices.Equal(a.members, b.members) && a.body == b.body && a.uid == b.uid && a.adopts == b.adopts && a.orphans == b.orphans && a.spec.Equal(b.spec) && slices.Equal(a.secrets, b.secrets) && slices.Equal(a.denied, b.denied) && a.inline == b.inline && a.lost.Equal(b.lost) && a.lacking.Equal(b.lacking) &&
		slices.EqualFunc(a.via, b.via, via.equal)
}

// leaves are the tables of leaves that only this package reads.
type leaves struct {
	casts   *inc.Table[model.Object, *cast]
	missing *inc.Index[model.All, model.Member, fleet.Missing]

	consents *inc.Table[model.SecretID, consent]
	left     *inc.Index[model.Object, model.HeldKey, model.KeyState]
	copies   *inc.Index[model.SecretID, model.HeldKey, model.KeyState] // that members may have

	gateways *inc.Table[model.Object, *cast]                                      // of Gateways, which follow their routes
	sets     *inc.Table[model.Object, *cast]                                      // of ListenerSets, which are where their Gateways are
	grants   *inc.Table[model.Object, *cast]                                      // of ReferenceGrants
	policies *inc.Table[model.Object, *cast]                                      // of BackendTLSPolicies
	policied *inc.Index[model.Object, model.Object, inc.List[policyInMember]]     // roots whose leaves need one
	granted  *inc.Index[model.Object, model.Object, inc.List[grantInMember]]      // roots whose leaves need one
	through  *inc.Index[model.GatewayID, model.Object, inc.List[gatewayInMember]] // routes by their Gateways
}

// declareLeaves declares what is written in members, and what owners are told of it.
func (d *derivation) declareLeaves(g *inc.Graph) (findings []*inc.Table[model.Object, model.Findings]) {
	in, l := &d.p.In, &d.leaves
	l.missing = inc.IndexBy(d.p.Missing, func(model.Member, fleet.Missing) []model.All { return []model.All{{}} })
	gateways := leafyGateways(d.p)
	l.casts = inc.Derive(g, "leaf.casts", d.cast, d.p.Leafed)
	d.declareLeafGateways(g, gateways)
	grants, policies := d.declareLeafGrants(g), d.declareLeafPolicies(g)
	rollouts := d.declareRollouts(g, gateways)
	d.t.LeavesUnread = inc.Derive(g, "leaf.unread", func(r *inc.Reader, k model.Object) (model.There, bool) {
		_, read := in.Manifests.Get(r, k)
		return model.There{}, !read
	}, d.p.Leafed, gateways, d.p.LeafSets, grants, policies)
	d.declareConsents(g)
	d.t.Leaves = inc.Derive(g, "leaf.Leaves", d.leaf, inc.IndexBy(l.casts, leafIDs), inc.IndexBy(l.gateways, leafIDs), inc.IndexBy(l.sets, leafIDs), inc.IndexBy(l.grants, leafIDs), inc.IndexBy(l.policies, leafIDs))
	keys := d.declareKeys(g)
	d.declareSecrets(g)
	return []*inc.Table[model.Object, model.Findings]{
		inc.Derive(g, "findings of leaves", d.leafFindings, d.p.Leafed, gateways, d.p.LeafSets),
		declareWaiting(g, d.p),
		declareHoldings(g, d.p),
		declareLastSites(g, d.p),
		d.declareTombstones(g),
		keys,
		d.declareSpaces(g),
		rollouts,
	}
}

// leafIDs are the leaves of a root.
func leafIDs(k model.Object, c *cast) []model.LeafID {
	out := make([]model.LeafID, len(c.members))
	for i, m := range c.members {
		out[i] = model.LeafID{Member: m, Root: k}
	}
	return out
}

// castAt is what leaves of a root are made of, of whatever kind it is.
func (d *derivation) castAt(r *inc.Reader, k model.Object) (*cast, bool) {
	switch k.Kind {
	case model.GatewayKind:
		return d.leaves.gateways.Get(r, k)
	case model.ListenerSetKind:
		return d.leaves.sets.Get(r, k)
	case grantKind:
		return d.leaves.grants.Get(r, k)
	case policyKind:
		return d.leaves.policies.Get(r, k)
	}
	return d.leaves.casts.Get(r, k)
}

// cast decides what leaves of a root say, and which members have one.
func (d *derivation) cast(r *inc.Reader, k model.Object) (*cast, bool) {
	a, ours := d.p.Attachments.Get(r, k)
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !ours || !read {
		return nil, false
	}
	if a.Attached {
		return d.routeCast(r, k, manifest)
	}
	class := a.Classes.List()[0] // an Ingress has one, and so has a Route of OpenShift
	leafy, _ := d.p.Leafy.Get(r, class)
	if k.Kind == model.OpenShiftRoute {
		return d.openShiftCast(r, k, a, manifest, leafy.Spec)
	}
	body, err := ingest.WholeOf(manifest.Body)
	if leafy.Spec == nil || err != nil {
		return nil, false
	}
	out := castOf(manifest, leafy.Spec)
	part := d.partOf(r, k, class)
	out.lost = part.lost.Findings()
	if !part.cut(body.Spec) {
		return out, true
	}
	body.Metadata.Only(leafy.Spec.Allows)
	out.mark(&body.Metadata)
	classed(body.Spec, leafy.Spec.Class)
	out.body, out.secrets = body.Text(), secretsOf(k, body.Spec)
	row, _ := d.p.Leafed.Get(r, k)
	out.members, out.lacking = row.Members, row.Lacking
	return out, true
}

// castOf is the cast of a root that was read, of which nothing else is known.
func castOf(m model.Manifest, spec *model.LeafSpec) *cast {
	return &cast{uid: m.UID, adopts: m.Adopts, orphans: m.Orphans, spec: spec}
}

// mark says in leaves that they stay when they are wanted no more, where it is so.
func (a *cast) mark(m *ingest.Metadata) {
	if !a.orphans {
		return
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[v1alpha1.AnnotationLeafDeletion] = string(v1alpha1.LeafOrphan)
}

// classed has the leaf of an Ingress name its class; empty: it is the member's default.
func classed(spec map[string]any, class string) {
	spec["ingressClassName"] = class
	if class == "" {
		delete(spec, "ingressClassName")
	}
}

// leaf is what one member should have.
func (d *derivation) leaf(r *inc.Reader, k model.LeafID) (Leaf, bool) {
	c, ok := d.castAt(r, k.Root)
	if !ok {
		return Leaf{}, false
	}
	c, edition, keep := d.editionIn(r, k, c)
	namespace, has := d.p.SpaceIn(r, k.Member, k.Root.Workspace, k.Root.Namespace)
	if !has {
		return Leaf{}, false
	}
	out := Leaf{Namespace: namespace, Name: k.Root.Name, UID: c.uid, Body: c.body, Adopt: ingest.Adopts(model.Manifest{Adopts: c.adopts}, k.Member), Edition: edition, Keep: keep}
	if len(c.secrets) > 0 {
		out.Keys = d.keysOf(r, k, c, c.spec.Member(k.Member))
	}
	if k.Root.Kind != ingressKind {
		if k.Root.Kind == grantKind {
			out.Lets = d.letsOf(r, k)
		}
		out.Body = c.wholeIn(k, d.p.SpacesIn(r, k.Member), out.Keys, out.Lets)
		return out, true
	}
	at := c.spec.Member(k.Member)
	if at.Class != c.spec.Class || len(at.Annotations)+len(out.Keys) > 0 {
		out.Body = otherwise(c.body, at, out.Keys)
	}
	return out, true
}

// ingressKind is the kind whose leaves name the class of one root.
const ingressKind = "Ingress"

// otherwise is a body as one member wants it.
func otherwise(text string, at model.LeafMember, keys []model.HeldKey) string {
	body, err := ingest.WholeOf(text)
	if err != nil {
		panic("a leaf that we wrote can't be read: " + err.Error())
	}
	classed(body.Spec, at.Class)
	name(body.Spec, keys)
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
	ids, rules := d.p.RulesOf.Keys(r, k), d.p.RulesOf.Get(r, k)
	for i, id := range ids {
		at := model.HostKey{Class: class, Host: id.Host}
		host, _ := d.p.Hosts.Get(r, at)
		out.rows[id.Host] = host.Default != nil && host.Default.Root == k
		lost := d.lostAt(r, k, at, rules[i], &out.lost)
		for _, rule := range rules[i] {
			if slices.ContainsFunc(rule.Matches, func(m model.Match) bool { return !lost[m] }) {
				out.won[rule.Field] = true
			}
		}
	}
	rest, _ := d.p.Hosts.Get(r, model.HostKey{Class: class})
	out.fallback = rest.Default != nil && rest.Default.Root == k
	return out
}
