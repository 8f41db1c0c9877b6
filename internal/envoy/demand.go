package envoy

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Certificates on demand: a proxy asks for a secret by the name that a client
// asked for. A view has a secret for each TLS host of the classes that want it
// so, named as the host: "shop.example", "*.shop.example", and nameless. What
// it has for other names follows from those: see CertificateNames.

// nameless is the secret of the empty host. As a pattern it is the widest: any
// name below the root of the DNS.
const nameless = "*."

// CertificateNames are the names under which a view may have the certificate
// for a name that a client asked for, best first: its lower case, then
// wildcards by longest suffix, then the nameless one. It is how Envoy chooses
// a filter chain by FilterChainMatch.server_names.
func CertificateNames(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !isDemanded(name) || len(name) > longestHost {
			return
		}
		rest := strings.ToLower(name)
		if rest != name && !yield(rest) {
			return
		}
		for rest = strings.TrimPrefix(rest, "*."); rest != ""; {
			_, rest, _ = strings.Cut(rest, ".")
			if up := "*." + rest; up != name && !yield(up) {
				return
			}
		}
	}
}

// longestHost is the longest name of a host, with the dot of the root (RFC 1035,
// section 2.3.4). A longer one could have as many parents as it has bytes.
const longestHost = 254

// CertificateCovers tells whether a name is among the CertificateNames of another.
func CertificateCovers(published, name string) bool {
	if !isDemanded(name) || len(name) > longestHost || published == name {
		return false
	}
	lower := strings.ToLower(name)
	up, pattern := strings.CutPrefix(published, "*.")
	base := strings.TrimPrefix(lower, "*.")
	return published == lower || pattern && base != "" && (up == "" || strings.HasSuffix(base, "."+up))
}

// RenameSecret returns a secret's body under another name: Envoy refuses a secret
// that is not named as it was asked for.
func RenameSecret(body []byte, name string) []byte {
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 || kind != protowire.BytesType {
			break
		}
		value, m := protowire.ConsumeBytes(body[n:])
		if m < 0 {
			break
		}
		if field == 2 { // Any.value; of a field that is there twice, the last one counts
			return sealBytes(SecretType, appendText(slices.Clone(value), 1, name)).body
		}
		body = body[n+m:]
	}
	panic("envoy: not a secret: " + name)
}

// certID is a TLS host of the classes of a view that get certificates on demand.
type certID struct {
	classes classList
	host    model.Host
}

// Compare orders by classes and host.
func (a certID) Compare(b certID) int {
	return cmp.Or(a.classes.Compare(b.classes), strings.Compare(string(a.host), string(b.host)))
}

// name is that of its secret.
func (a certID) name() string {
	if a.host == "" {
		return nameless
	}
	return string(a.host)
}

// demandedBy is the class lists that have a TLS host on demand, and those of
// several classes that have it in a chain.
type demandedBy struct{ lists, chained []classList }

func (a demandedBy) Equal(b demandedBy) bool {
	return slices.Equal(a.lists, b.lists) && slices.Equal(a.chained, b.chained)
}

// demanded is the secret of a TLS host, the views that have it, and who lost it.
type demanded struct {
	sealed
	presented
	views []model.View
}

func (a demanded) Equal(b demanded) bool {
	return a.sealed.Equal(b.sealed) && a.presented.Equal(b.presented) && slices.Equal(a.views, b.views)
}

// declareDemanders finds who presents a TLS host, by class lists.
func (d *derivation) declareDemanders(g *inc.Graph) {
	d.sharedLists = shelves(d, g, "envoy.sharedLists", func(p ports) []classList {
		return slices.DeleteFunc(p.tlsLists(), func(list classList) bool { return !list.shared() })
	})
	d.demandLists = shelves(d, g, "envoy.demandLists", func(p ports) []classList {
		if p.demand == "" {
			return nil
		}
		return []classList{p.demand}
	})
	listsOfRoom := inc.IndexBy(d.demandLists, func(s shelf[classList], _ onShelf) []fleet.Room { return roomsOf(s.of, s.batch) })
	sharedOfRoom := inc.IndexBy(d.sharedLists, func(s shelf[classList], _ onShelf) []fleet.Room { return roomsOf(s.of, s.batch) })
	d.demanders = inc.Derive(g, "envoy.demanders", func(r *inc.Reader, key model.HostKey) (demandedBy, bool) {
		var out demandedBy
		for _, s := range sharedOfRoom.Keys(r, d.p.Room(key)) {
			out.chained = append(out.chained, s.of)
		}
		for _, s := range listsOfRoom.Keys(r, d.p.Room(key)) {
			out.lists = append(out.lists, s.of)
		}
		return out, len(out.lists)+len(out.chained) > 0
	}, d.p.Chains)
	d.declarePresented(g)
}

