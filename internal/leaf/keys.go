package leaf

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// A leaf may name copies of Secrets of the hub (tls: Distribute). Which these are is
// decided here: their names are in bodies and in a table, and the keys are nowhere but in
// the rows of certificates, where the writer looks them up.

// consent is what leaves need to know of a Secret that allows members to have its key.
type consent struct {
	name string      // of its copies
	to   model.Texts // members
}

func (a consent) Equal(b consent) bool { return a == b }

// allows reports whether a member may have the key.
func (a consent) allows(m model.Member) bool {
	return a.to.Has(model.AnyMember) || a.to.Has(string(m))
}

// declareConsents finds the Secrets that may be copied. Others have no row.
func (d *derivation) declareConsents(g *inc.Graph) {
	d.leaves.consents = inc.Derive(g, "leaf.consents", func(r *inc.Reader, id model.SecretID) (consent, bool) {
		c, ok := d.p.In.Certificates.Get(r, id)
		if !ok || c.Problem != "" || c.To == (model.Texts{}) {
			return consent{}, false
		}
		return consent{model.HeldName(id, c), c.To}, true
	}, d.p.In.Certificates)
}

// declareKeys lists the copies that leaves name, and tells of those that are left.
func (d *derivation) declareKeys(g *inc.Graph) *inc.Table[model.Object, model.Findings] {
	in := &d.p.In
	of := inc.IndexBy(d.t.Leaves, func(_ model.LeafID, l Leaf) []model.HeldKey { return l.Keys })
	d.t.Keys = inc.Derive(g, "leaf.Keys", func(*inc.Reader, model.HeldKey) (model.There, bool) { return model.There{}, true }, of)
	d.leaves.copies = inc.IndexBy(in.HeldKeys, func(k model.HeldKey, _ model.KeyState) []model.SecretID { return []model.SecretID{k.Secret} })
	d.leaves.left = inc.IndexBy(in.HeldKeys, func(k model.HeldKey, _ model.KeyState) []model.Object {
		return []model.Object{memberObject.of(k.Member)}
	})
	return inc.Derive(g, "findings of keys that are left", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := model.Collector{Object: o}
		d.leftFindings(r, &n, o)
		return n.Row()
	}, d.leaves.left)
}

// leftFindings tells of keys that a member should not have any more, and keeps.
func (d *derivation) leftFindings(r *inc.Reader, n *model.Collector, o model.Object) {
	source, _ := d.p.In.Sources.Get(r, model.Member(o.Name))
	away, refused := 0, 0
	d.leaves.left.Each(r, o, func(k model.HeldKey, s model.KeyState) {
		if _, wanted := d.t.Keys.Get(r, k); wanted {
			return
		}
		switch {
		case !source.Connected:
			away++
		case s.Reason == model.KeyRefused || s.Reason == model.KeyFailing:
			refused++
		}
	})
	if away > 0 {
		n.Warning("", model.ReasonKeysLeft, "it is not reached, and may have %s of which no leaf there is in need: they go when it returns. Renew the certificates if it does not", manyKeys(away))
	}
	if refused > 0 {
		n.Error("", model.ReasonKeysLeft, "%s of which no leaf there is in need can't be deleted: apply deploy/rbac/member-keys.yaml there, and look at what refuses deletions. `spillway get keys` names them", manyKeys(refused))
	}
}

// manyKeys is a number of keys, in words.
func manyKeys(n int) string {
	if n == 1 {
		return "1 key"
	}
	return fmt.Sprint(n, " keys")
}

// secretsOf are the Secrets that the spec of an Ingress lists.
func secretsOf(root model.Object, spec map[string]any) []model.SecretID {
	var out []model.SecretID
	for _, t := range ingest.MapsIn(spec, "tls") {
		if name := ingest.TextIn(t, "secretName"); name != "" {
			out = append(out, secretIn(root, name))
		}
	}
	return sortedSecrets(out)
}

func sortedSecrets(all []model.SecretID) []model.SecretID {
	slices.SortFunc(all, model.SecretID.Compare)
	return slices.Compact(all)
}

func secretIn(root model.Object, name string) model.SecretID {
	return model.SecretID{Workspace: root.Workspace, Namespace: root.Namespace, Name: name}
}

