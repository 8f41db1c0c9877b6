package envoy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// port is a port that the proxies of a front listen on, of one family.
type port struct {
	fleet.Port
	ipv6 bool  // of [::], not of 0.0.0.0
	hops uint8 // in front of it that are trusted
}

// name is the listener's: stable, whatever the classes are. A listener has one
// address for ever: Envoy opens new sockets for one whose addresses change, and
// resets what waits in the old ones.
func (p port) name() string {
	switch {
	case p.Bind.IsValid():
		return p.service() + "@" + p.Bind.String()
	case p.ipv6:
		return p.service() + ipv6Suffix
	}
	return p.service()
}

// address is what it listens on.
func (p port) address() string {
	switch {
	case p.Bind.IsValid():
		return p.Bind.String()
	case p.ipv6:
		return "::"
	}
	return "0.0.0.0"
}

const ipv6Suffix = "-ipv6"

// boundTo is the address in a listener's name, if it is for one class alone.
func boundTo(name string) netip.Addr {
	_, address, _ := strings.Cut(name, "@")
	ip, _ := netip.ParseAddr(address)
	return ip
}

// service is what clients get there, by whatever address; stats are named so.
func (p port) service() string {
	kind := [...]string{model.Requests: "http", model.Connections: "tcp", model.Datagrams: "udp"}[p.Traffic]
	if p.TLS {
		kind = "https"
	}
	return fmt.Sprintf("%s-%d", kind, p.Number)
}

// portOf is the listener of a collection.
func listenerPort(c model.Collection) port {
	k := c.Key()
	return port{fleet.Port{Socket: k.Socket, Static: fleet.ClassList(k.Classes), Table: k.Table}, k.IPv6, k.TrustedHops}
}
