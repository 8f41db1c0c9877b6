package zone

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareFindings tells owners what DNS does not do for them. Objects of which
// DNS does all have no row, but for DNSZones.
func (t *Tables) declareFindings(g *inc.Graph, p *fleet.Program) {
	zones := inc.Derive(g, "dns-findings of zones", func(r *inc.Reader, id model.Object) (model.Findings, bool) {
		return t.zoneFindings(r, p, id)
	}, inc.IndexBy(p.In.Zones, func(_ model.ZoneID, spec model.ZoneSpec) []model.Object { return []model.Object{spec.Origin.Object} }))
	t.refused = inc.IndexBy(t.choices, func(_ model.Host, c choice) []model.Object { return c.refused.roots() })
	roots := inc.Derive(g, "dns-findings of roots", func(r *inc.Reader, root model.Object) (model.Findings, bool) {
		return t.rootFindings(r, p, root)
	}, t.refused)
	served := inc.IndexBy(t.Zones, func(model.ZoneID, Served) []model.All { return []model.All{{}} })
	partial := inc.IndexBy(p.In.Edges, func(id model.Edge, spec model.EdgeSpec) []model.Object {
		if names, left := unanswered(id, spec); names+len(left) == 0 {
			return nil
		}
		return []model.Object{{Kind: "Edge", Name: string(id)}}
	})
	edges := inc.Derive(g, "dns-findings of edges", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		spec, ok := p.In.Edges.Get(r, model.Edge(o.Name))
		if !ok || !served.Has(r, model.All{}) {
			return nil, false
		}
		return edgeFindings(o, spec)
	}, partial)
	sites := inc.Derive(g, "dns-findings of sites", func(r *inc.Reader, root model.Object) (model.Findings, bool) {
		if !served.Has(r, model.All{}) {
			return nil, false
		}
		return t.siteFindings(r, p, root)
	}, troubled(p))
	t.Findings = fleet.AllFindings(g, "dns-findings", zones, roots, edges, sites)
}

func (t *Tables) zoneFindings(r *inc.Reader, p *fleet.Program, id model.Object) (model.Findings, bool) {
	spec, ok := p.In.Zones.Get(r, model.ZoneID{Workspace: id.Workspace, Namespace: id.Namespace, Name: id.Name})
	if !ok {
		return nil, false
	}
	found := model.Collector{Object: id}
	switch first, ok := t.apexes.Get(r, spec.Domain); {
	case ok && first.Origin == spec.Origin:
		if _, err := specOf(spec); err != nil {
			found.Error("spec", model.ReasonInvalid, "%v", err)
		}
	case ok && first.Origin.Compare(spec.Origin) < 0:
		found.Error("spec.domain", model.ReasonConflict, "%s is served by the older %v: choose another domain or delete one of them", spec.Domain, first.Origin.Object)
	default:
		up := refuser(t.chain(r, spec.Domain), spec)
		found.Error("spec.domain", model.ReasonConflict, "%s lies in %s, which the older %v serves without delegating to namespace %s: add the namespace to spec.delegatesTo of that zone, or choose another domain", spec.Domain, up.Domain, up.Origin.Object, id.Namespace)
	}
	if below := t.strangers(r, spec); len(below) > 0 && t.has(r, spec) {
		names := make([]string, len(below))
		for i, z := range below {
			names[i] = fmt.Sprintf("%s (%v)", z.Domain, z.Origin.Object)
		}
		found.Warning("spec.domain", model.ReasonConflict, "other namespaces had domains below %s before: their zones answer for these; add the namespaces to spec.delegatesTo if that is right: %s", spec.Domain, model.Few(names))
	}
	return found.Row()
}

// rootFindings names the zones that refuse hosts of a root: once a zone, since
// it is about the namespace. It is an error, though proxies serve the hosts:
// nobody else may answer for a name of the zone, so that no client finds them.
func (t *Tables) rootFindings(r *inc.Reader, p *fleet.Program, root model.Object) (model.Findings, bool) {
	hosts := map[model.Object][]model.Host{}
	names, rows := t.refused.Keys(r, root), t.refused.Get(r, root)
	for i, row := range rows {
		hosts[row.refused.Zone] = append(hosts[row.refused.Zone], names[i])
	}
	found := model.Collector{Object: root}
	for zone, refused := range hosts {
		field := firstRule(r, p, root, refused)
		found.Error(field, model.ReasonNamespaceRefused, "%v does not allow namespace %s: proxies serve its hosts, but DNS does not answer them for this %s; add the namespace to spec.allowedNamespaces of the zone, or use other hosts: %s",
			zone, root.Namespace, root.Kind, model.Few(written(refused)))
	}
	return found.Row()
}

func written(hosts []model.Host) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = h.Written()
	}
	return out
}

// firstRule is where a root has its first rule for one of some hosts.
func firstRule(r *inc.Reader, p *fleet.Program, root model.Object, hosts []model.Host) model.Field {
	var first model.Field
	for _, h := range hosts {
		rules, ok := p.In.Rules.Get(r, model.RulesID{Root: root, Host: h})
		if ok && len(rules) > 0 && (first == "" || rules[0].Field.Compare(first) < 0) {
			first = rules[0].Field
		}
	}
	return cmp.Or(first, "spec.rules")
}

// edgeFindings says which of an edge's public addresses DNS does not answer.
func edgeFindings(o model.Object, spec model.EdgeSpec) (model.Findings, bool) {
	found := model.Collector{Object: o}
	names, left := unanswered(model.Edge(o.Name), spec)
	if names > 0 {
		found.Warning("spec.addresses", model.ReasonUnsupported,
			"it has host names only, and DNSZones answer IP addresses: DNS does not name this Edge; add its addresses if they stay the same")
	}
	if len(left) > 0 {
		found.Warning("spec.addresses", model.ReasonUnsupported,
			"DNS answers at most %d addresses of a family: remove some, or make another Edge of those it does not answer: %s", MaxAddresses, joined(left))
	}
	return found.Row()
}

// unanswered are the names of an edge, if it has nothing else, and the addresses
// that it has too many of.
func unanswered(id model.Edge, spec model.EdgeSpec) (names int, left []netip.Addr) {
	if len(spec.Addresses) == 0 {
		return len(spec.Hostnames), nil
	}
	edge := NewEdge(id, spec.Place, spec.Addresses)
	return 0, slices.DeleteFunc(slices.Clone(spec.Addresses), func(ip netip.Addr) bool {
		return slices.Contains(edge.v4, ip) || slices.Contains(edge.v6, ip)
	})
}

func joined(list []netip.Addr) string {
	out := make([]string, len(list))
	for i, ip := range list {
		out[i] = ip.String()
	}
	return strings.Join(out, ", ")
}
