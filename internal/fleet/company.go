package fleet

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Hosts have no owner: whoever may write an object may have rules for any of them,
// or for one below a stranger's wildcard. So both sides are told of each other,
// by few names however many there are: a row is as long for a thousand strangers
// as for five, and does not change with one more.

// mostCompany is one more namespace than a message tells of, and one's own.
const mostCompany = model.MostNamed + 2

// declareCompany finds the hosts that several namespaces have rules for. Others
// have no row.
func (d *program) declareCompany(g *inc.Graph) {
	shared := inc.IndexBy(d.Hosts, func(k model.HostKey, h Host) []model.HostKey {
		if len(company(h.Roots, 2)) < 2 {
			return nil
		}
		return []model.HostKey{k}
	})
	d.company = inc.Derive(g, "company", func(r *inc.Reader, k model.HostKey) (inc.List[model.Object], bool) {
		host, _ := d.Hosts.Get(r, k)
		return company(host.Roots, mostCompany), true
	}, shared)
}

// company is the first root of each namespace, of so many at most.
func company(roots []model.Object, most int) []model.Object {
	var out []model.Object
	for _, root := range roots {
		if len(out) == most {
			break
		}
		if !slices.ContainsFunc(out, func(o model.Object) bool { return sameNamespace(o, root) }) {
			out = append(out, root)
		}
	}
	return out
}

// companyFindings tells a root that has a part of a host who else has one.
func (d *program) companyFindings(r *inc.Reader, n *model.Collector, field model.Field, k model.HostKey) {
	all, _ := d.company.Get(r, k)
	var others []string
	for _, o := range all {
		if !sameNamespace(o, n.Object) {
			others = append(others, o.String())
		}
	}
	if len(others) > 0 {
		n.Warning(field, model.ReasonHostShared, "other namespaces have rules for %s, too, by which requests for the paths that they have go to them: %s; agree with them, or have all rules of a host in one namespace",
			k.Host.Described(), model.Few(others))
	}
}

// aboveFindings tells a root that a host of it is below a wildcard of another
// namespace, and returns whose these are.
func (d *program) aboveFindings(r *inc.Reader, n *model.Collector, field model.Field, k model.HostKey) []model.Object {
	var owners []model.Object
	_, deep := d.anyDeep.Get(r, model.All{})
	for wild := range k.Host.Wider() {
		if wild == "" || wild.Deep() && !deep {
			continue
		}
		for _, of := range d.realmsNamed.Keys(r, wild) {
			realm, _ := d.Realms.Get(r, of)
			if realm.routed == nil || sameNamespace(realm.routed.Object, n.Object) || !d.meet(r, k.Class, of.Class) {
				continue
			}
			owner := realm.routed.Object
			owners = append(owners, owner)
			n.Warning(field, model.ReasonHostShared, "the host is below %s, which %s in another namespace has: the rules here come before those; agree with its owner, or use another host",
				wild.Written(), owner)
		}
	}
	return owners
}

// meet reports whether a request for hosts of one class may be for those of
// another: they share a table somewhere.
func (d *program) meet(r *inc.Reader, a, b model.Class) bool {
	if a == b {
		return true
	}
	info, _ := d.ClassInfo.Get(r, a)
	var last ClassSet
	return slices.ContainsFunc(info.Edges, func(e model.Edge) bool {
		view, ok := d.Views.Get(r, e)
		set := SetOf(view.Key)
		if !ok || set == last { // most edges have the same classes
			return false
		}
		last = set
		ports, _ := d.Ports.Get(r, set)
		return slices.ContainsFunc(ports.List, func(p Port) bool { return p.Has(a) && p.Has(b) })
	})
}

// declareBelow tells who has a wildcard of hosts of other namespaces below it.
func (d *program) declareBelow(g *inc.Graph, claims *inc.Table[model.RulesID, claimTrouble]) {
	below := inc.IndexBy(claims, func(_ model.RulesID, t claimTrouble) []model.Object { return t.above })
	d.ofBelow = inc.Derive(g, "findings of wildcards", func(r *inc.Reader, o model.Object) (model.Findings, bool) {
		n := &model.Collector{Object: o}
		var names []string
		for _, k := range below.First(r, o, model.MostNamed+1) {
			names = append(names, fmt.Sprintf("%s of %s", k.Host.Written(), k.Root))
		}
		n.Warning("", model.ReasonHostShared, "other namespaces have rules for hosts below wildcards of this %s, and requests for these go to them: %s; agree with their owners, or have rules for these hosts in one namespace",
			o.Kind, model.Few(names))
		return n.Row()
	}, below)
}

// claimTrouble is what is wrong with a claim.
type claimTrouble struct {
	found model.Findings
	above []model.Object // of other namespaces, whose wildcards the host is below
}

// Equal reports whether both are the same.
func (a claimTrouble) Equal(b claimTrouble) bool {
	return a.found.Equal(b.found) && slices.Equal(a.above, b.above)
}
