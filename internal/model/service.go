package model

import (
	"cmp"
	"slices"
	"strings"
	"unique"
)

// ServiceKind is what kind of Service it is, as far as traffic cares.
type ServiceKind uint8

// The kinds of Services.
const (
	ServiceCluster  ServiceKind = iota // has endpoints: ClusterIP, NodePort, LoadBalancer
	ServiceHeadless                    // has endpoints, their ports are the target ports
	ServiceExternal                    // ExternalName: a DNS name outside
)

// ServiceSpec is a Service of a member.
type ServiceSpec struct {
	Kind     ServiceKind
	External string // DNS name of an ExternalName Service
	Ports    []ServicePort
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Name        string
	Number      int32
	Protocol    string // TCP, UDP, SCTP
	AppProtocol string // empty, or as in the Service, for example kubernetes.io/h2c
}

// Compare orders the ports of a Service by number, protocol and name.
func (a ServicePort) Compare(b ServicePort) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Protocol, b.Protocol), strings.Compare(a.Name, b.Name))
}

// Equal reports whether both are the same.
func (a ServiceSpec) Equal(b ServiceSpec) bool {
	return a.Kind == b.Kind && a.External == b.External && slices.Equal(a.Ports, b.Ports)
}

// EndpointState is what an EndpointSlice says of an endpoint.
type EndpointState uint8

// The states of an endpoint. One that is none of these gets no row.
const (
	EndpointReady    EndpointState = iota // takes requests
	EndpointDraining                      // terminating, still serving
)

// Zone is an interned name of a zone; the zero value is not known.
type Zone struct{ h unique.Handle[string] }

// ZoneOf interns the name.
func ZoneOf(name string) Zone {
	if name == "" {
		return Zone{}
	}
	return Zone{unique.Make(name)}
}

// String is the name.
func (z Zone) String() string {
	if z == (Zone{}) {
		return ""
	}
	return z.h.Value()
}

// MarshalText is the name: a checkpoint can't hold what is interned.
func (z Zone) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// UnmarshalText interns the name.
func (z *Zone) UnmarshalText(name []byte) error {
	*z = ZoneOf(string(name))
	return nil
}

// Slice is an EndpointSlice of a member.
type Slice struct {
	Ports     []SlicePort
	Endpoints Endpoints // sorted by address
}

// SlicePort is a port that all endpoints of a slice have.
type SlicePort struct {
	Name   string // equals the name of the Service's port
	Number uint16
	UDP    bool // else it is of TCP
}

// Equal reports whether both are the same.
func (a Slice) Equal(b Slice) bool {
	return slices.Equal(a.Ports, b.Ports) && a.Endpoints.Equal(b.Endpoints)
}
