package fleet

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
)

// Guarded is a server that edges never call, whoever names it: its host as it
// is configured, an IP address or a name in lower case, and its port. Other
// ports of that host are like any other's, for they may be published on purpose.
type Guarded struct {
	Host string
	Port uint16
}

// Compare orders by host and port.
func (a Guarded) Compare(b Guarded) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
}

// String is host:port.
func (a Guarded) String() string {
	host := a.Host
	if strings.Contains(host, ":") { // IPv6, as RFC 3986 writes it
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(a.Port))
}

// Guard says what is guarded, and where it is.
type Guard struct {
	What      string
	Addresses []netip.Addr // the host, or what its name led to when it was last looked up; sorted
}

// Equal reports whether both are the same.
func (a Guard) Equal(b Guard) bool {
	return a.What == b.What && slices.Equal(a.Addresses, b.Addresses)
}

// declareGuards adds where is what no endpoint may be, before the groups.
func (d *program) declareGuards() {
	d.guardsNear = inc.IndexBy(d.In.Guarded, func(_ Guarded, g Guard) []block {
		out := make([]block, len(g.Addresses))
		for i, ip := range g.Addresses {
			out[i] = blockOf(ip)
		}
		return out
	})
}
