package fleet

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// PortWish is a port that a class wants.
type PortWish struct {
	Class    model.Class
	Origin   model.Origin // of the class
	Number   uint16
	TLS      bool
	OnDemand bool // certificates are
}

// PortWishes are the ports that classes want, those of the oldest first.
func (p *Program) PortWishes(r *inc.Reader, classes []model.Class) []PortWish {
	var out []PortWish
	for _, class := range classes {
		c, ok := p.ClassInfo.Get(r, class)
		if !ok {
			continue
		}
		out = append(out,
			PortWish{class, c.Spec.Origin, c.Config.HTTPPort, false, false},
			PortWish{class, c.Spec.Origin, c.Config.HTTPSPort, true, c.Config.OnDemand})
	}
	out = slices.DeleteFunc(out, func(w PortWish) bool { return w.Number == 0 })
	slices.SortFunc(out, func(a, b PortWish) int {
		return cmp.Or(a.Origin.Compare(b.Origin), a.Class.Compare(b.Class), cmp.Compare(a.Number, b.Number))
	})
	return out
}

// GrantPorts decides who gets which port, given wishes with the oldest first. Classes
// with the same wish share the port, each list of wishes is one. Where one wants
// HTTP and another HTTPS on one number, the oldest that wants it says which, and
// the wish of the other is lost.
func GrantPorts(wishes []PortWish) (granted [][]PortWish, lost []PortWish) {
	for _, w := range wishes {
		at := slices.IndexFunc(granted, func(port []PortWish) bool { return port[0].Number == w.Number })
		switch {
		case at < 0:
			granted = append(granted, []PortWish{w})
		case granted[at][0].TLS == w.TLS:
			granted[at] = append(granted[at], w)
		default:
			lost = append(lost, w)
		}
	}
	return granted, lost
}

// Rivals are, for each port that a class has at an edge, the older classes that
// share it: a host that one of those has is not the class's own on that port.
// None: the class has a port where nobody is before it, and with it all its
// hosts. It reports false for a class that has no port there.
func (p *Program) Rivals(r *inc.Reader, e model.Edge, c model.Class) (rivals [][]model.Class, served bool) {
	view, _ := p.Views.Get(r, e)
	granted, _ := GrantPorts(p.PortWishes(r, view.Classes))
	for _, port := range granted {
		var older []model.Class
		i := slices.IndexFunc(port, func(w PortWish) bool { return w.Class == c })
		for _, w := range port[:max(i, 0)] {
			older = append(older, w.Class)
		}
		switch {
		case i == 0:
			return nil, true
		case i > 0:
			rivals = append(rivals, older)
		}
	}
	return rivals, len(rivals) > 0
}

// Serves reports whether requests for a host at an edge go by the class that
// says so, given the class's rivals there.
func (p *Program) Serves(r *inc.Reader, key model.HostKey, rivals [][]model.Class) bool {
	for _, older := range rivals {
		taken := slices.ContainsFunc(older, func(c model.Class) bool {
			_, has := p.Hosts.Get(r, model.HostKey{Class: c, Host: key.Host})
			return has
		})
		if !taken {
			return true
		}
	}
	return len(rivals) == 0
}
