package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Connections and datagrams are hosts as requests are: a route claims them, the oldest
// class on a port has them, their backends have plans. What differs is where they are
// written: no table of hosts is asked for a connection, so its listener says itself what
// becomes of it, by the TLS name that the client asks for.

// Relay is what becomes of connections for one name of a listener, or of all that
// comes to it.
type Relay struct {
	Name    model.Host       // TLS name; empty: what no other has, and whatever has none
	Of      model.HostKey    // the host whose backends it leads to
	Pass    bool             // TLS ends at the backend
	Secrets []model.SecretID // otherwise, of TLS: what is presented; none: nothing can be, and nobody is served
}

// equal reports whether both are the same.
func (a Relay) equal(b Relay) bool {
	return a.Name == b.Name && a.Of == b.Of && a.Pass == b.Pass && slices.Equal(a.Secrets, b.Secrets)
}

// Relays are those of a listener, sorted by name.
type Relays []Relay

// Equal reports whether both are the same.
func (a Relays) Equal(b Relays) bool { return slices.EqualFunc(a, b, Relay.equal) }

// has reports whether a TLS name is that of a relay.
func (a Relays) has(name model.Host) bool {
	_, found := slices.BinarySearchFunc(a, name, func(s Relay, name model.Host) int { return s.Name.Compare(name) })
	return found
}

// line is what a listener does: nothing but to take requests, or else what it does with
// connections or datagrams.
type line struct {
	traffic model.Traffic
	pass    bool
	set     model.Object // the ListenerSet that has the listener, of a Gateway that members serve
}

// Equal reports whether both are the same.
func (a line) Equal(b line) bool { return a == b }

// lineOf is what the listener that has a host of a front does with it.
func (w *gateways) lineOf(r *inc.Reader, p policy, k model.HostKey) line {
	if !p.lines {
		return line{}
	}
	out, _ := w.listeners.Get(r, model.HostKey{Class: k.Class, Host: w.listenerOf(r, k)})
	return out
}

// tlsKind is the kind of routes whose backends may be given what clients encrypted.
const tlsKind = "TLSRoute"

// passed is a backend that is given what clients encrypted; that of none is none.
func passed(b model.Backend) model.Backend {
	k := b.Key()
	if k == (model.BackendKey{}) {
		return b
	}
	k.Port.Pass = true
	return k.Backend()
}

// relayed decides what becomes of connections or datagrams: one route has all, the one
// whose own hostname is closest, and the oldest of these.
func (d *program) relayed(r *inc.Reader, p policy, k model.HostKey, of line) Host {
	out := Host{Dial: p.dial, Traffic: of.traffic, Pass: of.pass}
	claims, layered := inLayers(d.claimants(r, k))
	out.Layered = layered
	for _, c := range claims {
		if len(c.has.Rules) == 0 {
			continue
		}
		rule, root := c.has.rulesIn(k.Class)[0], c.origin.Object
		backends := slices.Clone(rule.Backends)
		for i := range backends {
			if of.pass {
				backends[i].Backend = passed(backends[i].Backend)
			}
		}
		to := Target{Root: root, Rule: rule.Name}
		to.Backends, to.Nowhere = d.resolvable(r, p, root, backends, &out)
		out.Routes, out.Roots = []Route{{model.Everything, to}}, []model.Object{root}
		break
	}
	return out
}

// relayedHost is a host that takes no requests.
type relayedHost struct {
	pass bool
	of   inc.List[model.Class] // that have such a host, sorted
}

// Equal reports whether both are the same.
func (a relayedHost) Equal(b relayedHost) bool { return a.pass == b.pass && a.of.Equal(b.of) }

// declareRelayed finds the hosts that take no requests, and who has a say in what
// becomes of them.
func (p *Program) declareRelayed(g *inc.Graph) {
	hosts := inc.IndexBy(p.Hosts, func(k model.HostKey, h Host) []model.HostKey {
		if h.Traffic == model.Requests && h.Passed == nil {
			return nil
		}
		return []model.HostKey{k}
	})
	t := inc.Derive(g, "relayed hosts", func(r *inc.Reader, k model.HostKey) (relayedHost, bool) {
		host := hosts.Get(r, k)[0]
		out := relayedHost{pass: host.Pass || host.Passed != nil}
		for _, k := range p.HostsNamed.Keys(r, k.Host) {
			out.of = append(out.of, k.Class)
		}
		return out, true
	}, hosts)
	p.relaysOf = inc.IndexBy(t, func(k model.HostKey, _ relayedHost) []model.Class { return []model.Class{k.Class} })
	p.relaying = together(g, "relaying", t, func(k model.HostKey, _ relayedHost) []model.Class { return []model.Class{k.Class} })
	p.rivalling = together(g, "rivalling", t, func(_ model.HostKey, row relayedHost) []model.Class { return row.of })
}

// declareRelays says what of a listener goes by no table. It is of a list of classes,
// the oldest first, as the certificates in a listener are.
func (p *Program) declareRelays(g *inc.Graph, lists ...inc.Keys[ClassList]) {
	p.Relays = inc.Derive(g, "relays", func(r *inc.Reader, list ClassList) (out Relays, ok bool) {
		classes := list.Classes()
		for n, c := range classes {
			hosts := p.relaysOf.Get(r, c)
			for i, k := range p.relaysOf.Keys(r, c) {
				if p.anyHas(r, classes[:n], k.Host) {
					continue
				}
				s := Relay{Name: k.Host.TLSName(), Of: k, Pass: hosts[i].pass}
				if !s.Pass {
					s.Secrets = p.closestChain(r, k)
				}
				out = append(out, s)
			}
		}
		slices.SortFunc(out, func(a, b Relay) int { return a.Name.Compare(b.Name) })
		return out, len(out) > 0
	}, lists...)
}

// anyHas reports whether one of some classes has a host, or a certificate for its name.
func (p *Program) anyHas(r *inc.Reader, classes []model.Class, h model.Host) bool {
	return slices.ContainsFunc(classes, func(c model.Class) bool {
		chain, _ := p.Chains.Get(r, model.HostKey{Class: c, Host: h.TLSName()})
		_, ok := p.Hosts.Get(r, model.HostKey{Class: c, Host: h})
		return ok || len(chain.Secrets) > 0
	})
}

// closestChain is the certificates of a class for a host: its own, or those of the
// closest wildcard that has some.
func (p *Program) closestChain(r *inc.Reader, k model.HostKey) []model.SecretID {
	chain, _ := p.Chains.Get(r, model.HostKey{Class: k.Class, Host: k.Host.TLSName()})
	for wider := range k.Host.Wider() {
		if len(chain.Secrets) > 0 {
			break
		}
		chain, _ = p.Chains.Get(r, model.HostKey{Class: k.Class, Host: wider.TLSName()})
	}
	return chain.Secrets
}
