package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// classList is one or more classes, oldest first, joined by ",": those that
// share a port. It is comparable, so that views with the same list share what
// is made for it.
type classList string

func (a classList) Compare(b classList) int { return strings.Compare(string(a), string(b)) }

func (a classList) classes() []model.Class {
	var out []model.Class
	for name := range strings.SplitSeq(string(a), ",") {
		out = append(out, model.Class(name))
	}
	return out
}

// port is a port that the proxies of a view listen on.
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

// ports is all that the proxies of a view listen on.
type ports struct {
	list   []port    // sorted by number, of IPv4 first
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

// wish is a port that a class wants.
type wish struct {
	origin model.Origin
	class  model.Class
	number uint16
	tls    bool

	onDemand bool
}

// portsOf decides who gets which port. Classes with the same wish share the
// port. Where one wants HTTP and another HTTPS on one number, or certificates
// in another way, the oldest class that wants it says which, and the other's
// wish becomes a finding.
func portsOf(r *inc.Reader, p *fleet.Program, view model.View) (ports, bool) {
	var wishes []wish
	for _, class := range fleet.ClassesOf(view) {
		c, ok := p.ClassInfo.Get(r, class)
		if !ok {
			continue
		}
		wishes = append(wishes,
			wish{c.Spec.Origin, class, c.Config.HTTPPort, false, false},
			wish{c.Spec.Origin, class, c.Config.HTTPSPort, true, c.Config.OnDemand})
	}
	out := grant(wishes)
	if view.IPv6() {
		out.list = bothFamilies(out.list)
	}
	return out, true
}

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

func grant(wishes []wish) ports {
	slices.SortFunc(wishes, func(a, b wish) int {
		return cmp.Or(a.origin.Compare(b.origin), strings.Compare(string(a.class), string(b.class)), cmp.Compare(a.number, b.number))
	})
	var out ports
	for _, w := range wishes {
		if w.number == 0 {
			continue
		}
		at := slices.IndexFunc(out.list, func(p port) bool { return p.number == w.number })
		switch {
		case at < 0:
			out.list = append(out.list, port{number: w.number, tls: w.tls, onDemand: w.onDemand, classes: classList(w.class)})
		case out.list[at].tls == w.tls:
			if out.list[at].onDemand != w.onDemand {
				out.lost = append(out.lost, otherCertificates(w, out.list[at]))
			}
			out.list[at].classes += "," + classList(w.class)
		default:
			out.lost = append(out.lost, lostPort(w, out.list[at]))
		}
	}
	out.demand = demandOf(wishes, out.list)
	if len(out.list) > 0 {
		out.share(out.list[0].classes) // of the oldest wish
	}
	out.lost = out.lost.Sorted()
	return out
}

// demandOf is the classes of the ports with certificates on demand, oldest first.
func demandOf(wishes []wish, granted []port) classList {
	var out []string
	for _, w := range wishes {
		if slices.ContainsFunc(granted, func(p port) bool { return p.number == w.number && p.onDemand && w.tls }) {
			out = append(out, string(w.class))
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

func lostPort(w wish, has port) model.Finding {
	want, is := "HTTP", "HTTPS"
	if w.tls {
		want, is = is, want
	}
	return model.ErrorOf(w.origin.Object, "spec.parameters", model.ReasonConflict,
		"port %d is %s for class %s on an edge that both share, and can't be %s too: choose another port or other edges", w.number, is, has.classes.classes()[0], want)
}

func otherCertificates(w wish, has port) model.Finding {
	want, is := "static", "on demand"
	if w.onDemand {
		want, is = is, want
	}
	return model.ErrorOf(w.origin.Object, "spec.parameters", model.ReasonConflict,
		"certificates on port %d are %s for class %s on an edge that both share, and can't be %s too: set spec.tls.certificates alike, or choose another port or other edges", w.number, is, has.classes.classes()[0], want)
}