// certIDs are a host of several class lists.
func certIDs(lists []classList, host model.Host) []certID {
	out := make([]certID, len(lists))
	for i, list := range lists {
		out[i] = certID{list, host}
	}
	return out
}

// declareDemand adds the secrets by host: one row a host, so that a certificate
// that comes, goes or is rotated costs that host.
func (d *derivation) declareDemand(g *inc.Graph) {
	ids := inc.IndexBy(d.demanders, func(key model.HostKey, row demandedBy) []certID { return certIDs(row.lists, key.Host) })
	d.demanded = inc.Derive(g, "envoy.demanded", func(r *inc.Reader, id certID) (demanded, bool) {
		has, _ := d.demandLists.Get(r, shelf[classList]{id.classes, d.p.Batch(id.host)})
		return d.demandedOf(r, id, has.views), true
	}, ids)
	d.demandOfKey = inc.IndexBy(d.demanded, func(id certID, row demanded) []Key {
		if row.body == nil {
			return nil // there are findings alone
		}
		out := make([]Key, len(row.views))
		for i, view := range row.views {
			out[i] = Key{view, id.name()}
		}
		return out
	})
}

// demandedOf gives a host the first certificate that its classes present: a
// proxy asks for a name whichever port its client came by.
func (d *derivation) demandedOf(r *inc.Reader, id certID, views []model.View) demanded {
	out := demanded{views: views, presented: d.presentedOf(r, id, "an edge")}
	if len(out.secrets) == 0 {
		return out
	}
	out.lost = append(d.unpresented(r, out.presented), out.lost...).Sorted()
	if c, ok := d.p.In.Certificates.Get(r, out.secrets[0]); ok && c.Problem == "" && len(c.Chain) > 0 {
		out.sealed = seal(secret(id.name(), c))
	}
	return out
}

// secretUnder is the secret that a view has under a name, of a host or of a Secret.
func (d *derivation) secretUnder(r *inc.Reader, k Key) (sealed, bool) {
	if !isDemanded(k.Name) {
		return d.sealedSecrets.Get(r, secretOf(k.Name))
	}
	rows := d.demandOfKey.Get(r, k)
	if len(rows) == 0 {
		return sealed{}, false
	}
	return rows[0].sealed, true
}

// hostsPresenting are the hosts that are presented with a secret.
func (d *derivation) hostsPresenting(r *inc.Reader, k Key) []model.HostKey {
	if !isDemanded(k.Name) {
		return d.hostsOfSecret.Keys(r, secretOf(k.Name))
	}
	var out []model.HostKey
	for _, row := range d.demandOfKey.Get(r, k) {
		out = append(out, row.key)
	}
	return out
}

// isDemanded tells the name of a host from that of a Secret, which has a "/".
func isDemanded(secretName string) bool { return !strings.Contains(secretName, "/") }

// certificateLimit is how many chains a listener may have before one more costs
// each proxy more than half a megabyte and a tenth of a second of its main
// thread (BenchmarkCertificate).
const certificateLimit = 300

// tooMany warns the oldest class of a listener with many chains.
func (d *derivation) tooMany(r *inc.Reader, classes classList) model.Findings {
	row, _ := d.chains.Get(r, classes)
	if len(row.list) <= certificateLimit {
		return nil
	}
	class, ok := d.p.ClassInfo.Get(r, classes.classes()[0])
	if !ok {
		return nil
	}
	return model.Findings{model.WarningOf(class.Spec.Origin.Object, "spec.parameters", model.ReasonManyCertificates,
		"more than %d certificates: all are served, but each that comes or goes costs every proxy the whole listener; set spec.tls.certificates: OnDemand in the GatewayClassConfig", certificateLimit)}
}
