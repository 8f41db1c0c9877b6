package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GatewayKind is the kind of Gateways.
const GatewayKind = "Gateway"

// GatewayID names a Gateway.
type GatewayID struct{ Workspace, Namespace, Name string }

// Compare orders Gateways by workspace, namespace and name.
func (a GatewayID) Compare(b GatewayID) int {
	return cmp.Or(strings.Compare(a.Workspace, b.Workspace), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is "shop/web".
func (a GatewayID) String() string { return SecretID(a).String() }

// Object is the Gateway.
func (a GatewayID) Object() Object {
	return Object{Workspace: a.Workspace, Kind: GatewayKind, Namespace: a.Namespace, Name: a.Name}
}

// Front is what a port of the Gateway is among classes: "shop/web/80", or
// "shop/web/udp-53". No name of an IngressClass has a "/".
func (a GatewayID) Front(p Protocol, port uint16) Class {
	kind := ""
	if p == UDP {
		kind = udpMark
	}
	return Class(Scoped(Workspace(a.Workspace), a.Namespace+"/"+a.Name+"/"+kind+strconv.Itoa(int(port))))
}

// udpMark is before the number of a port of UDP, which is none of TCP.
const udpMark = "udp-"

// Gateway is the Gateway of whose port a class is the front, if it is one.
func (a Class) Gateway() (GatewayID, bool) {
	w, name := Unscoped(string(a))
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return GatewayID{}, false
	}
	return GatewayID{Workspace: string(w), Namespace: parts[0], Name: parts[1]}, true
}

// Port is the port of a front of a Gateway; 0 for another class.
func (a Class) Port() uint16 {
	if _, ok := a.Gateway(); !ok {
		return 0
	}
	port, _ := strconv.ParseUint(strings.TrimPrefix(a.portText(), udpMark), 10, 16)
	return uint16(port)
}

// portText is how a front of a Gateway ends: "80" or "udp-53".
func (a Class) portText() string { return string(a)[strings.LastIndexByte(string(a), '/')+1:] }

// Described names a class in a message: "class spillway", "port 80 of Gateway
// shop/web", "UDP port 53 of Gateway shop/web", or its tenant "Gateway shop/web".
func (a Class) Described() string {
	switch id, ok := a.Gateway(); {
	case ok:
		port, udp := strings.CutPrefix(a.portText(), udpMark)
		return map[bool]string{true: "UDP "}[udp] + "port " + port + " of Gateway " + id.String()
	case a.OfGateway():
		return "Gateway " + string(a)
	}
	return "class " + string(a)
}

// Tenant is who has addresses for itself where a class does: all ports of a Gateway
// are at one address. Of an IngressClass it is the class.
func (a Class) Tenant() Class {
	if id, ok := a.Gateway(); ok {
		return Class(id.String())
	}
	return a
}

// OfGateway reports whether it is the front of a port of a Gateway.
func (a Class) OfGateway() bool { return strings.Contains(string(a), "/") }

// GatewayClass names a GatewayClass, as Scoped does.
type GatewayClass string

// Compare orders classes by name.
func (a GatewayClass) Compare(b GatewayClass) int { return strings.Compare(string(a), string(b)) }

// Object is the GatewayClass.
func (a GatewayClass) Object() Object { return unscoped("GatewayClass", string(a)) }

// GatewayClassSpec is a GatewayClass whose controller we are.
type GatewayClassSpec struct {
	Generation int64
	Config     Config // GatewayClassConfig in spec.parametersRef; empty: the built-in defaults
}

// Equal reports whether both say the same.
func (a GatewayClassSpec) Equal(b GatewayClassSpec) bool { return a == b }

// GatewaySpec is what a Gateway says. Whose it is follows from its class.
type GatewaySpec struct {
	Created     int64 // Unix seconds
	Generation  int64
	Class       GatewayClass
	Listeners   []Listener       // in the order of the object
	Client      SecretID         // certificate that is shown to backends over TLS; zero: none
	Addresses   []AddressRequest // of the pools of edges; none: it does not care
	Validations []Validation     // of the certificates of clients, one of a port
	Sets        *Attachable      // which ListenerSets may attach; nil: none
	Refused     Refusal          // why nothing of it is served whatever else there is
	Broken      Refusal          // why references of it, but for those of listeners, are not resolved whatever else there is
}

// Equal reports whether both say the same.
func (a GatewaySpec) Equal(b GatewaySpec) bool {
	return a.Created == b.Created && a.Generation == b.Generation && a.Class == b.Class && slices.EqualFunc(a.Listeners, b.Listeners, Listener.Equal) &&
		a.Client == b.Client && slices.EqualFunc(a.Validations, b.Validations, Validation.Equal) && slices.Equal(a.Addresses, b.Addresses) && EqualPtr(a.Sets, b.Sets) && a.Refused == b.Refused && a.Broken == b.Broken
}

// Secrets are those that it names, as often as it does.
func (a GatewaySpec) Secrets() []SecretID {
	out := ListenerSecrets(a.Listeners)
	if a.Client != (SecretID{}) {
		out = append(out, a.Client)
	}
	return out
}

// ListenerSecrets are those that listeners name, as often as they do.
func ListenerSecrets(all []Listener) (out []SecretID) {
	for _, l := range all {
		out = append(out, l.Secrets...)
	}
	return out
}

// Origin is the age and the name of the Gateway.
func (a GatewaySpec) Origin(id GatewayID) Origin {
	return Origin{Created: a.Created, Object: id.Object()}
}

// Protocol is what clients speak on a port of a Gateway.
type Protocol uint8

// The protocols that are served. Checkpoints have the numbers.
const (
	NoProtocol Protocol = iota // one that is not
	HTTP
	HTTPS
	TLSProtocol // with whatever inside
	TCP
	UDP
)

var protocols = [...]string{NoProtocol: "none", HTTP: "HTTP", HTTPS: "HTTPS", TLSProtocol: "TLS", TCP: "TCP", UDP: "UDP"}

// String is the protocol as listeners name it.
func (a Protocol) String() string { return protocols[a] }

// Traffic is what a listener of the protocol is given.
func (a Protocol) Traffic() Traffic {
	return [...]Traffic{TLSProtocol: Connections, TCP: Connections, UDP: Datagrams}[a]
}

// Together reports whether listeners of both may have one port, by their hosts.
func (a Protocol) Together(b Protocol) bool { return a == b || a.byName() && b.byName() }

// byName reports whether listeners of it are chosen by the TLS name that a client asks
// for.
func (a Protocol) byName() bool { return a == HTTPS || a == TLSProtocol }

// Traffic is what comes to a listener, or to a host: it decides what is done with it.
type Traffic uint8

// The kinds of traffic.
const (
	Requests    Traffic = iota // of HTTP: each goes by its host, path and headers
	Connections                // of TCP: each goes by the TLS name that a client asks for, if by anything
	Datagrams                  // of UDP: those of one client's address and port go together
)

// Listener is one of a Gateway, or of a ListenerSet.
type Listener struct {
	Name     string
	Port     uint16
	Protocol Protocol
	Host     Host // a name, a wildcard for any number of labels, or empty: all
	Secrets  []SecretID
	Pass     bool // TLS ends at the backend (mode Passthrough)
	Routes   Attachable
	Refused  Refusal // why it is not accepted whatever else there is
	Broken   Refusal // why references of it are not resolved
	Field    Field
}

// Equal reports whether both say the same.
func (a Listener) Equal(b Listener) bool {
	return a.Name == b.Name && a.Port == b.Port && a.Protocol == b.Protocol && a.Host == b.Host && slices.Equal(a.Secrets, b.Secrets) && a.Pass == b.Pass &&
		a.Routes == b.Routes && a.Refused == b.Refused && a.Broken == b.Broken && a.Field == b.Field
}

// Terminates reports whether TLS ends at the listener.
func (a Listener) Terminates() bool { return a.Protocol.byName() && !a.Pass }

// Refusal is why something is not as an object wants it, as conditions say it; the
// zero value: it is.
type Refusal struct{ Reason, Message string }

// Attachable says which routes may attach to a listener, or which ListenerSets to a
// Gateway.
type Attachable struct {
	From     Namespaces
	Selector string // of namespaces, if From is Selected; canonical text
	Kinds    Texts  // of routes, sorted
}

// String is what it says, not where it is.
func (a *Attachable) String() string {
	if a == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%+v", *a)
}

// Namespaces says from which namespaces something may attach.
type Namespaces uint8

// Checkpoints have the numbers.
const (
	SameNamespace Namespaces = iota
	AllNamespaces
	SelectedNamespaces
	NoNamespace
)

// RouteSpec is what a route of the Gateway API says of its parents.
type RouteSpec struct {
	Generation int64
	Parents    []Parent // as written, in the order of the object
	Broken     Refusal  // why references of it are not resolved whatever else there is
	Refused    Refusal  // why it is not accepted whatever else there is
}

// Equal reports whether both say the same.
func (a *RouteSpec) Equal(b *RouteSpec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Generation == b.Generation && slices.Equal(a.Parents, b.Parents) && a.Broken == b.Broken && a.Refused == b.Refused
}

// String is what it says, not where it is.
func (a *RouteSpec) String() string {
	if a == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%+v", *a)
}

// Parent is a reference of a route to what it attaches to.
type Parent struct {
	Group, Kind string
	Namespace   string // empty: that of the route
	Name        string
	Section     string // name of a listener; empty: all
	Port        uint16 // of listeners; 0: all
}

// Object is what it refers to from a namespace, if that may have listeners.
func (a Parent) Object(workspace, namespace string) (Object, bool) {
	o := Object{Workspace: workspace, Kind: a.Kind, Namespace: cmp.Or(a.Namespace, namespace), Name: a.Name}
	return o, a.Group == GatewayGroup && (a.Kind == GatewayKind || a.Kind == ListenerSetKind)
}

// GatewayGroup is the API group of the Gateway API.
const GatewayGroup = "gateway.networking.k8s.io"

// NamespaceID names a namespace of the hub.
type NamespaceID struct{ Workspace, Name string }

// Compare orders namespaces by workspace and name.
func (a NamespaceID) Compare(b NamespaceID) int {
	return cmp.Or(strings.Compare(a.Workspace, b.Workspace), strings.Compare(a.Name, b.Name))
}

// String is "shop".
func (a NamespaceID) String() string { return Scoped(Workspace(a.Workspace), a.Name) }

// Labels are those of an object.
type Labels map[string]string

// Equal reports whether both are the same.
func (a Labels) Equal(b Labels) bool { return maps.Equal(a, b) }

// Grant is a ReferenceGrant: objects of some kinds and namespaces may refer to some
// of its own.
type Grant struct {
	From []GrantFrom
	To   []GrantTo
}

// GrantFrom is who may.
type GrantFrom struct{ Group, Kind, Namespace string }

// GrantTo is to what; an empty name: to all.
type GrantTo struct{ Group, Kind, Name string }

// Equal reports whether both grant the same.
func (a Grant) Equal(b Grant) bool { return slices.Equal(a.From, b.From) && slices.Equal(a.To, b.To) }

// Allows reports whether it grants a reference.
func (a Grant) Allows(from GrantFrom, to GrantTo) bool {
	return slices.Contains(a.From, from) && slices.ContainsFunc(a.To, func(t GrantTo) bool {
		return t.Group == to.Group && t.Kind == to.Kind && (t.Name == "" || t.Name == to.Name)
	})
}

// Meet is the host of all names that both stand for; false: there is none.
func (a Host) Meet(b Host) (Host, bool) {
	switch {
	case a == b || a.Within(b):
		return a, true
	case b.Within(a):
		return b, true
	}
	return "", false
}

// Within reports whether a wider host stands for all names of this one.
func (a Host) Within(b Host) bool {
	for h := range a.Wider() {
		if h == b {
			return true
		}
	}
	return false
}
