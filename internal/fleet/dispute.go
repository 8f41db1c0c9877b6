package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareDisputes tells both sides of a TLS name that roots of several
// namespaces list. Other roots have no row, and nobody looks.
func (d *program) declareDisputes(g *inc.Graph) {
	parties := inc.IndexBy(d.Chains, func(_ model.HostKey, c Chain) []model.Object {
		if c.Dispute == nil {
			return nil
		}
		return append(slices.Clone(c.Dispute.Lost), c.Dispute.Owner)
	})
	d.ofNames = inc.Derive(g, "findings of TLS names", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := &model.Collector{Object: o, Once: true}
		a, _ := d.Attachments.Get(r, o)
		var refused []string
		chains := parties.Get(r, o)
		for i, k := range parties.Keys(r, o) {
			if dispute := chains[i].Dispute; dispute.Owner == o {
				refused = append(refused, fmt.Sprintf("%s of %s", tlsName(k.Host), dispute.Lost[0]))
			} else {
				a.loses(n, k.Host, dispute.Owner)
			}
		}
		if len(refused) > 0 {
			n.Warning("", model.ReasonConflict, "others list names under spec.tls that belong to namespace %s by this %s; their certificates are not presented: %s",
				o.Namespace, o.Kind, model.Few(refused))
		}
		return n.Row()
	}, parties)
}

// loses tells a root that a name it lists is another's.
func (a Attachment) loses(n *model.Collector, h model.Host, owner model.Object) {
	for _, t := range a.TLS {
		if slices.Contains(t.Hosts, h) {
			n.Error(t.Field+".hosts", model.ReasonConflict,
				"%s belongs to %s in another namespace, by its rules or by its age: the certificate in Secret %s is not presented for it", tlsName(h), owner, t.Secret)
		}
	}
}

func tlsName(h model.Host) string {
	if h == "" {
		return "every name without a certificate"
	}
	return string(h)
}
