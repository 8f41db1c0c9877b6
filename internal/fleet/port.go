package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// ClassList is one or more classes, oldest first, joined by ",": those that share
// a port. It is comparable, so that fronts with the same list share what is made
// for it.
type ClassList string

// Compare orders lists as text.
func (a ClassList) Compare(b ClassList) int { return strings.Compare(string(a), string(b)) }

// Shared reports whether it is of several classes.
func (a ClassList) Shared() bool { return strings.Contains(string(a), ",") }

// Classes are those of the list.
func (a ClassList) Classes() []model.Class { return ClassesOf(string(a)) }

// Has reports whether a class is on the list.
func (a ClassList) Has(c model.Class) bool { return slices.Contains(a.Classes(), c) }

// Table is the hosts that some listeners of a front share, since the same classes
// have their ports. Those of the front's oldest class are the main ones.
type Table struct {
	Name    string // empty: the main one; else the lowest port
	Classes ClassList
}

// Compare orders by name and classes.
func (a Table) Compare(b Table) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), a.Classes.Compare(b.Classes))
}

// Port is a port that the proxies of a front listen on.
type Port struct {
	Number   uint16
	TLS      bool
	OnDemand bool // certificates: proxies ask for each by the name a client asks for
	Classes  ClassList
	Table    Table
}

// Ports is all that the proxies of a front listen on.
type Ports struct {
	List   []Port    // sorted by number
	Demand ClassList // the classes of all ports with certificates on demand, oldest first
	Lost   model.Findings
}

// Equal reports whether both are the same.
func (a Ports) Equal(b Ports) bool {
	return slices.Equal(a.List, b.List) && a.Demand == b.Demand && a.Lost.Equal(b.Lost)
}

// Tables are those of the ports, each once, sorted.
func (a Ports) Tables() []Table {
	var out []Table
	for _, p := range a.List {
		out = append(out, p.Table)
	}
	slices.SortFunc(out, Table.Compare)
	return slices.Compact(out)
}

// declarePorts decides who gets which port of a front: of those that edges have,
// and of those that hosts have yet to leave.
func (d *program) declarePorts(g *inc.Graph) {
	d.Ports = inc.Derive(g, "ports", d.PortsOf, d.EdgesOf, d.HostsOf)
}

// PortsOf is a row of Ports.
func (p *Program) PortsOf(r *inc.Reader, c model.Collection) (Ports, bool) {
	if c.Kind() != model.Front {
		return Ports{}, false
	}
	return grant(p.wishes(r, ClassesOf(c.Classes()))), true
}

// wish is a port that a class wants.
type wish struct {
	class    model.Class
	origin   model.Origin // of the class
	number   uint16
	tls      bool
	onDemand bool // certificates are
}

// wishes are the ports that classes want, those of the oldest first.
func (p *Program) wishes(r *inc.Reader, classes []model.Class) []wish {
	var out []wish
	for _, class := range classes {
		c, ok := p.ClassInfo.Get(r, class)
		if !ok {
			continue
		}
		out = append(out,
			wish{class, c.Spec.Origin, c.Config.HTTPPort, false, false},
			wish{class, c.Spec.Origin, c.Config.HTTPSPort, true, c.Config.OnDemand})
	}
	out = slices.DeleteFunc(out, func(w wish) bool { return w.number == 0 })
	slices.SortFunc(out, func(a, b wish) int {
		return cmp.Or(a.origin.Compare(b.origin), a.class.Compare(b.class), cmp.Compare(a.number, b.number))
	})
	return out
}

// grant decides who gets which port, given wishes with the oldest first. Classes
// with the same wish share the port. Where one wants HTTP and another HTTPS on
// one number, or certificates in another way, the oldest that wants it says
// which, and the others are told.
func grant(wishes []wish) Ports {
	var out Ports
	var demand []string
	for _, w := range wishes {
		at := slices.IndexFunc(out.List, func(p Port) bool { return p.Number == w.number })
		if at < 0 {
			at = len(out.List)
			out.List = append(out.List, Port{Number: w.number, TLS: w.tls, OnDemand: w.onDemand, Classes: ClassList(w.class)})
		} else if has := &out.List[at]; has.TLS != w.tls {
			out.Lost = append(out.Lost, w.conflict(*has, transports[w.tls], transports[has.TLS], "port %d is", "choose another port or other edges"))
			continue
		} else {
			if has.OnDemand != w.onDemand {
				out.Lost = append(out.Lost, w.conflict(*has, deliveries[w.onDemand], deliveries[has.OnDemand], "certificates on port %d are",
					"set spec.tls.certificates alike, or choose another port or other edges"))
			}
			has.Classes += "," + ClassList(w.class)
		}
		if out.List[at].OnDemand {
			demand = append(demand, string(w.class))
		}
	}
	out.Demand = ClassList(strings.Join(demand, ","))
	out.share()
	out.Lost = out.Lost.Sorted()
	return out
}

// share gives each port its table; the ports with the classes of the oldest wish
// have the main one.
func (a *Ports) share() {
	if len(a.List) == 0 {
		return
	}
	names := map[ClassList]string{a.List[0].Classes: ""}
	slices.SortFunc(a.List, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
	for i := range a.List {
		p := &a.List[i]
		name, ok := names[p.Classes]
		if !ok {
			name = strconv.Itoa(int(p.Number))
			names[p.Classes] = name
		}
		p.Table = Table{name, p.Classes}
	}
}

// What a port is to those that wish for it.
var (
	transports = map[bool]string{false: "HTTP", true: "HTTPS"}
	deliveries = map[bool]string{false: "static", true: "on demand"} // of certificates
)

// conflict tells a class that a port is something else than it wants.
func (w wish) conflict(has Port, want, is, subject, remedy string) model.Finding {
	return model.ErrorOf(w.origin.Object, "spec.parameters", model.ReasonConflict,
		subject+" %s for class %s on an edge that both share, and can't be %s too: %s", w.number, is, has.Classes.Classes()[0], want, remedy)
}

// Rivals are, for each port that a class has at an edge, the older classes that
// share it: a host that one of those has is not the class's own on that port.
// None: the class has a port where nobody is before it, and with it all its
// hosts. It reports false for a class that has no port there.
func (p *Program) Rivals(r *inc.Reader, e model.Edge, c model.Class) (rivals [][]model.Class, served bool) {
	view, _ := p.Views.Get(r, e)
	ports, _ := p.Ports.Get(r, view.Key.Front())
	for _, port := range ports.List {
		sharing := port.Classes.Classes()
		switch i := slices.Index(sharing, c); {
		case i == 0:
			return nil, true
		case i > 0:
			rivals = append(rivals, sharing[:i])
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
