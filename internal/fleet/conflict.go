package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareConflicts tells owners what others have of what their objects ask for:
// ports, hosts and TLS names. Others have no row, and nobody looks.
func (p *Program) declareConflicts(g *inc.Graph) {
	ports := inc.IndexBy(p.Ports, func(_ ClassSet, row Ports) []model.Object { return row.Lost.Objects() })
	hosts := inc.IndexBy(p.Owners, func(_ HostIn, row Owner) []model.Object { return row.Lost.Objects() })
	names := inc.IndexBy(p.Presented, func(_ HostIn, row Presented) []model.Object { return row.Lost.Objects() })
	lists := inc.IndexBy(p.ServerNames, func(_ ClassList, row ServerNames) []model.Object { return row.Crowded.Objects() })
	refusers := inc.IndexBy(p.Presented, func(_ HostIn, row Presented) []model.Object {
		if row.Refuser == (model.Object{}) {
			return nil
		}
		return []model.Object{row.Refuser}
	})
	parties := inc.IndexBy(p.Chains, func(_ model.HostKey, c Chain) []model.Object {
		if c.Dispute == nil {
			return nil
		}
		return append(slices.Clone(c.Dispute.Lost), c.Dispute.Owner)
	})
	p.Conflicts = inc.Derive(g, "conflicts", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := &model.Collector{Object: o}
		for _, row := range ports.Get(r, o) {
			n.Take(row.Lost)
		}
		for _, row := range hosts.Get(r, o) {
			n.Take(row.Lost)
		}
		for _, row := range names.Get(r, o) {
			n.Take(row.Lost)
		}
		for _, row := range lists.Get(r, o) {
			n.Take(row.Crowded)
		}
		refuses(n, refusers.Get(r, o))
		n.Take(p.disputeFindings(r, o, parties.Keys(r, o), parties.Get(r, o)))
		return n.Row()
	}, ports, hosts, names, lists, refusers, parties)
}

// refuses warns an owner of names that roots of younger classes list.
func refuses(n *model.Collector, rows []Presented) {
	var losers []string
	for _, row := range rows {
		losers = append(losers, row.Lost[0].Object.String())
	}
	slices.Sort(losers)
	if losers = slices.Compact(losers); len(losers) > 0 {
		n.Warning("", model.ReasonConflict,
			"others of younger classes list names under spec.tls whose requests go to this %s; their certificates are not presented where the classes share an edge: %s", n.Object.Kind, model.Few(losers))
	}
}

// disputeFindings tell both sides of TLS names that roots of several namespaces list
// in one class.
func (p *Program) disputeFindings(r *inc.Reader, o model.Object, names []model.HostKey, chains []Chain) model.Findings {
	n := &model.Collector{Object: o, Once: true}
	a, _ := p.Attachments.Get(r, o)
	var refused []string
	for i, k := range names {
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
	return n.Findings()
}

// loses tells a root that a name it lists is another's.
func (a Attachment) loses(n *model.Collector, h model.Host, owner model.Object) {
	for _, t := range a.TLS {
		if slices.Contains(t.Hosts, h) {
			_, hosts := tlsFields(n.Object, t)
			n.Error(hosts, model.ReasonConflict,
				"%s belongs to %s in another namespace, by its rules or by its age: the certificate in %s is not presented for it", tlsName(h), owner, t.Secret.Described())
		}
	}
}

func tlsName(h model.Host) string {
	if h == "" {
		return "every name without a certificate"
	}
	return string(h)
}
