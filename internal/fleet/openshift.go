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

// keeper is the oldest root that asks for something of a host, and whether it has
// connections passed on.
type keeper struct {
	root   model.Object
	passes bool
}

// Equal reports whether both are the same.
func (a keeper) Equal(b keeper) bool { return a == b }

// declareKeepers finds who has each host of which not every root may have a part.
func (d *program) declareKeepers(g *inc.Graph) {
	picky := inc.IndexBy(d.Claims, func(k model.RulesID, c Claim) []model.HostKey {
		if k.Root.Kind != model.OpenShiftRoute && !c.passes() {
			return nil
		}
		return c.keys(k.Host)
	})
	d.keepers = inc.Derive(g, "keepers", func(r *inc.Reader, k model.HostKey) (keeper, bool) {
		first := d.oldest(r, k, Claim.asks)
		if first == nil {
			return keeper{}, false
		}
		return keeper{first.origin.Object, first.has.passes()}, true
	}, picky)
}

// ofOneOwner leaves the claims to a host that go with the one who has it.
func (d *program) ofOneOwner(r *inc.Reader, k model.HostKey, all []aged[claimant]) []aged[claimant] {
	h, some := d.keepers.Get(r, k)
	if !some {
		return all
	}
	return slices.DeleteFunc(all, func(c aged[claimant]) bool { return h.apart(c.origin.Object, c.has.Claim) != "" })
}

// apart says why the claim of a root does not go with the one who has the host; empty: it
// does.
func (a keeper) apart(root model.Object, c Claim) string {
	switch {
	case a.root == root:
		return ""
	case (a.root.Kind == model.OpenShiftRoute || root.Kind == model.OpenShiftRoute) && !sameNamespace(a.root, root):
		return "a host that a Route asks for is of one namespace"
	case a.passes:
		return "connections for it are passed on unread, so that they are for one object"
	case c.passes():
		return "it ends TLS at edges, so that connections are not passed on unread"
	}
	return ""
}

// passes reports whether TLS ends at the backends of a claim.
func (a Claim) passes() bool { return a.asks() && a.Rules[0].Filters.Over().Passes() }

// apartFindings tells a root that others have a host, and reports whether it is so.
func (d *program) apartFindings(r *inc.Reader, n *model.Collector, c Claim, at model.HostKey) bool {
	h, some := d.keepers.Get(r, at)
	if !some || !c.asks() {
		return false
	}
	why := h.apart(n.Object, c)
	if why == "" {
		return false
	}
	n.Error(c.field(), model.ReasonConflict, "%s is older and has %s: %s", h.root, at.Host.Described(), why)
	return true
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
