package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A TLS name belongs to one namespace, and only roots of that present
// certificates for it. Certificates follow requests, so that whoever may list a
// name under tls gets no more by it than the requests that it has already:
//
//	requests for the name go to           it belongs to the namespace of
//	rules for the name                    the oldest root with one, or with one for the wildcard above, if that is older
//	rules for the wildcard one label up   the oldest root with one
//	rules for wildcards of any depth      the oldest root with one, be it for a wildcard that hides another
//	nothing but the hosts nobody names    whoever the wildcard above belongs to, where that is listed under tls;
//	                                      else the oldest root that serves the hosts nobody names, or a part of them
//	nothing                               the wildcard's again; else the oldest root that lists the name
//
// A wildcard that no rule is for and that is listed under tls belongs to the
// oldest root that lists it and has a host one label below it: a certificate
// for *.shop.example is how many serve a.shop.example and b.shop.example.
//
// A wildcard is one TLS name, whether rules are for one label or for any number of
// them (model.Host.TLSName); whose rules are for any depth has what is below, too.
//
// The oldest root that asks for a host wins a part of it whatever it asks for,
// so a younger root never takes a name. One that is older does, by an edit, as
// it takes the requests.

// Realm is whose a wildcard is, and, in the row of the empty host, whose the
// hosts that nobody names are.
type Realm struct {
	routed *model.Origin // the oldest root with rules for it; if there is one, the others are nil
	seated *model.Origin // the oldest that lists it under tls and has a host one label below it
	listed *model.Origin // the oldest that lists it under tls
}

// Equal reports whether both are the same.
func (a Realm) Equal(b Realm) bool {
	return model.EqualPtr(a.routed, b.routed) && model.EqualPtr(a.seated, b.seated) && model.EqualPtr(a.listed, b.listed)
}

// declareRealms adds the few names that others depend on. They are rows of
// their own, so that what happens to such a name costs the names below it
// nothing while it stays whose it is.
func (d *program) declareRealms(g *inc.Graph) {
	ruled := inc.IndexBy(d.Claims, func(k model.RulesID, c Claim) []model.HostKey {
		if c.places == nil && k.Host.Exact() {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(c.keys(k.Host)), func(k model.HostKey) bool { return k.Host.Exact() })
	})
	listed := inc.IndexBy(d.Attachments, func(_ model.Object, a Attachment) []model.HostKey {
		return slices.DeleteFunc(a.names(), func(k model.HostKey) bool { return k.Host.Exact() })
	})
	d.Realms = inc.Derive(g, "realms", d.realm, ruled, listed, d.fallbacks)
}

func (d *program) realm(r *inc.Reader, k model.HostKey) (Realm, bool) {
	out := Realm{routed: d.winner(r, k)}
	if f, ok := d.fallbacks.Get(r, k); ok {
		out.routed = older(out.routed, &f.origin)
	}
	if out.routed != nil {
		return out, true
	}
	for _, a := range d.listing(r, k) {
		at := a.origin
		if out.listed == nil {
			out.listed = &at
		}
		if d.seated(r, a, k.Class, k.Host) {
			out.seated = &at
			break
		}
	}
	return out, out.listed != nil
}

// seated reports whether a root has a host of a class one label below a wildcard.
func (d *program) seated(r *inc.Reader, a aged[Attachment], class model.Class, wildcard model.Host) bool {
	root := a.origin.Object
	return wildcard != "" && slices.ContainsFunc(d.RulesOf.Keys(r, root), func(k model.RulesID) bool {
		if k.Host.Above() != wildcard {
			return false
		}
		first := d.winner(r, model.HostKey{Class: class, Host: k.Host})
		return first != nil && sameNamespace(first.Object, root)
	})
}

// ownerOf decides whose a name is that some roots list, the oldest first.
func (d *program) ownerOf(r *inc.Reader, k model.HostKey, listing []aged[Attachment]) model.Origin {
	realm := d.realmOf(r, k)
	if policy, _ := d.policies.Get(r, k.Class); policy.deep {
		realm = d.deepRealm(r, k, realm)
	}
	if k.Host.Exact() {
		if own := d.winner(r, k); own != nil {
			return *older(own, realm.routed)
		}
	}
	rest := Realm{}
	if realm.routed == nil && realm.seated == nil && k.Host != "" {
		rest, _ = d.Realms.Get(r, model.HostKey{Class: k.Class})
	}
	for _, o := range []*model.Origin{realm.routed, realm.seated, rest.routed, realm.listed} {
		if o != nil {
			return *o
		}
	}
	return listing[0].origin
}

