package envoy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// chainID is a TLS host of classes that have its certificates in a listener
// together.
type chainID struct {
	classes fleet.ClassList
	host    model.Host
}

// Compare orders by classes and host.
func (a chainID) Compare(b chainID) int {
	return cmp.Or(a.classes.Compare(b.classes), strings.Compare(string(a.host), string(b.host)))
}

// presented is the certificates of a TLS host for a list of classes, and who is
// told that theirs are not.
type presented struct {
	key     model.HostKey // whose they are
	secrets []model.SecretID
	lost    model.Findings
	owner   model.Object // of an older class, by whom others lost; none: by nobody
}

func (a presented) Equal(b presented) bool {
	return a.key == b.key && slices.Equal(a.secrets, b.secrets) && a.lost.Equal(b.lost) && a.owner == b.owner
}

// declarePresented adds the hosts of chains that several classes share: a row a
// host, so that a change of its routes ends there and not at the listener, and so
// that they come with the hosts of a front that is new. One class alone says it
// all in its own chains.
func (d *derivation) declarePresented(g *inc.Graph) {
	ids := inc.IndexBy(d.presenting, func(key model.HostKey, row presenting) []chainID {
		out := make([]chainID, len(row.chained))
		for i, list := range row.chained {
			out[i] = chainID{list, key.Host}
		}
		return out
	})
	d.presented = inc.Derive(g, "envoy.presented", func(r *inc.Reader, id chainID) (presented, bool) {
		return d.presentedOf(r, id.classes.Classes(), id.host, "an edge and a port"), true
	}, ids)
	d.presentedOfList = inc.IndexBy(d.presented, func(id chainID, _ presented) []fleet.ClassList { return []fleet.ClassList{id.classes} })
}

// presentedOf decides which certificates a host has for classes that share a
// place.
func (d *derivation) presentedOf(r *inc.Reader, classes []model.Class, host model.Host, place string) presented {
	key, chain, owner := d.p.Presented(r, classes, host)
	out := presented{key: key, secrets: chain.Secrets}
	if len(classes) == 1 {
		return out
	}
	for _, class := range classes {
		other := model.HostKey{Class: class, Host: host}
		c, _ := d.p.Chains.Get(r, other)
		if other == key || len(c.Secrets) == 0 || slices.Equal(c.Secrets, chain.Secrets) {
			continue
		}
		for _, root := range d.p.RootsOfName.Keys(r, other) {
			if root.Workspace == c.Secrets[0].Workspace && root.Namespace == c.Secrets[0].Namespace {
				out.lost = append(out.lost, lostCertificate(root, other, key.Class, owner, place))
			}
		}
	}
	if len(out.lost) > 0 && owner != (model.Object{}) && !slices.ContainsFunc(out.lost, func(f model.Finding) bool { return f.Object == owner }) {
		out.owner = owner
	}
	out.lost = out.lost.Sorted()
	return out
}

// unpresented tells who has a second certificate of a name that is on demand.
func (d *derivation) unpresented(r *inc.Reader, of presented) model.Findings {
	if len(of.secrets) == 1 {
		return nil
	}
	var out model.Findings
	names, rows := d.p.RootsOfName.Keys(r, of.key), d.p.RootsOfName.Get(r, of.key)
	for i, root := range rows {
		for _, t := range root.TLS {
			if slices.Contains(of.secrets[1:], t.Secret) && slices.Contains(t.Hosts, of.key.Host) {
				out = append(out, model.ErrorOf(names[i], t.Field+".secretName", model.ReasonConflict,
					"%s is presented with the certificate in Secret %s, and not with that in %s: certificates on demand are one for a name", tlsName(of.key.Host), of.secrets[0], t.Secret))
			}
		}
	}
	return out
}

// lostCertificate tells a root that its certificate for a name is not
// presented: an older class has the name, by its own certificate, or since
// requests go by its rules.
func lostCertificate(root model.Object, key model.HostKey, winner model.Class, owner model.Object, place string) model.Finding {
	if winner == "" {
		return model.ErrorOf(root, "spec.tls", model.ReasonConflict,
			"%s belongs to %s in another namespace, by whose rules its requests go on %s that an older class shares with %s: the certificate is not presented there", tlsName(key.Host), owner, place, key.Class)
	}
	return model.ErrorOf(root, "spec.tls", model.ReasonConflict,
		"%s is presented with the certificate of class %s, which has it before %s and shares %s with it: the others are not presented there", tlsName(key.Host), winner, key.Class, place)
}

func tlsName(h model.Host) string {
	if h == "" {
		return "every name without a certificate"
	}
	return string(h)
}

// mostRefused is how many names a message names.
const mostRefused = 3

// refusedFor warns an owner of names that roots of younger classes list.
func refusedFor(owner model.Object, rows []presented) model.Findings {
	var names []string
	for _, row := range rows {
		names = append(names, row.lost[0].Object.String())
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > mostRefused {
		names = append(names[:mostRefused], "…")
	}
	if len(names) == 0 {
		return nil
	}
	return model.Findings{model.WarningOf(owner, "", model.ReasonConflict,
		"others of younger classes list names under spec.tls whose requests go to this %s; their certificates are not presented where the classes share an edge: %s", owner.Kind, strings.Join(names, ", "))}
}

// ownerOfName is whom refusedFor is for.
func ownerOfName(row presented) []model.Object {
	if row.owner == (model.Object{}) {
		return nil
	}
	return []model.Object{row.owner}
}
