package leaf

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// A route of the Gateway API has leaves by its Gateways that members serve: by each, in
// the members that have its backends. A Gateway has a leaf where one of its routes has
// one by it, so that a leaf of a route refers to nothing that is not there.

// via is a Gateway by which a route has leaves.
type via struct {
	gateway model.GatewayID
	parents []model.Parent // references of the route that lead to it
	spec    *model.LeafSpec
	members []model.Member // sorted
}

func (a via) equal(b via) bool {
	return a.gateway == b.gateway && slices.Equal(a.parents, b.parents) && a.spec.Equal(b.spec) && slices.Equal(a.members, b.members)
}

// gatewayInMember says that a route has a leaf there by the Gateway.
type gatewayInMember struct {
	gateway model.GatewayID
	member  model.Member
}

// leafyGateways finds the Gateways that members serve.
func leafyGateways(p *fleet.Program) inc.Keys[model.Object] {
	return inc.IndexBy(p.Gateways, func(id model.GatewayID, row *fleet.Gateway) []model.Object {
		if own := row.Own(); !own.Leaf || own.Refused != (model.Refusal{}) {
			return nil
		}
		return []model.Object{id.Object()}
	})
}

// declareLeafGateways decides which members have leaves of Gateways. An edit of a route
// that leaves its members as they are ends before them.
func (d *derivation) declareLeafGateways(g *inc.Graph, gateways inc.Keys[model.Object]) {
	l := &d.leaves
	routes := inc.IndexBy(l.casts, func(k model.Object, c *cast) []model.Object {
		if len(c.via) == 0 {
			return nil
		}
		return []model.Object{k}
	})
	seats := inc.Derive(g, "leaf.seats of routes", func(r *inc.Reader, k model.Object) (out inc.List[gatewayInMember], ok bool) {
		c, _ := l.casts.Get(r, k)
		for _, v := range c.via {
			for _, m := range v.members {
				out = append(out, gatewayInMember{v.gateway, m})
			}
		}
		return out, true
	}, routes)
	l.through = inc.IndexBy(seats, func(_ model.Object, all inc.List[gatewayInMember]) (out []model.GatewayID) {
		for _, s := range all {
			out = append(out, s.gateway)
		}
		slices.SortFunc(out, model.GatewayID.Compare)
		return slices.Compact(out)
	})
	l.gateways = inc.Derive(g, "leaf.gateway casts", d.gatewayCast, gateways)
	l.sets = inc.Derive(g, "leaf.listener set casts", d.setCast, d.p.LeafSets)
}

// gatewayCast is that of a Gateway that members serve.
func (d *derivation) gatewayCast(r *inc.Reader, k model.Object) (*cast, bool) {
	id := model.GatewayID{Workspace: k.Workspace, Namespace: k.Namespace, Name: k.Name}
	row, ours := d.p.Gateways.Get(r, id)
	manifest, read := d.p.In.Manifests.Get(r, k)
	if !ours || !read || row.Config.Leaf == nil {
		return nil, false
	}
	out := castOf(manifest, row.Config.Leaf)
	out.body = manifest.Body
	has := map[model.Member]bool{}
	for _, seats := range d.leaves.through.Get(r, id) {
		for _, s := range seats {
			has[s.member] = has[s.member] || s.gateway == id
		}
	}
	maps.DeleteFunc(has, func(_ model.Member, is bool) bool { return !is })
	out.members = slices.Sorted(maps.Keys(has))
	out.secrets, out.denied = d.permitted(r, k, sortedSecrets(row.Spec.Secrets()))
	return out, true
}

// routeCast is that of a route of the Gateway API.
func (d *derivation) routeCast(r *inc.Reader, k model.Object, manifest model.Manifest) (*cast, bool) {
	whole, err := ingest.WholeOf(manifest.Body)
	if err != nil {
		return nil, false
	}
	return d.routeCastOf(r, k, manifest, whole, d.shareOf(r, k)), true
}

// routeCastOf is that of a route that says so much, given what it has of that.
func (d *derivation) routeCastOf(r *inc.Reader, k model.Object, manifest model.Manifest, whole ingest.Whole, has *share) *cast {
	out := castOf(manifest, nil)
	out.lost = has.lost.Findings()
	if !ingest.CutRules(k.Kind, whole.Spec, func(m model.Match) bool { return has.matches[m] }) {
		return out
	}
	ingest.CutHosts(whole.Spec, func(h model.Host) bool { return has.hosts[h] })
	out.body = whole.Text()
	row, _ := d.p.Leafed.Get(r, k)
	out.lacking = row.Lacking
	for _, v := range d.vias(r, k, has) {
		if i := slices.IndexFunc(row.By, func(b fleet.LeafedBy) bool { return b.Gateway == v.gateway }); i >= 0 {
			v.members = row.By[i].Members
		}
		out.via = append(out.via, v)
		out.members = append(out.members, v.members...)
	}
	slices.Sort(out.members)
	out.members = slices.Compact(out.members)
	return out
}