// realmOf is the realm of a name itself or, of an exact one, of the wildcard above.
func (p *Program) realmOf(r *inc.Reader, k model.HostKey) Realm {
	if k.Host.Exact() {
		if k.Host = k.Host.Above(); k.Host == "" {
			return Realm{} // one label: nothing is above
		}
	}
	out, _ := p.Realms.Get(r, k)
	return out
}

// deepRealm is the realm of a name given what it is without the wildcards of any
// depth that requests for it, or for names below, may go to.
func (p *Program) deepRealm(r *inc.Reader, k model.HostKey, realm Realm) Realm {
	routed := realm.routed
	for h := range k.Host.Wider() {
		if h.Deep() {
			above, _ := p.Realms.Get(r, model.HostKey{Class: k.Class, Host: h})
			routed = older(routed, above.routed)
		}
	}
	if routed == nil {
		return realm
	}
	return Realm{routed: routed}
}

// certificates finds those for a name where several classes share a
// socket, oldest first, and what they are of: of the oldest class to whose
// rules requests for the name go, and of the namespace that has them there; if
// there is none, of the oldest class that has some. owner is the root by which
// that namespace has the name, if any.
func (p *Program) certificates(r *inc.Reader, classes []model.Class, host model.Host) (of model.HostKey, chain Chain, owner model.Object) {
	var routed model.Class
	if len(classes) > 1 {
		owner, routed = p.routedTo(r, classes, host)
	}
	for _, class := range classes {
		key := model.HostKey{Class: class, Host: host}
		c, _ := p.Chains.Get(r, key)
		if len(c.Secrets) > 0 && (owner == (model.Object{}) || c.of(owner) || class == routed && class.OfGateway()) {
			return key, c, owner
		}
	}
	return model.HostKey{}, Chain{}, owner
}

// of reports whether certificates are of an object's namespace. All of a chain
// are of one.
func (c Chain) of(o model.Object) bool {
	return c.Secrets[0].Workspace == o.Workspace && c.Secrets[0].Namespace == o.Namespace
}

// routedTo is the root that requests for a name belong to where classes share a
// socket, and of which class. A Gateway has its certificates from its own listeners,
// wherever its routes are from. An older class comes before a younger one, whatever their roots are.
func (p *Program) routedTo(r *inc.Reader, classes []model.Class, host model.Host) (model.Object, model.Class) {
	listed := false
	_, deep := p.anyDeep.Get(r, model.All{})
	for _, class := range classes {
		k := model.HostKey{Class: class, Host: host}
		realm := p.realmOf(r, k)
		if deep {
			realm = p.deepRealm(r, k, realm)
		}
		listed = listed || realm.listed != nil
		owner := realm.routed
		if row, ok := p.Hosts.Get(r, k); ok && host.Exact() && len(row.Roots) > 0 {
			if root, ok := p.Attachments.Get(r, row.Roots[0]); ok {
				owner = older(&model.Origin{Created: root.Created, Object: row.Roots[0]}, owner)
			}
		}
		if owner != nil {
			return owner.Object, class
		}
	}
	if listed || !host.Exact() {
		return model.Object{}, "" // for the class that lists the wildcard to say
	}
	for _, class := range classes {
		if realm, _ := p.Realms.Get(r, model.HostKey{Class: class}); realm.routed != nil {
			return realm.routed.Object, class
		}
	}
	return model.Object{}, ""
}

// winner is the oldest root that has something for a host, and so wins a part of it.
func (d *program) winner(r *inc.Reader, k model.HostKey) *model.Origin {
	first := d.oldest(r, k, func(c Claim) bool { return c.asks() || c.Default != nil })
	if first == nil {
		return nil
	}
	return &first.origin
}

func older(a, b *model.Origin) *model.Origin {
	if a == nil || b != nil && b.Compare(*a) < 0 {
		return b
	}
	return a
}

func sameNamespace(a, b model.Object) bool {
	return a.Workspace == b.Workspace && a.Namespace == b.Namespace
}
