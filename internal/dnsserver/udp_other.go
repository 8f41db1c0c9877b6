//go:build !linux

package dnsserver

import (
	"net"
	"net/netip"
)

// Only on Linux do we choose the source address on a wildcard socket; here the
// system does. Servers with several addresses should list them.
const controlSize = 0

func sourceControl([]byte) []byte { return nil }

// cores is one socket: sharing a port means something else on each system.
func cores() int { return 1 }

// listenUDP opens a socket.
func listenUDP(a netip.AddrPort, _ bool) (*net.UDPConn, error) {
	return net.ListenUDP(network("udp", a), net.UDPAddrFromAddrPort(a))
}

func (s *Server) serveSocket(conn *net.UDPConn) error { return s.servePackets(conn) }