// vias are the Gateways of which a route has something, without members yet.
func (d *derivation) vias(r *inc.Reader, k model.Object, has *share) []via {
	var out []via
	parents, _ := d.p.Parents.Get(r, k)
	for i, p := range parents {
		if !has.parents[i] {
			continue
		}
		front := p.Fronts[0].Front
		id, _ := front.Gateway()
		at := slices.IndexFunc(out, func(v via) bool { return v.gateway == id })
		if at < 0 {
			leafy, _ := d.p.Leafy.Get(r, front)
			at, out = len(out), append(out, via{gateway: id, spec: leafy.Spec})
		}
		out[at].parents = append(out[at].parents, p.Parent)
	}
	return slices.DeleteFunc(out, func(v via) bool { return v.spec == nil })
}

// share is what a route has of what it asks for.
type share struct {
	matches map[model.Match]bool // that its leaves have
	hosts   map[model.Host]bool  // as it names them
	parents map[int]bool         // by their place in fleet.Parents
	lost    model.Collector
}

// corner is a host that a route asks for by one of its parents.
type corner struct {
	parent int
	host   model.Host
}

// shareOf finds what a route has. All of it has what is in a leaf: so a host, or a
// parent, of which it has nothing is left out; and a match that somebody else has at
// what is left.
func (d *derivation) shareOf(r *inc.Reader, k model.Object) *share {
	places, _ := d.p.LeafPlaces.Get(r, k)
	var rules model.Rules
	if all := d.p.RulesOf.Get(r, k); len(all) > 0 {
		rules = all[0] // the same for each host
	}
	return shareIn(k, places, rules, func(at model.HostKey, n *model.Collector) map[model.Match]bool { return d.lostAt(r, k, at, rules, n) })
}

// shareIn is what is left of rules at places, given what is lost at each.
func shareIn(k model.Object, places []fleet.LeafPlace, rules model.Rules, lostAt func(model.HostKey, *model.Collector) map[model.Match]bool) *share {
	out := &share{matches: map[model.Match]bool{}, hosts: map[model.Host]bool{}, parents: map[int]bool{}, lost: model.Collector{Object: k, Once: true}}
	lost := map[corner]map[model.Match]bool{}
	for _, p := range places {
		at := corner{p.Parent, p.Named}
		if lost[at] == nil {
			lost[at] = map[model.Match]bool{}
		}
		for m, is := range lostAt(p.At, &out.lost) {
			lost[at][m] = is || lost[at][m]
			if !is {
				out.matches[m], out.hosts[p.Named], out.parents[p.Parent] = true, true, true
			}
		}
	}
	out.cut(lost)
	for _, rule := range rules {
		for _, m := range rule.Matches {
			if left, won := out.matches[m]; won && !left {
				out.lost.Error(rule.Field, model.ReasonConflict, "leaves do not have %s for any host: an older object has it of one of them, and what a leaf has is for all", m)
			}
		}
	}
	return out
}

// cut leaves out what somebody else has, so that what is left is for all: hosts of which
// something is lost, if another one is whole; else parents so; else matches.
func (s *share) cut(lost map[corner]map[model.Match]bool) {
	torn, apart := map[model.Host]bool{}, map[int]bool{}
	s.eachLost(lost, func(at corner, _ model.Match) { torn[at.host], apart[at.parent] = true, true })
	switch {
	case len(torn) < len(s.hosts):
		for h := range torn {
			delete(s.hosts, h)
		}
		for _, h := range slices.Sorted(maps.Keys(torn)) {
			s.lost.Error("spec.hostnames", model.ReasonConflict, "leaves do not have host %s: an older object has a part of it, and what a leaf has is for all its hosts", h)
		}
	case len(apart) < len(s.parents):
		for i := range apart {
			delete(s.parents, i)
		}
	}
	s.eachLost(lost, func(_ corner, m model.Match) { s.matches[m] = false })
}

