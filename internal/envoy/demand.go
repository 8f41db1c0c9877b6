package envoy

import (
	"iter"
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

// secretName is that of the secret of a TLS host.
func secretName(h model.Host) string {
	if h == "" {
		return nameless
	}
	return string(h)
}

// demandedIn is the TLS host of a secret on demand, in its collection.
func demandedIn(k Key) fleet.HostIn {
	if k.Name == nameless {
		return fleet.HostIn{In: k.Collection}
	}
	return fleet.HostIn{In: k.Collection, Host: model.Host(k.Name)}
}

// secretKeys are the secrets of a TLS host: in the fronts all of its Secrets, to be
// presented with listeners, and one under its own name where they come on demand,
// so that a certificate that comes, goes or is rotated costs that host.
func secretKeys(key model.HostKey, at fleet.Presence) []Key {
	var out []Key
	if at.Static {
		for _, front := range at.Fronts {
			for _, id := range at.Secrets {
				out = append(out, Key{front, id.String()})
			}
		}
	}
	for _, c := range at.Demanded() {
		out = append(out, Key{c, secretName(key.Host)})
	}
	return out
}

// secretUnder is the secret that a collection has under a name, of a host or of
// a Secret. A proxy asks for that of a host whichever port its client came by.
func (d *derivation) secretUnder(r *inc.Reader, k Key) (Resource, bool) {
	if !isDemanded(k.Name) {
		return d.secrets.Get(r, secretOf(k.Name))
	}
	_, id, ok := d.p.Certificate(r, demandedIn(k))
	if !ok {
		return Resource{}, false
	}
	return d.secretAs(r, k.Name, id)
}

// secretAs is a Secret under a name.
func (d *derivation) secretAs(r *inc.Reader, name string, id model.SecretID) (Resource, bool) {
	c, ok := d.p.In.Certificates.Get(r, id)
	if !ok || c.Problem != "" || len(c.Chain) == 0 {
		return Resource{}, false
	}
	return seal(name, secret(name, c)), true
}

// hostsPresenting are the hosts that a view presents with a secret.
func (d *derivation) hostsPresenting(r *inc.Reader, view model.View, name string) []model.HostKey {
	if !isDemanded(name) {
		return d.hostsOfSecret.Keys(r, secretOf(name))
	}
	var out []model.HostKey
	for _, c := range d.holders(r, view, SecretType, name) {
		if of, _, ok := d.p.Certificate(r, demandedIn(Key{c, name})); ok {
			out = append(out, of)
		}
	}
	return out
}

// isDemanded tells the name of a host from that of a Secret, which has a "/".
func isDemanded(secretName string) bool { return !strings.Contains(secretName, "/") }
