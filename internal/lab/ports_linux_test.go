package lab

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// Servers of a lab start at the same time, and listen seconds after they got a port.
func TestEachPortIsGivenOnce(t *testing.T) {
	var (
		p     ports
		given = map[int]bool{}
	)
	for range 1_000 {
		port, err := p.free(func(netip.AddrPort) (net.Listener, error) { return idle{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Fatalf("port %d is given a second time, after %d others", port, len(given))
		}
		given[port] = true
	}
}

func TestNoFreePort(t *testing.T) {
	var p ports
	why := errors.New("in use")
	if port, err := p.free(func(netip.AddrPort) (net.Listener, error) { return nil, why }); !errors.Is(err, why) {
		t.Fatalf("port %d, error %v", port, err)
	}
}

// idle listens nowhere.
type idle struct{ net.Listener }

func (idle) Close() error { return nil }
