package model

import (
	"cmp"
	"iter"
	"strconv"
	"strings"
)

// Member names a cluster of the fleet: the name of its MemberCluster.
type Member string

// Compare orders members by name.
func (a Member) Compare(b Member) int { return strings.Compare(string(a), string(b)) }

// Edge names a fleet of proxies with one place: the name of its Edge object
// and what its proxies say in node.cluster.
type Edge string

// Compare orders edges by name.
func (a Edge) Compare(b Edge) int { return strings.Compare(string(a), string(b)) }

// Host is a host name in lower case without a port: exact ("shop.example"), a
// wildcard for one label ("*.shop.example", as Ingress has it), a wildcard for any
// number of labels ("**.shop.example", which the Gateway API writes
// "*.shop.example"), or empty, which is every host that nobody else names.
//
// No user can write "**.", so the text alone tells both kinds of wildcards apart
// wherever a host is a key, and a host costs its text and nothing more.
type Host string

// What wildcards begin with.
const (
	oneLabel = "*."
	anyDepth = "**."
)

// Compare orders hosts as text.
func (a Host) Compare(b Host) int { return strings.Compare(string(a), string(b)) }

// Deep reports whether the host is a wildcard for any number of labels.
func (a Host) Deep() bool { return strings.HasPrefix(string(a), anyDepth) }

// Wildcard reports whether the host stands for labels of any name.
func (a Host) Wildcard() bool { return a.Deep() || strings.HasPrefix(string(a), oneLabel) }

// Exact reports whether the host is one name.
func (a Host) Exact() bool { return a != "" && !a.Wildcard() }

// Above is the wildcard that stands for the first label of an exact name; empty:
// there is none.
func (a Host) Above() Host {
	_, parent, ok := strings.Cut(string(a), ".")
	if !ok || !a.Exact() {
		return ""
	}
	return Host(oneLabel + parent)
}

// Wider are the hosts that stand for all names that this one stands for, the
// closest first. It is the one order in which a request's host is looked for: the
// exact name; then by the longest suffix, where of one suffix the wildcard for one
// label goes before that for any number; then the host of all others. (Gateway API,
// HTTPRouteSpec.hostnames: the longest match goes first.)
func (a Host) Wider() iter.Seq[Host] {
	return func(yield func(Host) bool) {
		if a == "" || a.Above() != "" && !yield(a.Above()) {
			return
		}
		base := a.Base()
		if a.Exact() || a.Deep() {
			_, base, _ = strings.Cut(base, ".")
		}
		for ; base != ""; _, base, _ = strings.Cut(base, ".") {
			if !yield(Host(anyDepth + base)) {
				return
			}
		}
		yield("")
	}
}

// Base is what a wildcard stands for names below, and an exact name itself.
func (a Host) Base() string {
	return strings.TrimPrefix(strings.TrimPrefix(string(a), anyDepth), oneLabel)
}

// Written is how users write the host: a wildcard begins with "*.", whatever its
// kind.
func (a Host) Written() string {
	if a.Deep() {
		return string(a)[len(anyDepth)-len(oneLabel):] // which ends as the other begins
	}
	return string(a)
}

// TLSName is the host as a TLS name. Certificates know one kind of wildcard, and
// so does Envoy where it chooses one by the name that a client asks for.
func (a Host) TLSName() Host { return Host(a.Written()) }

// Described names a host in a message.
func (a Host) Described() string {
	if a == "" {
		return "every other host"
	}
	return "host " + a.Written()
}

// Object names an object on the hub, or on a member if Member is not empty.
type Object struct {
	Member    Member
	Workspace string // a kcp logical cluster; empty on a hub without workspaces
	Kind      string
	Namespace string
	Name      string
}

// Compare orders objects by member, workspace, namespace, name and kind.
func (a Object) Compare(b Object) int {
	return cmp.Or(
		a.Member.Compare(b.Member),
		strings.Compare(a.Workspace, b.Workspace),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.Kind, b.Kind),
	)
}

// String is "Ingress shop/web", with the member or workspace in front if there is one.
func (a Object) String() string {
	name := a.Name
	if a.Namespace != "" {
		name = a.Namespace + "/" + name
	}
	if a.Workspace != "" {
		name = a.Workspace + ":" + name
	}
	if a.Member != "" {
		name = string(a.Member) + " " + name
	}
	return a.Kind + " " + name
}

