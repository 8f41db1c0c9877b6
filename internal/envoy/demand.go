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
// asked for. A front has a secret for each TLS host of the classes that want it
// so, named as the host: "shop.example", "*.shop.example", and nameless. What
// it has for other names follows from those: see CertificateNames.

// nameless is the secret of the empty host. As a pattern it is the widest: any
// name below the root of the DNS.
const nameless = "*."

// CertificateNames are the names under which a front may have the certificate
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
			size := len(value) + sizeText(name)
			out := openAny(make([]byte, 0, sizeAny(SecretType, size)), SecretType, size)
			return appendText(append(out, value...), 1, name)
		}
		body = body[n+m:]
	}
	panic("envoy: not a secret: " + name)
}

// certID is a TLS host of the classes of a front that get certificates on demand.
type certID struct {
	classes fleet.ClassList
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

// demandedBy is the class lists that have a TLS host on demand, with the fronts
// that they are of, and those of several classes that have it in a chain.
type demandedBy struct {
	lists   []listIn
	chained []fleet.ClassList
}

type listIn struct {
	front   model.Collection
	classes fleet.ClassList
}

func (a demandedBy) Equal(b demandedBy) bool {
	return slices.Equal(a.lists, b.lists) && slices.Equal(a.chained, b.chained)
}

// demanded is the secret of a TLS host, the fronts that have it, and who lost it.
type demanded struct {
	secret Resource
	presented
	fronts []model.Collection
}

func (a demanded) Equal(b demanded) bool {
	return a.secret.Equal(b.secret) && a.presented.Equal(b.presented) && slices.Equal(a.fronts, b.fronts)
}

// String is the secret's name and version: the row's own fields would show its key.
func (a demanded) String() string { return a.secret.String() }

// GoString is String.
func (a demanded) GoString() string { return a.String() }

// declareDemanders finds who presents a TLS host, by class lists.
func (d *derivation) declareDemanders(g *inc.Graph) {
	d.demanders = inc.Derive(g, "envoy.demanders", func(r *inc.Reader, key model.HostKey) (demandedBy, bool) {
		var out demandedBy
		spread, ok := d.p.Spreads.Get(r, key)
		if !ok {
			return out, false
		}
		for _, front := range spread.Fronts {
			row, _ := d.lists.Get(r, front)
			for _, list := range row.shared {
				if list.Has(key.Class) {
					out.chained = append(out.chained, list)
				}
			}
			if row.demand.Has(key.Class) {
				out.lists = append(out.lists, listIn{front, row.demand})
			}
		}
		return out, len(out.lists)+len(out.chained) > 0
	}, d.p.Chains)
	d.declarePresented(g)
}

// declareDemand adds the secrets by host: one row a host, so that a certificate
// that comes, goes or is rotated costs that host.
func (d *derivation) declareDemand(g *inc.Graph) {
	ids := inc.IndexBy(d.demanders, func(key model.HostKey, row demandedBy) []certID {
		out := make([]certID, len(row.lists))
		for i, of := range row.lists {
			out[i] = certID{of.classes, key.Host}
		}
		return out
	})
	d.demanded = inc.Derive(g, "envoy.demanded", func(r *inc.Reader, id certID) (demanded, bool) {
		return d.demandedOf(r, id), true
	}, ids)
	d.demandOfKey = inc.IndexBy(d.demanded, func(id certID, row demanded) []Key {
		if row.secret == (Resource{}) {
			return nil // there are findings alone
		}
		out := make([]Key, len(row.fronts))
		for i, front := range row.fronts {
			out[i] = Key{front, id.name()}
		}
		return out
	})
}

// demandedOf gives a host the first certificate that its classes present: a
// proxy asks for a name whichever port its client came by.
func (d *derivation) demandedOf(r *inc.Reader, id certID) demanded {
	out := demanded{presented: d.presentedOf(r, id, "an edge")}
	if len(out.secrets) == 0 {
		return out
	}
	by, _ := d.demanders.Get(r, out.key)
	for _, of := range by.lists {
		if of.classes == id.classes {
			out.fronts = append(out.fronts, of.front)
		}
	}
	out.lost = append(d.unpresented(r, out.presented), out.lost...).Sorted()
	if c, ok := d.p.In.Certificates.Get(r, out.secrets[0]); ok && c.Problem == "" && len(c.Chain) > 0 {
		out.secret = seal(id.name(), secret(id.name(), c))
	}
	return out
}

// secretUnder is the secret that a front has under a name, of a host or of a Secret.
func (d *derivation) secretUnder(r *inc.Reader, k Key) (Resource, bool) {
	if !isDemanded(k.Name) {
		return d.secrets.Get(r, secretOf(k.Name))
	}
	rows := d.demandOfKey.Get(r, k)
	if len(rows) == 0 {
		return Resource{}, false
	}
	return rows[0].secret, true
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
func (d *derivation) tooMany(r *inc.Reader, classes fleet.ClassList) model.Findings {
	row, _ := d.chains.Get(r, classes)
	if len(row.list) <= certificateLimit {
		return nil
	}
	class, ok := d.p.ClassInfo.Get(r, classes.Classes()[0])
	if !ok {
		return nil
	}
	return model.Findings{model.WarningOf(class.Spec.Origin.Object, "spec.parameters", model.ReasonManyCertificates,
		"more than %d certificates: all are served, but each that comes or goes costs every proxy the whole listener; set spec.tls.certificates: OnDemand in the GatewayClassConfig", certificateLimit)}
}
