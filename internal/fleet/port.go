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
// a port. It is comparable, so that edges with the same list share what is made
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

// Table is the hosts that some listeners of an edge share, since the same classes
// have their ports. Those of the oldest class there are the main ones.
type Table struct {
	Name    string // empty: the main one; else the lowest port
	Classes ClassList
}

// Compare orders by name and classes.
func (a Table) Compare(b Table) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), a.Classes.Compare(b.Classes))
}

// Port is a port that proxies listen on for some classes.
type Port struct {
	model.Socket
	Classes ClassList
	Static  ClassList // those with a say in the certificates in the listener
	Table   Table
}

// Ports is all that the proxies of an edge listen on.
type Ports struct {
	List    []Port        // sorted by number
	Demand  ClassList     // the classes of all ports with certificates on demand, oldest first
	Lookups []model.Class // those that may have backends whose addresses proxies look up
	Lost    model.Findings

	fronts []model.Collection // of all classes in all tables
}

// Equal reports whether both are the same.
func (a Ports) Equal(b Ports) bool {
	return slices.Equal(a.List, b.List) && a.Demand == b.Demand && slices.Equal(a.Lookups, b.Lookups) && slices.Equal(a.fronts, b.fronts) && a.Lost.Equal(b.Lost)
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

// ClassSet is the classes of an edge, sorted and joined by ",".
type ClassSet string

// Compare orders sets as text.
func (a ClassSet) Compare(b ClassSet) int { return strings.Compare(string(a), string(b)) }

// SetOf is that of a view.
func SetOf(v model.View) ClassSet { return ClassSet(v.Classes()) }

// frontsOf are what classes have in the tables.
func (a Ports) frontsOf(bids []bid) []model.Collection {
	var out []model.Collection
	for _, t := range a.Tables() {
		has := map[model.Class]bool{}
		for _, c := range t.Classes.Classes() {
			has[c] = true
		}
		for _, b := range bids {
			switch {
			case !has[b.class]:
			case t.Name == "":
				out = append(out, b.main)
			default:
				out = append(out, model.FrontOf(b.class, t.Name))
			}
		}
	}
	return out
}

// Static are the lists of the ports that have certificates with their listeners,
// each once.
func (a Ports) Static() []ClassList {
	var out []ClassList
	for _, p := range a.List {
		if p.Static != "" {
			out = append(out, p.Static)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// declarePorts decides who gets which port where some classes are together.
func (p *Program) declarePorts(g *inc.Graph) {
	sets := inc.IndexBy(p.Views, func(_ model.Edge, v View) []ClassSet { return []ClassSet{SetOf(v.Key)} })
	p.bids = inc.Derive(g, "bids", func(r *inc.Reader, c model.Class) (bid, bool) {
		info, ok := p.ClassInfo.Get(r, c)
		of := info.Config
		return bid{c, info.Spec.Origin, of.HTTPPort, of.HTTPSPort, of.OnDemand, of.ExternalNames, model.FrontOf(c, "")}, ok
	}, p.ClassInfo)
	certified := together(g, "certified", p.Chains, func(k model.HostKey, _ Chain) []model.Class { return []model.Class{k.Class} })
	p.Ports = inc.Derive(g, "ports", func(r *inc.Reader, s ClassSet) (Ports, bool) {
		bids := p.bidsOf(r, ClassesOf(string(s)))
		out := grant(bids)
		out.fronts = out.frontsOf(bids)
		of, _ := certified.Get(r, model.All{})
		others, _ := p.disputing.Get(r, model.All{})
		of = slices.Concat(of, others)
		slices.Sort(of)
		for i := range out.List {
			if port := &out.List[i]; port.TLS && !port.OnDemand {
				port.Static = listOf(port.Classes.among(of))
			}
		}
		return out, true
	}, sets)
	lists := inc.IndexBy(p.Ports, func(_ ClassSet, ports Ports) []ClassList {
		return slices.DeleteFunc(ports.Static(), func(list ClassList) bool { return !list.Shared() })
	})
	each := inc.Derive(g, "shared listeners", func(*inc.Reader, ClassList) (model.There, bool) { return model.There{}, true }, lists)
	ofClass := inc.IndexBy(each, func(list ClassList, _ model.There) []model.Class { return list.Classes() })
	p.Chained = inc.Derive(g, "chained", func(r *inc.Reader, c model.Class) (inc.List[ClassList], bool) { return ofClass.Keys(r, c), true }, ofClass)
}

// bid is what a class wants of the edges that it is for.
type bid struct {
	class   model.Class
	origin  model.Origin
	http    uint16
	https   uint16
	demand  bool             // certificates are on demand
	lookups bool             // it may have backends whose addresses proxies look up
	main    model.Collection // what it has in the main table
}

func (a bid) Equal(b bid) bool { return a == b }

// bidsOf are those of some classes, the oldest first.
func (p *Program) bidsOf(r *inc.Reader, classes []model.Class) []bid {
	out := make([]bid, 0, len(classes))
	for _, class := range classes {
		if b, ok := p.bids.Get(r, class); ok {
			out = append(out, b)
		}
	}
	older := func(a, b bid) int { return cmp.Or(a.origin.Compare(b.origin), a.class.Compare(b.class)) }
	if !slices.IsSortedFunc(out, older) {
		slices.SortFunc(out, older)
	}
	return out
}

// wish is a port that a class wants.
type wish struct {
	class    model.Class
	object   model.Object // of the class
	number   uint16
	tls      bool
	onDemand bool // certificates are
}

// wishes are the ports that classes want, that of the lowest number first.
func (b bid) wishes() []wish {
	out := []wish{{b.class, b.origin.Object, b.http, false, false}, {b.class, b.origin.Object, b.https, true, b.demand}}
	if b.https < b.http {
		slices.Reverse(out)
	}
	return slices.DeleteFunc(out, func(w wish) bool { return w.number == 0 })
}

// grant decides who gets which port, given bids with the oldest first. Classes
// with the same wish share the port. Where one wants HTTP and another HTTPS on
// one number, or certificates in another way, the oldest that wants it says
// which, and the others are told.
func grant(bids []bid) Ports {
	var out Ports
	var demand []model.Class
	of := map[uint16][]model.Class{} // who has a port
	var wishes []wish
	for _, b := range bids {
		wishes = append(wishes, b.wishes()...)
		if b.lookups {
			out.Lookups = append(out.Lookups, b.class)
		}
	}
	for _, w := range wishes {
		at := slices.IndexFunc(out.List, func(p Port) bool { return p.Number == w.number })
		if at < 0 {
			at = len(out.List)
			out.List = append(out.List, Port{Socket: model.Socket{Number: w.number, TLS: w.tls, OnDemand: w.onDemand}})
		}
		has := out.List[at]
		if has.TLS != w.tls {
			out.Lost = append(out.Lost, w.conflict(of[w.number][0], transports[w.tls], transports[has.TLS], "port %d is", "choose another port or other edges"))
			continue
		}
		if has.OnDemand != w.onDemand {
			out.Lost = append(out.Lost, w.conflict(of[w.number][0], deliveries[w.onDemand], deliveries[has.OnDemand], "certificates on port %d are",
				"set spec.tls.certificates alike, or choose another port or other edges"))
		}
		of[w.number] = append(of[w.number], w.class)
		if has.OnDemand {
			demand = append(demand, w.class)
		}
	}
	for i := range out.List {
		out.List[i].Classes = listOf(of[out.List[i].Number])
	}
	out.Demand = listOf(demand)
	out.share()
	out.Lost = out.Lost.Sorted()
	return out
}

// listOf is a list of classes, the oldest first.
func listOf(classes []model.Class) ClassList {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = string(c)
	}
	return ClassList(strings.Join(names, ","))
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
func (w wish) conflict(has model.Class, want, is, subject, remedy string) model.Finding {
	return model.ErrorOf(w.object, "spec.parameters", model.ReasonConflict,
		subject+" %s for class %s on an edge that both share, and can't be %s too: %s", w.number, is, has, want, remedy)
}
