package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// ports are those of a lab on the host's loopback, three a member and two of the hub. Each
// is given once: who got one may take seconds to listen there, and until then it looks free.
type ports struct{ given sync.Map }

// free finds a port that nobody listens at now. It is below those that a kernel gives
// to outgoing connections, so none of them takes it while what listens there starts,
// or is away for a while; and not among those that tests reserve (envoytest.FreePort).
func (p *ports) free(listen func(netip.AddrPort) (net.Listener, error)) (int, error) {
	const first, ports, tries = 20_000, 6_000, 100
	var err error
	for range tries {
		port := first + rand.IntN(ports)
		if _, before := p.given.LoadOrStore(port, true); before {
			continue
		}
		var l net.Listener
		if l, err = listen(netip.AddrPortFrom(localhost, uint16(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port in %d tries: %w", tries, err)
}