// keysOf are the copies that a leaf names.
func (d *derivation) keysOf(r *inc.Reader, k model.LeafID, c *cast, at model.LeafMember) []model.HeldKey {
	if at.TLS != model.LeafTLSDistribute {
		return nil
	}
	var out []model.HeldKey
	for _, id := range c.secrets {
		if of, ok := d.leaves.consents.Get(r, id); ok && of.allows(k.Member) {
			usual := model.MemberNamespace(id.Workspace, id.Namespace)
			switch as, has := d.p.SpacesIn(r, k.Member).In(usual); {
			case !has:
			case as == usual:
				out = append(out, model.HeldKey{Member: k.Member, Secret: id, Name: of.name})
			default:
				out = append(out, model.HeldKey{Member: k.Member, Secret: id, Name: of.name, In: as})
			}
		}
	}
	return out
}

// name has an Ingress name copies. Its tls stays whatever there is of these: without it,
// controllers that send clients to HTTPS would answer in clear text.
func name(spec map[string]any, keys []model.HeldKey) {
	for _, t := range ingest.MapsIn(spec, "tls") {
		if j := slices.IndexFunc(keys, func(k model.HeldKey) bool { return k.Secret.Name == ingest.TextIn(t, "secretName") }); j >= 0 {
			t["secretName"] = keys[j].Name
		}
	}
}

// keyFields are where roots name Secrets.
var keyFields = map[string]model.Field{ingressKind: "spec.tls", model.GatewayKind: "spec.listeners", model.ListenerSetKind: "spec.listeners", model.OpenShiftRoute: "spec.tls"}

// keyFindings tells an owner which keys members lack, and why.
func (d *derivation) keyFindings(r *inc.Reader, n *model.Collector, root model.Object, c *cast) {
	if c.spec == nil || len(c.secrets)+len(c.denied) == 0 && !c.inline { // as of routes, whose configurations are those of their Gateways
		return
	}
	var asking []model.Member
	for _, m := range c.members {
		if c.spec.Member(m).TLS == model.LeafTLSDistribute {
			asking = append(asking, m)
		}
	}
	if len(asking) == 0 {
		return
	}
	field := keyFields[root.Kind]
	for _, s := range c.secrets {
		d.secretFindings(r, n, field, s, asking)
	}
	who := "members " + few(names(asking))
	for _, s := range c.denied {
		n.Error(field, model.ReasonKeyNotDistributed, "no ReferenceGrant in namespace %s lets %ss of %s use %s, so that its key is not in %s", s.Namespace, root.Kind, root.Namespace, s.Described(), who)
	}
	if c.inline {
		n.Error(field, model.ReasonKeyNotDistributed, "the key that the Route has in itself does not leave the hub, so that leaves in %s have none: put it into a Secret that allows it, and name that as externalCertificate", who)
	}
	for _, m := range asking {
		row, _ := d.t.Leaves.Get(r, model.LeafID{Member: m, Root: root})
		for _, k := range row.Keys {
			switch s, _ := d.p.In.HeldKeys.Get(r, k); s.Reason {
			case model.KeyRefused, model.KeyFailing:
				n.Error(field, model.ReasonKeyRefused, "member %s does not take the key of %s (%s): the leaf there stays as it is until it does. Apply deploy/rbac/member-keys.yaml there, and look at its quotas and webhooks", m, k.Secret.Described(), s.Detail)
			}
		}
	}
}

// secretFindings tells why a Secret is not copied to members that ask for it.
func (d *derivation) secretFindings(r *inc.Reader, n *model.Collector, field model.Field, id model.SecretID, asking []model.Member) {
	of, consents := d.leaves.consents.Get(r, id)
	without := slices.DeleteFunc(slices.Clone(asking), func(m model.Member) bool { return consents && of.allows(m) })
	if len(without) == 0 {
		return
	}
	const then = "leaves there name the member's own Secret of that name"
	cert, there := d.p.In.Certificates.Get(r, id)
	who := "members " + few(names(without))
	switch {
	case !there:
		n.Error(field, model.ReasonSecretNotFound, "%s, for %s: %s", d.p.NoSecret(r, id), who, then)
	case cert.Problem != "":
		n.Error(field, model.ReasonSecretInvalid, "%s can't be used in %s: %s; %s", id.Described(), who, cert.Problem, then)
	default:
		n.Error(field, model.ReasonKeyNotDistributed, "%s does not allow its key in %s: %s. Annotate it %s: \"true\", or with the names of members", id.Described(), who, then, v1alpha1.AnnotationDistribute)
	}
}