// Origin is the age and the name of an object. Wherever two objects want the
// same thing, the one whose Origin compares lower has it.
type Origin struct {
	Created int64 // creationTimestamp on the hub, in Unix seconds
	Object  Object
}

// Compare orders by (creation, workspace, namespace, name, kind).
func (a Origin) Compare(b Origin) int {
	if a.Created != b.Created {
		return cmp.Compare(a.Created, b.Created)
	}
	return a.Object.Compare(b.Object)
}

// PortRef names a port of a Service: by name, or by number if Name is empty.
type PortRef struct {
	Name   string
	Number int32
	For    Traffic
	Pass   bool   // it is sent what clients encrypted for it: no policy is for that
	Pods   bool   `cbor:",omitempty"` // the number is that of pods; 0: of the only port that the Service has
	Route  string `cbor:",omitempty"` // Route of the Service's namespace that says how it is spoken to over TLS; empty: none
}

// Compare orders ports by number, name and what they are for.
func (a PortRef) Compare(b PortRef) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name), cmp.Compare(a.For, b.For), boolCompare(a.Pass, b.Pass),
		boolCompare(a.Pods, b.Pods), strings.Compare(a.Route, b.Route))
}

// UDP reports whether it is a port of UDP, and not of TCP.
func (a PortRef) UDP() bool { return a.For == Datagrams }

// Written is the name, or the number of a port without a name; empty: none is named.
func (a PortRef) Written() string {
	switch {
	case a.Name != "":
		return a.Name
	case a.Pods && a.Number == 0:
		return ""
	}
	return strconv.Itoa(int(a.Number))
}

// String is the port as it is written, and before it what it is for: nothing for
// requests, "tcp:", "tls:" or "udp:" for the rest; then by which Route it is spoken to,
// and whether it is one of pods. No name of a port has a ":".
func (a PortRef) String() string {
	out := ""
	switch {
	case a.Pass:
		out = "tls:"
	case a.For == Connections:
		out = "tcp:"
	case a.For == Datagrams:
		out = "udp:"
	}
	if a.Route != "" {
		out += "route:" + a.Route + ":"
	}
	if a.Pods {
		out += "pods:"
	}
	return out + a.Written()
}

// SecretID names a Secret on the hub.
type SecretID struct{ Workspace, Namespace, Name string }

// Compare orders secrets by workspace, namespace and name.
func (a SecretID) Compare(b SecretID) int {
	return cmp.Or(strings.Compare(a.Workspace, b.Workspace), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is "shop/cert".
func (a SecretID) String() string {
	s := a.Namespace + "/" + a.Name
	if a.Workspace != "" {
		s = a.Workspace + ":" + s
	}
	return s
}

// Inline is the name of the Route that has the certificate in itself.
func (a SecretID) Inline() (route string, ok bool) { return strings.CutPrefix(a.Name, inline) }

// Described is "Secret shop/cert", or "Route shop/web" that has the certificate in itself.
func (a SecretID) Described() string {
	if route, ok := a.Inline(); ok {
		a.Name = route
		return OpenShiftRoute + " " + a.String()
	}
	return "Secret " + a.String()
}

// ZoneID names a DNSZone.
type ZoneID struct{ Workspace, Namespace, Name string }

// Compare orders zones by workspace, namespace and name.
func (a ZoneID) Compare(b ZoneID) int {
	return cmp.Or(strings.Compare(a.Workspace, b.Workspace), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is "spillway-system/example".
func (a ZoneID) String() string { return SecretID(a).String() }

// MemberService is a Service as one member has it.
type MemberService struct {
	Service Service
	Member  Member
}

// Compare orders by service first, so that what a service has in all members is together.
func (a MemberService) Compare(b MemberService) int {
	return cmp.Or(a.Service.Compare(b.Service), a.Member.Compare(b.Member))
}

// String is "shop/web@eu-1".
func (a MemberService) String() string { return a.Service.String() + "@" + string(a.Member) }

// SliceID names an EndpointSlice of a member.
type SliceID struct {
	MemberService
	Name string
}

// Compare orders slices by service, member and name.
func (a SliceID) Compare(b SliceID) int {
	return cmp.Or(a.MemberService.Compare(b.MemberService), strings.Compare(a.Name, b.Name))
}

// String is "shop/web@eu-1/web-x7k2p".
func (a SliceID) String() string { return a.MemberService.String() + "/" + a.Name }
