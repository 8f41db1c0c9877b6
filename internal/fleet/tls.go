package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareChains finds the certificates for each TLS name.
func (d *program) declareChains(g *inc.Graph) {
	d.RootsOfName = inc.IndexBy(d.Attachments, func(_ model.Object, a Attachment) []model.HostKey { return a.names() })
	d.fitness = inc.Derive(g, "fitness of certificates", func(r *inc.Reader, id model.SecretID) (fitness, bool) {
		c, ok := d.In.Certificates.Get(r, id)
		return fitnessOf(c), ok
	}, d.In.Certificates)
	d.declareRealms(g)
	d.Chains = inc.Derive(g, "chains", d.chain, d.RootsOfName, d.gw.names)
}

// NoSecret says why there is no certificate of a Secret.
func (p *Program) NoSecret(r *inc.Reader, id model.SecretID) string {
	_, inline := id.Inline()
	if read, some := p.In.SecretSpaces.Get(r, model.All{}); some && !inline && !read.V.Has(id.Namespace) {
		return fmt.Sprintf("%s is in a namespace whose Secrets are not read: add it to --secret-namespaces of spillway serve", id.Described())
	}
	return fmt.Sprintf("there is no %s of type kubernetes.io/tls", id.Described())
}

// names are what a root lists under tls.
func (a Attachment) names() []model.HostKey {
	var out []model.HostKey
	for _, t := range a.TLS {
		for _, h := range t.Hosts {
			out = append(out, keysOf(a.Classes, h)...)
		}
	}
	return out
}

// listing are the roots that list a name under tls.
func (d *program) listing(r *inc.Reader, k model.HostKey) []aged[Attachment] {
	return byAge(d.RootsOfName.Keys(r, k), d.RootsOfName.Get(r, k), func(root model.Object, a Attachment) model.Origin {
		return model.Origin{Created: a.Created, Object: root}
	})
}

// chain is the certificates of the roots that list a name and are in the
// namespace that it belongs to.
func (d *program) chain(r *inc.Reader, k model.HostKey) (Chain, bool) {
	if _, ok := d.policies.Get(r, k.Class); !ok {
		return Chain{}, false
	}
	if k.Class.OfGateway() {
		return d.gw.chain(r, k)
	}
	var out Chain
	listing := d.listing(r, k)
	owner := d.ownerOf(r, k, listing).Object
	for _, a := range listing {
		if o := a.origin.Object; !sameNamespace(o, owner) {
			out.dispute(owner, o)
			continue
		}
		for _, t := range a.has.TLS {
			if !slices.Contains(t.Hosts, k.Host) || slices.Contains(out.Secrets, t.Secret) {
				continue
			}
			if c, ok := d.fitness.Get(r, t.Secret); ok && c.usable && covers(c.names, k.Host) {
				out.Secrets = append(out.Secrets, t.Secret)
			}
		}
	}
	return out, len(out.Secrets) > 0 || out.Dispute != nil
}

func (c *Chain) dispute(owner, loser model.Object) {
	if c.Dispute == nil {
		c.Dispute = &Dispute{Owner: owner}
	}
	c.Dispute.Lost = append(c.Dispute.Lost, loser)
}

// fitness is what hosts need to know of a certificate: that a wildcard's is
// renewed is no news to those that present it.
type fitness struct {
	usable  bool
	problem string
	names   []string
}

func (a fitness) Equal(b fitness) bool {
	return a.usable == b.usable && a.problem == b.problem && slices.Equal(a.names, b.names)
}

func fitnessOf(c model.Certificate) fitness {
	return fitness{usable: c.Problem == "" && len(c.Chain) > 0, problem: c.Problem, names: c.Names}
}

// covers reports whether a certificate with these names is good for a host: by
// the name itself, or by a wildcard for its first label (RFC 9525, 6.3). The
// empty host stands for every name: any certificate will do.
func covers(names []string, h model.Host) bool {
	if h == "" || slices.Contains(names, string(h)) {
		return true
	}
	_, parent, ok := strings.Cut(string(h), ".")
	return ok && slices.Contains(names, "*."+parent)
}
