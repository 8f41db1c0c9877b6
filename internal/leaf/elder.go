package leaf

import (
	"cmp"
	"math"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// An edition that is not the root's any more is cut as the root's own is, by what roots
// have now: so no member has two leaves for one request, whatever editions they are of.
// What the root does not ask for any more is its old edition's as long as nobody else has
// it.

// elder is what leaves of an older edition are made of.
func (d *derivation) elder(r *inc.Reader, k elderID) (*cast, bool) {
	now, served := d.castAt(r, k.root)
	s, _ := d.rollouts.stairs.Get(r, k.root)
	manifest, read := d.p.In.Manifests.Get(r, k.root)
	if !served || !read {
		return nil, false
	}
	body := ""
	for _, e := range s.steps {
		if e.ID == k.id {
			body = e.Body
		}
	}
	out := *now
	out.body, out.secrets, out.denied, out.inline = "", nil, nil, false
	switch {
	case body == "":
	case k.root.Kind == ingressKind:
		d.elderIngress(r, k.root, body, &out)
	case k.root.Kind == model.GatewayKind:
		out.body = body
		d.elderSecrets(r, k.root, &out)
	case k.root.Kind == model.OpenShiftRoute:
		d.elderOpenShift(r, k.root, body, &out)
	default:
		return d.elderRoute(r, k.root, manifest, body), true
	}
	return &out, true
}

// taken reports whether another root has what an older edition of a root matches.
func (d *derivation) taken(r *inc.Reader, k model.Object, at model.HostKey, m model.Match) bool {
	host, _ := d.p.Hosts.Get(r, at)
	by, has := host.Owner(m)
	if has && by != k {
		return true
	}
	than := model.Origin{Created: math.MaxInt64} // whoever else has it, if the root asks for it no more
	if has {
		root, _ := d.p.In.Roots.Get(r, k)
		than = model.Origin{Created: root.Created, Object: k}
	}
	_, others := d.p.Elders(r, at).Owner(r, m, than)
	return others
}

// restIsFree reports whether what no rule of a host matches is not another root's.
func (d *derivation) restIsFree(r *inc.Reader, k model.Object, at model.HostKey) bool {
	host, _ := d.p.Hosts.Get(r, at)
	return host.Default == nil || host.Default.Root == k
}

// classOf is the class of a root that has one.
func (d *derivation) classOf(r *inc.Reader, k model.Object) model.Class {
	a, _ := d.p.Attachments.Get(r, k)
	return a.Classes.List()[0]
}

func (d *derivation) elderIngress(r *inc.Reader, k model.Object, text string, out *cast) {
	body, err := ingest.WholeOf(text)
	if err != nil {
		return
	}
	class := d.classOf(r, k)
	p := &part{won: map[model.Field]bool{}, rows: map[model.Host]bool{}, fallback: d.restIsFree(r, k, model.HostKey{Class: class})}
	for _, of := range ingest.RulesIn(k, body.Spec) {
		at := model.HostKey{Class: class, Host: of.Host}
		p.rows[of.Host] = d.restIsFree(r, k, at)
		for _, rule := range of.Rules {
			for _, m := range rule.Matches {
				p.won[rule.Field] = p.won[rule.Field] || !d.taken(r, k, at, m)
			}
		}
	}
	if !p.cut(body.Spec) {
		return
	}
	out.mark(&body.Metadata)
	classed(body.Spec, out.spec.Class)
	out.body, out.secrets = body.Text(), secretsOf(k, body.Spec)
}

func (d *derivation) elderOpenShift(r *inc.Reader, k model.Object, text string, out *cast) {
	whole, err := ingest.WholeOf(text)
	if err != nil {
		return
	}
	host, match, serves := ingest.RuleIn(k, whole.Spec)
	if serves && !d.taken(r, k, model.HostKey{Class: d.classOf(r, k), Host: host}, match) {
		out.body = text
		d.elderSecrets(r, k, out)
	}
}

// elderSecrets finds the Secrets that an older edition names.
func (d *derivation) elderSecrets(r *inc.Reader, k model.Object, out *cast) {
	whole, err := ingest.WholeOf(out.body)
	if err != nil {
		return
	}
	var all []model.SecretID
	ingest.NameSecrets(whole.Spec, func(namespace, name string) string {
		all = append(all, model.SecretID{Workspace: k.Workspace, Namespace: cmp.Or(namespace, k.Namespace), Name: name})
		return name
	})
	out.secrets, out.denied = d.permitted(r, k, sortedSecrets(all))
}

// elderRoute is that of a route of the Gateway API, which attaches where the root does now.
func (d *derivation) elderRoute(r *inc.Reader, k model.Object, manifest model.Manifest, text string) *cast {
	whole, err := ingest.WholeOf(text)
	current, bad := ingest.WholeOf(manifest.Body)
	if err != nil || bad != nil {
		return &cast{via: []via{}}
	}
	if refs, some := current.Spec["parentRefs"]; some {
		whole.Spec["parentRefs"] = refs
	}
	rules := model.Rules{{Matches: ingest.MatchesIn(k.Kind, whole.Spec)}}
	has := shareIn(k, d.p.LeafPlacesOf(r, k, ingest.HostsIn(whole.Spec)), rules, func(at model.HostKey, n *model.Collector) map[model.Match]bool {
		out := map[model.Match]bool{}
		for _, m := range rules[0].Matches {
			out[m] = d.taken(r, k, at, m)
		}
		return out
	})
	out := d.routeCastOf(r, k, manifest, whole, has)
	if out.via == nil {
		out.via = []via{}
	}
	return out
}
