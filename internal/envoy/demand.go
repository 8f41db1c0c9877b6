package envoy

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Certificates on demand: a proxy asks for a secret by the name that a client
// asked for. A class that wants it so has a secret for each of its TLS hosts,
// named as the host: "shop.example", "*.shop.example", and nameless. What it has
// for other names follows from those: see CertificateNames.

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

// certID is a TLS host of a collection that has certificates on demand.
type certID struct {
	in   model.Collection
	host model.Host
}

// Compare orders by collection and host.
func (a certID) Compare(b certID) int {
	return cmp.Or(a.in.Compare(b.in), strings.Compare(string(a.host), string(b.host)))
}

// name is that of its secret.
func (a certID) name() string {
	if a.host == "" {
		return nameless
	}
	return string(a.host)
}

// presenting is where a TLS host of a class is presented by now, and with what.
type presenting struct {
	*fleet.Outlets
	chained  []fleet.ClassList
	disputes []model.Collection // that have its certificate on demand; none: its fronts have
	secrets  []model.SecretID
}

// Equal reports whether both are the same.
func (a presenting) Equal(b presenting) bool {
	return a.Outlets.Equal(b.Outlets) && slices.Equal(a.chained, b.chained) && slices.Equal(a.disputes, b.disputes) && slices.Equal(a.secrets, b.secrets)
}

// String is the outlets and the secrets.
func (a presenting) String() string { return fmt.Sprint(a.Outlets, a.chained, a.disputes, a.secrets) }

// demanded is the secret of a TLS host, if there is one, and who lost it.
type demanded struct {
	secret Resource
	presented
}

func (a demanded) Equal(b demanded) bool {
	return a.secret.Equal(b.secret) && a.presented.Equal(b.presented)
}

// String is the secret's name and version: the row's own fields would show its key.
func (a demanded) String() string { return a.secret.String() }

// GoString is String.
func (a demanded) GoString() string { return a.String() }

// declarePresenting says where TLS hosts are presented.
func (d *derivation) declarePresenting(g *inc.Graph) {
	d.presenting = inc.Derive(g, "envoy.presenting", func(r *inc.Reader, key model.HostKey) (presenting, bool) {
		spread, ok := d.p.Spreads.Get(r, key)
		chain, _ := d.p.Chains.Get(r, key)
		if !ok {
			return presenting{}, false
		}
		out := presenting{Outlets: spread.Outlets, chained: spread.Chained(), secrets: chain.Secrets}
		if spread.Disputed() && spread.OnDemand {
			out.disputes = d.contestsOf(r, key.Class, model.Disputes)
		}
		return out, true
	}, d.p.Chains)
	d.declarePresented(g)
}

// declareDemand adds the secrets by host: one row a host, so that a certificate
// that comes, goes or is rotated costs that host.
func (d *derivation) declareDemand(g *inc.Graph) *inc.Index[Key, certID, demanded] {
	ids := inc.IndexBy(d.presenting, func(key model.HostKey, row presenting) []certID {
		if !row.OnDemand {
			return nil
		}
		in := row.disputes
		if len(in) == 0 {
			in = row.Fronts
		}
		out := make([]certID, len(in))
		for i, c := range in {
			out[i] = certID{c, key.Host}
		}
		return out
	})
	d.demanded = inc.Derive(g, "envoy.demanded", func(r *inc.Reader, id certID) (demanded, bool) {
		return d.demandedOf(r, id), true
	}, ids)
	return inc.IndexBy(d.demanded, func(id certID, row demanded) []Key {
		if row.secret == (Resource{}) {
			return nil // there are findings alone
		}
		return []Key{{id.in, id.name()}}
	})
}

// demandedOf gives a host the first certificate that its classes present: a
// proxy asks for a name whichever port its client came by.
func (d *derivation) demandedOf(r *inc.Reader, id certID) demanded {
	out := demanded{presented: d.presentedOf(r, fleet.ClassesOf(id.in.Classes()), id.host, "an edge")}
	if len(out.secrets) == 0 {
		return out
	}
	out.lost = append(d.unpresented(r, out.presented), out.lost...).Sorted()
	if by, _ := d.presenting.Get(r, out.key); by.Outlets == nil || !by.OnDemand {
		return out // it waits
	}
	if c, ok := d.p.In.Certificates.Get(r, out.secrets[0]); ok && c.Problem == "" && len(c.Chain) > 0 {
		out.secret = seal(id.name(), secret(id.name(), c))
	}
	return out
}

// secretUnder is the secret that a collection has under a name, of a host or of
// a Secret.
func (d *derivation) secretUnder(r *inc.Reader, k Key) (Resource, bool) {
	if !isDemanded(k.Name) {
		return d.secrets.Get(r, secretOf(k.Name))
	}
	row, _ := d.demanded.Get(r, certOf(k))
	return row.secret, row.secret != (Resource{})
}

// certOf is the TLS host of a secret on demand.
func certOf(k Key) certID {
	if k.Name == nameless {
		return certID{k.Collection, ""}
	}
	return certID{k.Collection, model.Host(k.Name)}
}

// hostsPresenting are the hosts that a view presents with a secret.
func (d *derivation) hostsPresenting(r *inc.Reader, view model.View, name string) []model.HostKey {
	if !isDemanded(name) {
		return d.hostsOfSecret.Keys(r, secretOf(name))
	}
	var out []model.HostKey
	for _, c := range d.holders(r, view, SecretType, name) {
		if row, ok := d.demanded.Get(r, certOf(Key{c, name})); ok && row.secret != (Resource{}) {
			out = append(out, row.key)
		}
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
