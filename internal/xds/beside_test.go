package xds

import "net/netip"

// The services beside ADS and the face of gRPC clients import this package: the
// external tests put them here for the others.
var (
	// NewHealth makes a health service that asks for one canary where of gives
	// one, and tells heard what is said of it. Call again when of may say
	// something else.
	NewHealth func(of func(edge string) (netip.AddrPort, bool), heard func(up bool)) (s Service, again func())
	Load      Service
	// NewWorld is the face of a gRPC client.
	NewWorld func(Limits) Face
)

// faceOf is the face of a client of a class.
func faceOf(c Class, l Limits) Face {
	if c == GRPC {
		return NewWorld(l)
	}
	return NewSession(l)
}

// asked is a canary for every edge.
func asked(string) (netip.AddrPort, bool) { return netip.MustParseAddrPort("10.1.0.1:80"), true }
