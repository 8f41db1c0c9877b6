package leaf

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareSecrets finds the Secrets that something refers to: what users write, leaves as
// they are or were, and the copies that members have. Nobody needs to know others.
func (d *derivation) declareSecrets(g *inc.Graph) {
	in, l := &d.p.In, &d.leaves
	named := func(_ model.Object, c *cast) []model.SecretID {
		return append(c.secrets[:len(c.secrets):len(c.secrets)], c.denied...)
	}
	d.t.Secrets = inc.Derive(g, "leaf.Secrets", func(*inc.Reader, model.SecretID) (model.There, bool) { return model.There{}, true },
		inc.IndexBy(in.Roots, func(_ model.Object, v model.Root) []model.SecretID { return model.SecretsOf(v.TLS) }),
		inc.IndexBy(in.Gateways, func(_ model.GatewayID, v model.GatewaySpec) []model.SecretID { return v.Secrets() }),
		inc.IndexBy(in.ListenerSets, func(_ model.Object, v model.ListenerSetSpec) []model.SecretID {
			return model.ListenerSecrets(v.Listeners)
		}),
		inc.IndexBy(l.casts, named), inc.IndexBy(l.gateways, named), inc.IndexBy(l.sets, named),
		inc.IndexBy(d.t.Keys, func(k model.HeldKey, _ model.There) []model.SecretID { return []model.SecretID{k.Secret} }), l.copies)
}
