package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Rivals are, for each port that a class has at an edge, the older classes that
// share it: a host that one of those has is not the class's own on that port.
// None: the class has a port where nobody is before it, and with it all its
// hosts. It reports false for a class that has no port there.
func (p *Program) Rivals(r *inc.Reader, e model.Edge, c model.Class) (rivals [][]model.Class, served bool) {
	own, _ := p.ClassInfo.Get(r, c)
	view, _ := p.Views.Get(r, e)
	older := map[model.Class]ClassInfo{}
	for _, class := range view.Classes {
		info, ok := p.ClassInfo.Get(r, class)
		if ok && class != c && info.Spec.Origin.Compare(own.Spec.Origin) < 0 {
			older[class] = info
		}
	}
	for _, w := range portsOf(own) {
		sharing, granted := w.among(older)
		if granted && len(sharing) == 0 {
			return nil, true
		}
		if granted {
			rivals = append(rivals, sharing)
		}
	}
	return rivals, len(rivals) > 0
}

// wantedPort is a port that a class wants. The oldest that wants a number says
// whether it is HTTP or HTTPS.
type wantedPort struct {
	number uint16
	tls    bool
}

func portsOf(c ClassInfo) []wantedPort {
	return slices.DeleteFunc([]wantedPort{{c.Config.HTTPPort, false}, {c.Config.HTTPSPort, true}},
		func(w wantedPort) bool { return w.number == 0 })
}

// among tells which of the older classes have the port too, sorted, and whether
// they leave it to the class.
func (w wantedPort) among(older map[model.Class]ClassInfo) (sharing []model.Class, granted bool) {
	first, granted := model.Origin{}, true
	for class, info := range older {
		for _, o := range portsOf(info) {
			if o.number != w.number {
				continue
			}
			if at := info.Spec.Origin; first == (model.Origin{}) || at.Compare(first) < 0 {
				first, granted = at, o.tls == w.tls
			}
			if o.tls == w.tls {
				sharing = append(sharing, class)
			}
		}
	}
	slices.Sort(sharing)
	return sharing, granted
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
