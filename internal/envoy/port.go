package envoy

import (
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
)

// port is a port that the proxies of a front listen on, of one family.
type port struct {
	fleet.Port
	ipv6 bool // of [::], not of 0.0.0.0
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
	if p.TLS {
		return fmt.Sprintf("https-%d", p.Number)
	}
	return fmt.Sprintf("http-%d", p.Number)
}

// tlsLists returns the class lists of the ports that have a chain for each
// certificate, each once.
func tlsLists(a fleet.Ports) []fleet.ClassList {
	var out []fleet.ClassList
	for _, p := range a.List {
		if p.TLS && !p.OnDemand {
			out = append(out, p.Classes)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lists is what hosts need to know of the ports of a front.
type lists struct {
	tables []fleet.Table
	demand fleet.ClassList   // as in fleet.Ports
	shared []fleet.ClassList // of several classes, that have a chain for each certificate
}

func (a lists) Equal(b lists) bool {
	return slices.Equal(a.tables, b.tables) && a.demand == b.demand && slices.Equal(a.shared, b.shared)
}

func listsOf(a fleet.Ports) lists {
	shared := slices.DeleteFunc(tlsLists(a), func(list fleet.ClassList) bool { return !list.Shared() })
	return lists{a.Tables(), a.Demand, shared}
}

// sockets is the ports of a front by the families that its proxies listen on.
type sockets struct{ list []port } // sorted by number, of IPv4 first

func (a sockets) Equal(b sockets) bool { return slices.Equal(a.list, b.list) }

// socketsOf are those of IPv4, and with ipv6 each of IPv6, too.
func socketsOf(ports fleet.Ports, ipv6 bool) sockets {
	var out sockets
	for _, p := range ports.List {
		out.list = append(out.list, port{p, false})
		if ipv6 {
			out.list = append(out.list, port{p, true})
		}
	}
	return out
}
