package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// classList is one or more classes, oldest first, joined by ",": those that
// share a port. It is comparable, so that views with the same list share what
// is made for it.
type classList string

func (a classList) Compare(b classList) int { return strings.Compare(string(a), string(b)) }

// shared tells whether it is of several classes.
func (a classList) shared() bool { return strings.Contains(string(a), ",") }

func (a classList) classes() []model.Class {
	var out []model.Class
	for name := range strings.SplitSeq(string(a), ",") {
		out = append(out, model.Class(name))
	}
	return out
}

// port is a port that the proxies of a front listen on.
type port struct {
	number   uint16
	tls      bool
	onDemand bool // certificates: proxies ask for each by the name a client asks for
	ipv6     bool // of [::], not of 0.0.0.0
	classes  classList
	table    hostTable
}

// name is the listener's: stable, whatever the classes are. A listener has one
// address for ever: Envoy opens new sockets for one whose addresses change, and
// resets what waits in the old ones.
func (p port) name() string {
	if p.ipv6 {
		return p.service() + "-ipv6"
	}
	return p.service()
}

// service is what clients get there, by whatever address; stats are named so.
func (p port) service() string {
	if p.tls {
		return fmt.Sprintf("https-%d", p.number)
	}
	return fmt.Sprintf("http-%d", p.number)
}

// ports is all that the proxies of a front listen on.
type ports struct {
	list   []port    // sorted by number, of IPv4
	demand classList // the classes of all ports with certificates on demand
	lost   model.Findings
}

func (a ports) Equal(b ports) bool {
	return slices.Equal(a.list, b.list) && a.demand == b.demand && a.lost.Equal(b.lost)
}

// tlsLists returns the class lists of the ports that have a chain for each
// certificate, each once.
func (a ports) tlsLists() []classList {
	var out []classList
	for _, p := range a.list {
		if p.tls && !p.onDemand {
			out = append(out, p.classes)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tables returns the tables of the ports, each once.
func (a ports) tables() []hostTable {
	var out []hostTable
	for _, p := range a.list {
		out = append(out, p.table)
	}
	slices.SortFunc(out, hostTable.Compare)
	return slices.Compact(out)
}

// lists is what hosts need to know of the ports of a front.
type lists struct {
	tables []hostTable
	demand classList   // as in ports
	shared []classList // of several classes, that have a chain for each certificate
}

func (a lists) Equal(b lists) bool {
	return slices.Equal(a.tables, b.tables) && a.demand == b.demand && slices.Equal(a.shared, b.shared)
}

func (a ports) lists() lists {
	shared := slices.DeleteFunc(a.tlsLists(), func(list classList) bool { return !list.shared() })
	return lists{a.tables(), a.demand, shared}
}

// sockets is the ports of a front by the families that its proxies listen on.
type sockets struct{ list []port } // sorted by number, of IPv4 first

func (a sockets) Equal(b sockets) bool { return slices.Equal(a.list, b.list) }

// bothFamilies has each port twice, of IPv4 and of IPv6.
func bothFamilies(list []port) []port {
	var out []port
	for _, p := range list {
		six := p
		six.ipv6 = true
		out = append(out, p, six)
	}
	return out
}

// grant gives ports to the classes that wish for them. Where classes that share
// one want certificates in another way than the oldest of them, that becomes a
// finding, as does a wish that was lost.
func grant(wishes []fleet.PortWish) ports {
	granted, lost := fleet.GrantPorts(wishes)
	var out ports
	for _, sharing := range granted {
		first := sharing[0]
		p := port{number: first.Number, tls: first.TLS, onDemand: first.OnDemand, classes: classList(first.Class)}
		for _, w := range sharing[1:] {
			if w.OnDemand != p.onDemand {
				out.lost = append(out.lost, otherCertificates(w, p))
			}
			p.classes += "," + classList(w.Class)
		}
		out.list = append(out.list, p)
	}
	for _, w := range lost {
		at := slices.IndexFunc(out.list, func(p port) bool { return p.number == w.Number })
		out.lost = append(out.lost, lostPort(w, out.list[at]))
	}
	out.demand = demandOf(wishes, out.list)
	if len(out.list) > 0 {
		out.share(out.list[0].classes) // of the oldest wish
	}
	out.lost = out.lost.Sorted()
	return out
}

// demandOf is the classes of the ports with certificates on demand, oldest first.
func demandOf(wishes []fleet.PortWish, granted []port) classList {
	var out []string
	for _, w := range wishes {
		if slices.ContainsFunc(granted, func(p port) bool { return p.number == w.Number && p.onDemand && w.TLS }) {
			out = append(out, string(w.Class))
		}
	}
	return classList(strings.Join(out, ","))
}

// share gives each port its table; the ports of the class list main have the
// main one.
func (a *ports) share(main classList) {
	slices.SortFunc(a.list, func(a, b port) int { return cmp.Compare(a.number, b.number) })
	names := map[classList]string{main: ""}
	for i := range a.list {
		p := &a.list[i]
		name, ok := names[p.classes]
		if !ok {
			name = strconv.Itoa(int(p.number))
			names[p.classes] = name
		}
		p.table = hostTable{name, p.classes}
	}
}

func lostPort(w fleet.PortWish, has port) model.Finding {
	want, is := "HTTP", "HTTPS"
	if w.TLS {
		want, is = is, want
	}
	return model.ErrorOf(w.Origin.Object, "spec.parameters", model.ReasonConflict,
		"port %d is %s for class %s on an edge that both share, and can't be %s too: choose another port or other edges", w.Number, is, has.classes.classes()[0], want)
}

func otherCertificates(w fleet.PortWish, has port) model.Finding {
	want, is := "static", "on demand"
	if w.OnDemand {
		want, is = is, want
	}
	return model.ErrorOf(w.Origin.Object, "spec.parameters", model.ReasonConflict,
		"certificates on port %d are %s for class %s on an edge that both share, and can't be %s too: set spec.tls.certificates alike, or choose another port or other edges", w.Number, is, has.classes.classes()[0], want)
}
