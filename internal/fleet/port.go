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

// Port is a port that proxies listen on for some classes. Ports that the same
// classes have share a table of hosts; that of the oldest class is the main one.
type Port struct {
	model.Socket
	Classes []model.Class // sorted
	Static  ClassList     // those with a say in what the listener says itself: certificates, and relays
	Table   string        // empty: the main one; else its lowest port

	kinds []int // of bids for it, those with the oldest class first
}

// mute reports whether there is no listener, since there is nothing to present.
func (a Port) mute() bool { return a.mustSay() && a.Static == "" }

// mustSay reports whether there is nothing on a port but what its listener says itself.
func (a Port) mustSay() bool { return a.TLS && !a.OnDemand || a.Traffic != model.Requests }

// TellsApart reports whether a connection is for a listener by the name that its client
// asked for, and its requests must be for the same: so it is on ports of Gateways, also
// for what others have there.
func (a Port) TellsApart() bool { return a.TLS && a.Deep }

// tellsApart reports whether some port of a table does.
func (a Ports) tellsApart(table string) bool {
	return slices.ContainsFunc(a.List, func(p Port) bool { return p.Table == table && p.TellsApart() })
}

func (a Port) same(b Port) bool {
	return a.Socket == b.Socket && a.Static == b.Static && a.Table == b.Table && slices.Equal(a.kinds, b.kinds) && slices.Equal(a.Classes, b.Classes)
}

// Ports is all that the proxies of an edge listen on, but for classes that have
// addresses of their own.
type Ports struct {
	List   []Port         // sorted by number
	Demand []model.Class  // of all ports with certificates on demand, sorted
	Probes []model.Timing // of paths, that classes ask for, each once
	Lost   model.Findings

	fronts []model.Collection // of all classes in all tables
}

// Equal reports whether both are the same.
func (a Ports) Equal(b Ports) bool {
	return slices.EqualFunc(a.List, b.List, Port.same) && slices.Equal(a.Demand, b.Demand) &&
		slices.Equal(a.Probes, b.Probes) && slices.Equal(a.fronts, b.fronts) && a.Lost.Equal(b.Lost)
}

// Tables are the first ports of each table.
func (a Ports) Tables() []Port {
	var out []Port
	for _, p := range a.List {
		if !slices.ContainsFunc(out, func(t Port) bool { return t.Table == p.Table }) {
			out = append(out, p)
		}
	}
	return out
}

