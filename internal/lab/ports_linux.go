package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// ports are those of a lab on the host's loopback. Each is given once: who got one may
// take seconds to listen there, and until then it is free to look at. There are three a member, and two of the hub.
type ports struct {
	mu    sync.Mutex
	given map[int]bool
}

// free finds a port that nobody listens at now. It is below those that a kernel gives
// to outgoing connections, so none of them takes it while what listens there starts,
// or is away for a while; and not among those that tests reserve (envoytest.FreePort).
func (p *ports) free(listen func(netip.AddrPort) (net.Listener, error)) (int, error) {
	const first, ports, tries = 20_000, 6_000, 100
	var err error
	for range tries {
		port := first + rand.IntN(ports)
		if !p.take(port) {
			continue
		}
		var l net.Listener
		if l, err = listen(netip.AddrPortFrom(localhost, uint16(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port in %d tries: %w", tries, err)
}

// take reports whether a port was not given before.
func (p *ports) take(port int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given[port] {
		return false
	}
	if p.given == nil {
		p.given = map[int]bool{}
	}
	p.given[port] = true
	return true
}
