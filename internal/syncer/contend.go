package syncer

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/ingest"
)

// contends reports whether the same controller is asked by both for a host at the same
// place. In the namespace of the leaf another path of the host is no matter: whoever has
// the leaf has that, too, such as the solver of a certificate's challenge.
func (s *Syncer) contends(k *kind, key Key, ours *ingest.Asking, c *claimant, host string) bool {
	if !c.kind.claims.beside(k.claims) {
		return false
	}
	if c.kind.claims.Among != k.claims.Among {
		if !s.together(ours, &c.Asking) {
			return false
		}
	} else if !s.meets(ours, &c.Asking) {
		return false
	}
	return c.namespace != key.Namespace || slices.ContainsFunc(c.asks, func(ask string) bool {
		_, same := slices.BinarySearch(ours.Asks, ask)
		return same && ingest.HostAsked(ask) == host
	})
}

// together reports whether clients reach both at an address in common, which is to say
// through the same controller, whatever it is called.
func (s *Syncer) together(ours, theirs *ingest.Asking) bool {
	of := s.addresses(theirs, s.served)
	return slices.ContainsFunc(s.addresses(ours, s.listeners), func(at string) bool { return slices.Contains(of, at) })
}

// addresses are those at which clients reach what is asked for: of an Ingress its own; of a
// route those of its Gateways that it has at ports of Ingresses, given the listeners that
// count. An address may have other ports, of another controller.
func (s *Syncer) addresses(a *ingest.Asking, listeners func(front string) []ingest.Listener) []string {
	out := slices.Clone(a.Addresses)
	for _, p := range a.Fronts {
		if slices.ContainsFunc(listeners(p.Of), func(l ingest.Listener) bool { return (l.Port == 80 || l.Port == 443) && p.Attaches(a.Kind, l) }) {
			out = append(out, s.claims.fronts[s.gateway(p.Of)].Addresses...)
		}
	}
	return out
}

// gateway is what has the addresses of a front: of a ListenerSet its Gateway, if that lets
// it.
func (s *Syncer) gateway(front string) string {
	return cmp.Or(s.claims.fronts[front].Gateway, front)
}

// meets reports whether both are asked for at the same place: they are of the same class,
// or, routes, of the same Gateway, or of two of a class that name an address in common.
func (s *Syncer) meets(a, b *ingest.Asking) bool {
	if a.Kind == "" {
		return a.Class == b.Class
	}
	for _, x := range a.Fronts {
		for _, y := range b.Fronts {
			if at, of := s.gateway(x.Of), s.gateway(y.Of); at == of || s.alike(at, of) {
				return true
			}
		}
	}
	return false
}

// alike reports whether two Gateways are of a class and name an address in common.
func (s *Syncer) alike(x, y string) bool {
	a, known := s.claims.fronts[x]
	b, both := s.claims.fronts[y]
	return known && both && a.Class == b.Class && slices.ContainsFunc(a.Addresses, func(at string) bool { return slices.Contains(b.Addresses, at) })
}