// eachLost calls f with what is lost where the route has something.
func (s *share) eachLost(lost map[corner]map[model.Match]bool, f func(corner, model.Match)) {
	for at, of := range lost {
		for m, is := range of {
			if is && s.hosts[at.host] && s.parents[at.parent] {
				f(at, m)
			}
		}
	}
}

// lostAt tells of each match that a route has at a place whether somebody else has it.
func (d *derivation) lostAt(r *inc.Reader, k model.Object, at model.HostKey, rules model.Rules, n *model.Collector) map[model.Match]bool {
	root, _ := d.p.In.Roots.Get(r, k)
	host, _ := d.p.Hosts.Get(r, at)
	elders, age := d.p.Elders(r, at), model.Origin{Created: root.Created, Object: k}
	out := map[model.Match]bool{}
	for _, rule := range rules {
		for _, m := range rule.Matches {
			owner, _ := host.Owner(m)
			by, taken := elders.Owner(r, m, age)
			if out[m] = taken || owner != k; taken && owner == k {
				n.Error(rule.Field, model.ReasonConflict, "%s is older and has %s", by, m.Of(at.Host))
			}
		}
	}
	return out
}

// openShiftCast is that of a Route of OpenShift, which has its one host or nothing.
func (d *derivation) openShiftCast(r *inc.Reader, k model.Object, a fleet.Attachment, manifest model.Manifest, spec *model.LeafSpec) (*cast, bool) {
	root, _ := d.p.In.Roots.Get(r, k)
	if spec == nil {
		return nil, false
	}
	out := castOf(manifest, spec)
	class := a.Classes.List()[0]
	part := d.partOf(r, k, class)
	out.lost = part.lost.Findings()
	if len(part.won) == 0 || root.Admit == nil || root.Admit.Refused != (model.Refusal{}) {
		return out, true
	}
	out.body = manifest.Body
	for _, t := range root.TLS {
		if _, is := t.Secret.Inline(); is {
			out.inline = true
		} else {
			out.secrets = append(out.secrets, t.Secret)
		}
	}
	out.secrets = sortedSecrets(out.secrets)
	row, _ := d.p.Leafed.Get(r, k)
	out.members, out.lacking = row.Members, row.Lacking
	return out, true
}

// allowedBy reports whether an annotation goes along by one of some configurations.
func allowedBy(specs []*model.LeafSpec) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(specs, func(s *model.LeafSpec) bool { return s.Allows(name) })
	}
}

// wholeIn is the body of a leaf in a member: it names the member's class, has the
// annotations that go along, names copies of Secrets, and refers to nothing but what is
// there.
func (c *cast) wholeIn(k model.LeafID, spaces model.Spaces, keys, lets []model.HeldKey) string {
	whole, err := ingest.WholeOf(c.body)
	if err != nil {
		panic("a leaf that we wrote can't be read: " + err.Error())
	}
	specs, parents := []*model.LeafSpec{c.spec}, []model.Parent(nil)
	if c.via != nil {
		specs = nil
		for _, v := range c.via {
			if slices.Contains(v.members, k.Member) {
				specs, parents = append(specs, v.spec), append(parents, v.parents...)
			}
		}
		ingest.CutParents(whole.Spec, func(p model.Parent) bool { return slices.Contains(parents, p) })
	}
	whole.Metadata.Only(allowedBy(specs))
	for _, s := range specs {
		if at := s.Member(k.Member); len(at.Annotations) > 0 {
			if whole.Metadata.Annotations == nil {
				whole.Metadata.Annotations = map[string]string{}
			}
			maps.Copy(whole.Metadata.Annotations, at.Annotations)
		}
	}
	c.mark(&whole.Metadata)
	if k.Root.Kind == model.GatewayKind {
		whole.Spec["gatewayClassName"] = c.spec.Member(k.Member).Gateways
	}
	ingest.NameSecrets(whole.Spec, func(namespace, name string) string {
		id := model.SecretID{Workspace: k.Root.Workspace, Namespace: cmp.Or(namespace, k.Root.Namespace), Name: name}
		if i := slices.IndexFunc(keys, func(h model.HeldKey) bool { return h.Secret == id }); i >= 0 {
			return keys[i].Name
		}
		return name
	})
	for _, h := range lets {
		ingest.LetSecret(whole.Spec, h.Name)
	}
	ingest.Elsewhere(whole.Spec, func(ns string) string {
		if as, has := spaces.In(model.MemberNamespace(k.Root.Workspace, ns)); has {
			return as
		}
		return model.NoSpace
	})
	return whole.Text()
}