// sharing are those of some sorted classes that share one of the tables.
func (a Ports) sharing(of []model.Class) []model.Class {
	var out []model.Class
	for _, t := range a.Tables() {
		out = append(out, among(t.Classes, of)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Static are the lists of the ports whose listeners say something themselves, each
// once.
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

// ClassSet is the classes of an edge, sorted and joined by ",".
type ClassSet string

// Compare orders sets by length, then as text: a set of a thousand classes and one
// of one more differ at first sight.
func (a ClassSet) Compare(b ClassSet) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(string(a), string(b)))
}

// SetOf is that of a view.
func SetOf(v model.View) ClassSet { return ClassSet(v.Classes()) }

// declarePorts decides who gets which port where some classes are together.
func (p *Program) declarePorts(g *inc.Graph) {
	sets := inc.IndexBy(p.Views, func(_ model.Edge, v View) []ClassSet { return []ClassSet{SetOf(v.Key)} })
	p.bids = inc.Derive(g, "bids", func(r *inc.Reader, c model.Class) (*bid, bool) {
		info, ok := p.ClassInfo.Get(r, c)
		return bidOf(c, info), ok
	}, p.ClassInfo)
	p.declareLeases(g)
	ofEdge := inc.IndexBy(p.bids, func(_ model.Class, b *bid) []model.Edge { return b.edges })
	p.chaining = together(g, "certified", p.Chains, func(k model.HostKey, _ Chain) []model.Class { return []model.Class{k.Class} })
	p.Ports = inc.Derive(g, "ports", func(r *inc.Reader, s ClassSet) (Ports, bool) {
		out := grant(kindsOf(ofEdge.Get(r, sets.Keys(r, s)[0]))) // all edges of a set have the same
		certified, relaying := sortedClasses(p.chaining.list(r), p.disputing.list(r)), p.relaying.list(r)
		for i := range out.List {
			port := &out.List[i]
			var says []model.Class
			if port.TLS && !port.OnDemand {
				says = certified
			}
			if len(among(port.Classes, relaying)) > 0 {
				says = sortedClasses(says, p.rivalling.list(r))
			}
			port.Static = p.listOf(r, among(port.Classes, says))
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
	want
	class  model.Class
	origin model.Origin
	edges  []model.Edge
	wishes []wish           // for addresses of its own, in the order in which they are served
	main   model.Collection // what it has in the main table, or in its own
}

// want is a bid but for whose it is. Very many classes want the same.
type want struct {
	ports  [2]model.Socket // the lower first; number 0: none
	own    bool            // it wants addresses for itself
	deep   bool            // as of ClassInfo
	probes model.Timing    // but for those of requests
}

func bidOf(c model.Class, info ClassInfo) *bid {
	of := info.Config
	out := &bid{class: c, origin: info.Spec.Origin, edges: info.Edges, wishes: wishesOf(info.Requested), main: model.FrontOf(c, "")}
	out.ports = [2]model.Socket{{Number: of.HTTPPort}, {Number: of.HTTPSPort, TLS: true, OnDemand: of.OnDemand, Clients: info.Clients}}
	if info.Relay.Number != 0 {
		out.ports = [2]model.Socket{info.Relay}
	}
	if of.HTTPSPort < of.HTTPPort {
		slices.Reverse(out.ports[:])
	}
	if out.own = of.Own; out.own {
		out.main = model.FrontOf(c, model.OwnTable(c))
	}
	out.deep = info.Deep
	out.probes = of.Timing
	out.probes.ConnectTimeout, out.probes.PerTryTimeout = 0, 0
	return out
}

// Equal reports whether both are the same.
func (b *bid) Equal(c *bid) bool {
	return b == c || b.want == c.want && b.class == c.class && b.origin == c.origin && slices.Equal(b.edges, c.edges) && slices.Equal(b.wishes, c.wishes)
}

func (b *bid) older(c *bid) int { return cmp.Or(b.origin.Compare(c.origin), b.class.Compare(c.class)) }

// alike is the bids that want the same.
type alike struct {
	want
	oldest *bid
	bids   []*bid        // sorted by class
	names  []model.Class // of those
}

// kindsOf groups bids, which are sorted by class; those with the oldest class come
// first.
func kindsOf(bids []*bid) []*alike {
	var out []*alike
	var last *alike
	room := len(bids)
	for _, b := range bids {
		if last == nil || last.want != b.want {
			at := slices.IndexFunc(out, func(k *alike) bool { return k.want == b.want })
			if at < 0 {
				at = len(out)
				out = append(out, &alike{want: b.want, oldest: b, bids: make([]*bid, 0, room), names: make([]model.Class, 0, room)})
				room = 0 // most are of one kind
			}
			last = out[at]
		}
		if last.bids, last.names = append(last.bids, b), append(last.names, b.class); b.older(last.oldest) < 0 {
			last.oldest = b
		}
	}
	slices.SortFunc(out, func(a, b *alike) int { return a.oldest.older(b.oldest) })
	return out
}

// grant decides who gets which port of the addresses that all share, given kinds of
// bids with the oldest first. Classes that want the same share the port. Where one
// wants HTTP and another HTTPS on one number, or certificates in another way, the
// oldest that wants it says which, and the others are told.
func grant(kinds []*alike) Ports {
	var out Ports
	var demand []int
	for n, k := range kinds {
		if !slices.Contains(out.Probes, k.probes) {
			out.Probes = append(out.Probes, k.probes)
		}
		if k.own {
			continue // see Holding
		}
		for _, want := range k.ports {
			if want.Number == 0 {
				continue
			}
			at := slices.IndexFunc(out.List, func(p Port) bool {
				return p.Number == want.Number && (p.Traffic == model.Datagrams) == (want.Traffic == model.Datagrams)
			})
			if at < 0 {
				at = len(out.List)
				out.List = append(out.List, Port{Socket: want})
			}
			has := &out.List[at]
			if has.Socket != want {
				out.Lost = append(out.Lost, k.conflicts(kinds[has.kinds[0]].oldest.class, want, has.Socket)...)
			}
			if !has.Shares(want) {
				continue
			}
			if has.kinds = append(has.kinds, n); has.OnDemand {
				demand = append(demand, n)
			}
		}
	}
	out.share()
	for i := range out.List {
		p := &out.List[i]
		p.Classes = classesOf(kinds, p.kinds)
		p.Deep = slices.ContainsFunc(p.kinds, func(n int) bool { return kinds[n].deep })
	}
	out.Demand = classesOf(kinds, demand)
	for _, t := range out.Tables() {
		out.fronts = append(out.fronts, frontsOf(kinds, t)...)
	}
	out.Lost = out.Lost.Sorted()
	return out
}

// ownTable is the name of a table of which the port is the lowest. A port of UDP is
// another than that of the same number.
func (a Port) ownTable() string {
	if a.Traffic == model.Datagrams {
		return "udp-" + strconv.Itoa(int(a.Number))
	}
	return strconv.Itoa(int(a.Number))
}

// share gives each port its table; the ports with the classes of the oldest have
// the main one.
func (a *Ports) share() {
	if len(a.List) == 0 {
		return
	}
	main := a.List[0].kinds
	slices.SortFunc(a.List, func(a, b Port) int { return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Traffic, b.Traffic)) })
	for i := range a.List {
		p := &a.List[i]
		if slices.Equal(p.kinds, main) {
			continue
		}
		lowest := slices.IndexFunc(a.List, func(other Port) bool { return slices.Equal(other.kinds, p.kinds) })
		p.Table = a.List[lowest].ownTable()
	}
}

// classesOf are those of some kinds, sorted. Of one kind it is a list that is
// there.
func classesOf(kinds []*alike, of []int) []model.Class {
	switch len(of) {
	case 0:
		return nil
	case 1:
		return kinds[of[0]].names
	}
	var out []model.Class
	for _, n := range of {
		out = append(out, kinds[n].names...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// frontsOf are what classes have in a table.
func frontsOf(kinds []*alike, t Port) []model.Collection {
	var out []model.Collection
	for _, n := range t.kinds {
		out = slices.Grow(out, len(kinds[n].bids))
		for _, b := range kinds[n].bids {
			if t.Table == "" {
				out = append(out, b.main)
			} else {
				out = append(out, model.FrontOf(b.class, t.Table))
			}
		}
	}
	return out
}

// sortedClasses are the classes of several lists, sorted, each once.
func sortedClasses(lists ...[]model.Class) []model.Class {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}

// among are those of sorted classes that are in another sorted list.
func among(classes, of []model.Class) []model.Class {
	if len(of) > len(classes) {
		classes, of = of, classes
	}
	var out []model.Class
	for _, c := range of {
		if _, found := slices.BinarySearch(classes, c); found {
			out = append(out, c)
		}
	}
	return out
}

// listOf is a list of classes.
func (p *Program) listOf(r *inc.Reader, classes []model.Class) ClassList {
	bids := make([]*bid, 0, len(classes))
	for _, c := range classes {
		if b, ok := p.bids.Get(r, c); ok {
			bids = append(bids, b)
		}
	}
	slices.SortFunc(bids, (*bid).older)
	names := make([]model.Class, len(bids))
	for i, b := range bids {
		names[i] = b.class
	}
	return ClassList(joined(names))
}

// deliveries are those of certificates.
var deliveries = map[bool]string{false: "static", true: "on demand"}

// transportOf is what a port is to those that want it. HTTPS and other TLS can be on
// one port, by the names that clients ask for.
func transportOf(s model.Socket) string {
	switch {
	case s.TLS:
		return "HTTPS or TLS"
	case s.Traffic == model.Requests:
		return "HTTP"
	case s.Traffic == model.Datagrams:
		return "UDP"
	}
	return "TCP"
}

// admitted is how clients are let in.
func admitted(s model.Socket) string {
	if s.Clients == (model.ClientTrust{}) {
		return "let in without certificates"
	}
	return "let in by certificates"
}

// conflicts tell classes that a port is something else than they want.
func (k *alike) conflicts(has model.Class, want, is model.Socket) model.Findings {
	subject, a, b, remedy := "port %d is", transportOf(is), transportOf(want), "choose another port or other edges"
	switch {
	case a != b:
	case is.Clients != want.Clients:
		if subject, a, b = "clients on port %d are", admitted(is), admitted(want); a == b {
			b = "let in by others"
		}
		remedy = "set spec.tls.frontend alike, or choose another port, other edges or addresses of its own"
	default:
		subject, a, b = "certificates on port %d are", deliveries[is.OnDemand], deliveries[want.OnDemand]
		remedy = "set spec.tls.certificates alike, or choose another port or other edges"
	}
	var out model.Findings
	for _, bid := range k.bids {
		out = append(out, model.ErrorOf(bid.origin.Object, "spec.parameters", model.ReasonConflict,
			subject+" %s for %s on an edge that both share, and can't be %s too: %s", want.Number, a, has.Described(), b, remedy))
	}
	return out
}
