package ui

import (
	"strings"
	"time"
)

// What the lists hold. These types are the contract of the admin API: names are
// in lower camel case, times are RFC 3339, a list without elements is [], and a
// field that is left out says that there is nothing to say.

// Object names an object on the hub, or on a member.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Workspace string `json:"workspace,omitempty"` // on a hub that has workspaces
	Member    string `json:"member,omitempty"`    // empty: it is on the hub
}

// String is "Ingress shop/web", with the member or workspace in front if there is one.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	if o.Workspace != "" {
		name = o.Workspace + ":" + name
	}
	if o.Member != "" {
		name = o.Member + " " + name
	}
	return o.Kind + " " + name
}

// Place is where something is.
type Place struct {
	Region    string   `json:"region,omitempty"`
	Zone      string   `json:"zone,omitempty"`
	SubZone   string   `json:"subZone,omitempty"`
	Provider  string   `json:"provider,omitempty"`
	Latitude  *float64 `json:"latitude,omitempty"` // degrees
	Longitude *float64 `json:"longitude,omitempty"`
}

// String is "eu/eu-a", with the sub-zone if there is one.
func (p Place) String() string {
	return strings.TrimRight(strings.Join([]string{p.Region, p.Zone, p.SubZone}, "/"), "/")
}

// Condition is one of the object's status, as serve wants it to be.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Finding is what is wrong with an object.
type Finding struct {
	Severity string `json:"severity"` // Error: a part of the object is not done. Warning: look at it
	Object   string `json:"object"`   // as people write it
	Ref      Object `json:"ref"`      // the same, in parts
	Field    string `json:"field,omitempty"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// Member is a cluster of the fleet.
type Member struct {
	Name             string      `json:"name"`
	Created          time.Time   `json:"created"`
	Place            Place       `json:"place"`
	Networks         []string    `json:"networks"`
	PodRanges        []string    `json:"podRanges,omitempty"` // its endpoints may be there only
	Taints           []string    `json:"taints"`
	Drain            bool        `json:"drain"`
	Leaving          bool        `json:"leaving"` // it is being deleted
	Read             bool        `json:"read"`    // its objects were read: the counts are true
	Services         int         `json:"services"`
	Endpoints        int         `json:"endpoints"`
	StaleSince       *time.Time  `json:"staleSince,omitempty"` // since when what is known of it may be old
	CredentialExpiry *time.Time  `json:"credentialExpiry,omitempty"`
	Paths            []Path      `json:"paths"` // places that reported about it
	Conditions       []Condition `json:"conditions"`
}

// Path is the way from a place with edges to a member.
type Path struct {
	From    Place  `json:"from"`
	Health  string `json:"health"`  // True or False
	Proxies int    `json:"proxies"` // that reported
}

// Edge is a place with proxies.
type Edge struct {
	Name       string      `json:"name"`
	Place      Place       `json:"place"`
	Networks   []string    `json:"networks"`
	Addresses  []string    `json:"addresses"` // IPs and host names
	Drain      bool        `json:"drain"`
	Fronts     []string    `json:"fronts"`  // that ask for it
	Ports      []Port      `json:"ports"`   // that are shared; a front with addresses of its own has its own
	Proxies    int         `json:"proxies"` // with a stream
	Synced     int         `json:"synced"`  // of these, with all that they need to serve
	Conditions []Condition `json:"conditions"`
}

// Port is what proxies of an edge listen on, and for whom.
type Port struct {
	Number uint16   `json:"number"`
	TLS    bool     `json:"tls"`
	Relay  string   `json:"relay,omitempty"` // TCP or UDP, where what comes is handed on as it is
	Fronts []string `json:"fronts"`
}

// Front is what clients connect to: an IngressClass, for now.
type Front struct {
	Name         string      `json:"name"`
	Object       Object      `json:"object"` // that asks for it
	Created      time.Time   `json:"created"`
	Default      bool        `json:"default"`          // for objects that name none
	Config       string      `json:"config,omitempty"` // its GatewayClassConfig; empty: the built-in defaults
	HTTPPort     uint16      `json:"httpPort,omitempty"`
	HTTPSPort    uint16      `json:"httpsPort,omitempty"`
	OnDemand     bool        `json:"onDemand"`     // proxies fetch a certificate when a client asks for its name
	OwnAddresses bool        `json:"ownAddresses"` // it shares no address with others
	Edges        []FrontEdge `json:"edges"`
}

// FrontEdge is a front at an edge.
type FrontEdge struct {
	Name      string   `json:"name"`
	Served    bool     `json:"served"`              // false: others have its ports or addresses
	Addresses []string `json:"addresses,omitempty"` // that it has for itself
}

// Host is a host name of a front, and what becomes of requests to it.
type Host struct {
	Host    string   `json:"host"` // empty: every host that no other names
	Front   string   `json:"front"`
	Objects []Object `json:"objects"` // that won a part of it, oldest first
	Edges   []string `json:"edges"`   // whose proxies acknowledged it
	Routes  []Route  `json:"routes"`  // in order of precedence, what nothing matches last

	Members []HostMember `json:"members,omitempty"` // of a front that members' controllers serve: those with a leaf for it
}

// HostMember is a member that has, or should have, a leaf for a host.
type HostMember struct {
	Name      string   `json:"name"`
	Leaf      Object   `json:"leaf"`      // the object on the hub that it is of
	Addresses []string `json:"addresses"` // that its status names and that count
	Answered  bool     `json:"answered"`  // DNS answers with them
	Why       string   `json:"why"`       // or why not
}

// Route says what becomes of requests.
type Route struct {
	PathType string   `json:"pathType"` // Exact, Prefix, Regex; Default: what no other route of the host matches
	Path     string   `json:"path,omitempty"`
	When     string   `json:"when,omitempty"` // conditions on the rest of the request
	Object   Object   `json:"object"`
	Rule     string   `json:"rule,omitempty"` // its name
	Backends []Target `json:"backends"`
	Answer   string   `json:"answer,omitempty"` // the proxy's own, for example "redirect 308"
}

// Target is a backend of a route.
type Target struct {
	Backend string `json:"backend"` // NAMESPACE/SERVICE/PORT
	Weight  uint32 `json:"weight"`
}

// Plan is who gets the requests for a backend that come in at a vantage.
type Plan struct {
	Backend  string   `json:"backend"` // NAMESPACE/SERVICE/PORT
	From     Place    `json:"from"`
	Networks []string `json:"networks"`
	Room     string   `json:"room"`   // best: all is well; none: nobody serves; else what is wrong with the best there is
	Unsure   bool     `json:"unsure"` // a member that was not read may change it
	Shares   []Share  `json:"shares"` // those that serve first
}

// Share is the part of a plan that a zone of a member has.
type Share struct {
	Member      string `json:"member"`
	Place       Place  `json:"place"`
	Tier        int    `json:"tier"`   // by distance; a later one gets what those before can't take
	Weight      uint32 `json:"weight"` // relative to others of the tier
	State       string `json:"state"`  // Serving, Failed or Drained
	Terminating bool   `json:"terminating,omitempty"`
}

// Key is a copy of a Secret in a member. What it holds is shown nowhere.
type Key struct {
	Member    string `json:"member"`
	Secret    Object `json:"secret"`    // on the hub
	Namespace string `json:"namespace"` // in the member
	Name      string `json:"name"`
	Wanted    bool   `json:"wanted"` // a leaf needs it
	There     bool   `json:"there"`  // the member has it, as far as is known
	State     string `json:"state"`  // Pending, Held, Refused or Failing
	Detail    string `json:"detail,omitempty"`
}

// Table is a table of the program.
type Table struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"` // input or derived
	Rows        int    `json:"rows"`
	Evaluations uint64 `json:"evaluations"`
}

// Row is a row of a table, as text.
type Row struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Read is a row that another row was computed from.
type Read struct {
	Table string `json:"table"`
	Key   string `json:"key"`
}
