package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A Route of OpenShift shares its host less freely than an Ingress does:
//
//   - With objects of its own namespace only: of a host that a Route has, or asks for,
//     the oldest decides whose it is.
//   - Connections that are passed on unread are for one Route: what they ask for is not
//     seen, so that nobody else has a part of the host. If the oldest does not pass them
//     on, nobody does.

// ofOneOwner leaves the claims to a host, oldest first, that go with the oldest of them
// which asks for something.
func ofOneOwner(all []aged[claimant]) []aged[claimant] {
	i := slices.IndexFunc(all, func(c aged[claimant]) bool { return len(c.has.Rules) > 0 })
	if i < 0 {
		return all
	}
	apart := func(c aged[claimant]) bool { return c.origin.Object != all[i].origin.Object && apart(all[i], c) != "" }
	if !slices.ContainsFunc(all, apart) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), apart)
}

// apart says why a younger claim does not go with the oldest; empty: it does.
func apart(first, c aged[claimant]) string {
	a, b := first.origin.Object, c.origin.Object
	switch {
	case (a.Kind == model.OpenShiftRoute || b.Kind == model.OpenShiftRoute) && !sameNamespace(a, b):
		return "a host that a Route asks for is of one namespace"
	case first.has.passes():
		return "connections for it are passed on unread, so that they are for one object"
	case c.has.passes():
		return "it ends TLS at edges, so that connections are not passed on unread"
	}
	return ""
}

// passes reports whether TLS ends at the backends of a claim.
func (a Claim) passes() bool { return len(a.Rules) > 0 && a.Rules[0].Filters.Over().Passes() }

// apartFindings tells a root that others have a host, and reports whether it is so.
func (d *program) apartFindings(r *inc.Reader, n *model.Collector, c Claim, at model.HostKey, host Host) bool {
	if len(c.Rules) == 0 || len(host.Roots) == 0 || slices.Contains(host.Roots, n.Object) {
		return false
	}
	first, own := d.firstAnd(r, at, n.Object)
	if first == nil || own == nil || first.origin.Object == n.Object {
		return false
	}
	why := apart(*first, *own)
	if why == "" {
		return false
	}
	n.Error(c.field(), model.ReasonConflict, "%s is older and has %s: %s", first.origin.Object, at.Host.Described(), why)
	return true
}

// firstAnd are the oldest claim for a host that has rules, and that of a root; nil: there is
// none. Every root that asks for the host looks, so that nothing is sorted.
func (d *program) firstAnd(r *inc.Reader, k model.HostKey, root model.Object) (first, own *aged[claimant]) {
	claims := d.claims.Get(r, k)
	for i, id := range d.claims.Keys(r, k) {
		origin := model.Origin{Created: claims[i].Created, Object: id.Root}
		if id.Root == root {
			own = &aged[claimant]{origin, claimant{claims[i], id.Host}}
		}
		if len(claims[i].Rules) > 0 && (first == nil || origin.Compare(first.origin) < 0) {
			first = &aged[claimant]{origin, claimant{claims[i], id.Host}}
		}
	}
	return first, own
}

// bareFindings tells a Route whose TLS ends at edges that they have no certificate for its
// host, neither its own nor a wider one of anybody. What is wrong with one that it names
// is told elsewhere.
func (d *program) bareFindings(r *inc.Reader, n *model.Collector, c Claim, at model.HostKey) {
	if n.Object.Kind != model.OpenShiftRoute || len(c.Rules) == 0 {
		return
	}
	over := c.Rules[0].Filters.Over()
	a, _ := d.Attachments.Get(r, n.Object)
	if over == model.OnlyHTTP || over.Passes() || len(a.TLS) > 0 {
		return
	}
	name := at.Host.TLSName()
	for _, h := range [...]model.Host{name, name.Above(), ""} {
		if len(d.ChainsNamed.Keys(r, h)) > 0 {
			return
		}
	}
	n.Add(unless(over == model.Both), "spec.tls", model.ReasonNoCertificate,
		"there is no certificate for %s, so that clients get no connection over TLS: set certificate and key, or externalCertificate", at.Host.Described())
}

// pass makes a host one whose connections go to the backends of a Route unread. What is
// asked for without TLS is led to HTTPS, or is for nobody.
func (d *program) pass(r *inc.Reader, p policy, to Target, h *Host) Target {
	over := to.Filters.Over()
	to.Filters = to.Filters.By(model.Both)
	to.Backends, to.Nowhere = d.usable(r, p, to.Backends, h)
	h.Passed = &to
	out := Target{Root: to.Root, Rule: to.Rule, Action: model.Action{Reply: &model.Reply{Status: 404}}}
	if over == model.PassedAndMoved {
		out.Filters, out.Reply = model.Filters{}.By(model.OnlyHTTP), Moved(p.secure)
	}
	return out
}

// Moved leads a client to HTTPS, as OpenShift's router does.
func Moved(port uint16) *model.Reply {
	return &model.Reply{Status: 302, Redirect: &model.Redirect{Scheme: "https", Port: port}}
}

// others leaves the backends that some member has, where some have: they get what the
// others would, as from OpenShift's router. Where members are missing, all are kept.
func (d *program) others(r *inc.Reader, all []model.WeightedBackend) []model.WeightedBackend {
	if len(all) < 2 {
		return all
	}
	absent := func(b model.WeightedBackend) bool {
		row, _ := d.Backends.Get(r, b.Backend)
		return len(row.Members) == 0 || row.TLS.Broken()
	}
	_, missing := d.anyMissing.Get(r, model.All{})
	if missing || !slices.ContainsFunc(all, absent) {
		return all
	}
	left := slices.DeleteFunc(slices.Clone(all), absent)
	if !slices.ContainsFunc(left, func(b model.WeightedBackend) bool { return b.Weight > 0 }) {
		return all
	}
	return left
}
