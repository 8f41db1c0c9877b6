package model

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// EdgeSpec is what an Edge says.
type EdgeSpec struct {
	Generation int64 // of the Edge, for its status
	Labels     map[string]string
	Place      Place
	Networks   []string // sorted
	Addresses  []netip.Addr
	Hostnames  []string    // public names, where the edge has no fixed addresses
	Pool       []PoolEntry // for classes that have addresses of their own, sorted by address
	Identities []string    // SPIFFE IDs its proxies may have; empty: spiffe://<any trust domain accepted>/edge/<name>
	Drain      bool
	// TrustedHops is how many proxies in front of it, such as a load balancer
	// that speaks HTTP, say in X-Forwarded-For who the client is.
	TrustedHops uint8
}

// Equal reports whether both say the same.
func (a EdgeSpec) Equal(b EdgeSpec) bool {
	return a.Generation == b.Generation && labels.Equals(a.Labels, b.Labels) && a.Place == b.Place && slices.Equal(a.Networks, b.Networks) &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Hostnames, b.Hostnames) && slices.Equal(a.Pool, b.Pool) &&
		slices.Equal(a.Identities, b.Identities) && a.Drain == b.Drain && a.TrustedHops == b.TrustedHops
}

// ClassSpec is an IngressClass whose controller we are.
type ClassSpec struct {
	Origin  Origin
	Default bool
	Config  Config // GatewayClassConfig in spec.parameters; empty: the built-in defaults
}

// Equal reports whether both say the same.
func (a ClassSpec) Equal(b ClassSpec) bool { return a == b }

// ConfigSpec is what a GatewayClassConfig says.
type ConfigSpec struct {
	Generation    int64  // of the GatewayClassConfig, for its status
	Edges         string // label selector in canonical text; empty: every edge
	EdgeNames     []string
	HTTPPort      uint16
	HTTPSPort     uint16
	Own           bool     // it has addresses of its own, of the pools of its edges
	OnDemand      bool     // a proxy fetches a certificate when a client first asks for its name
	Zones         []ZoneID // sorted; empty: every zone that covers a host
	ExternalNames bool     // ExternalName Services may be backends
	Timing        Timing
	Leaf          *LeafSpec `cbor:",omitempty"` // controllers of members serve it, and no edge; nil: edges do
	Global        bool      `cbor:",omitempty"` // its roots have a GlobalIngress
}

// Equal reports whether both say the same.
func (a ConfigSpec) Equal(b ConfigSpec) bool {
	return a.Generation == b.Generation && a.Edges == b.Edges && slices.Equal(a.EdgeNames, b.EdgeNames) && a.HTTPPort == b.HTTPPort &&
		a.HTTPSPort == b.HTTPSPort && a.Own == b.Own && a.OnDemand == b.OnDemand && slices.Equal(a.Zones, b.Zones) && a.ExternalNames == b.ExternalNames && a.Timing == b.Timing && a.Leaf.Equal(b.Leaf) && a.Global == b.Global
}

// Port is the one for HTTPS, or for HTTP; 0: none.
func (a ConfigSpec) Port(tls bool) uint16 {
	if tls {
		return a.HTTPSPort
	}
	return a.HTTPPort
}

// UsualConnect is the ConnectTimeout of who sets none.
const UsualConnect = 500

// Timing is how fast a lost data path is noticed. All in milliseconds.
type Timing struct {
	ConnectTimeout int64 // of a new connection to an endpoint
	PerTryTimeout  int64 // of one attempt of a request that may be retried
	ProbeInterval  int64 // between two checks of a canary endpoint
	ProbeTimeout   int64 // of one check
	ProbeFailures  int32 // checks in a row that fail before a canary counts as failing
	ProbeSuccesses int32 // checks in a row that succeed before a failing canary counts as working
}

// PublicAddresses are what status and DNS call the edge: its IPs, then its names, as text.
func (a EdgeSpec) PublicAddresses() []string {
	out := make([]string, 0, len(a.Addresses)+len(a.Hostnames))
	for _, ip := range a.Addresses {
		out = append(out, ip.String())
	}
	return append(out, a.Hostnames...)
}
