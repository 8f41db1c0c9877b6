package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// LeafSpec is what leaves of a class look like: the objects that are written in
// members of roots that controllers there serve.
type LeafSpec struct {
	Class       string       // IngressClass in members; empty: none is named
	Gateways    string       `cbor:",omitempty"` // GatewayClass in members; empty: there are no leaves of Gateways
	Annotations []string     // of roots, that go along, sorted; one that ends in "/" is the beginning of names
	TLS         LeafTLS      `cbor:",omitempty"`
	Members     []LeafMember // that want it otherwise, sorted by name, each once
}

// LeafTLS says which Secrets leaves name; empty: the member's own.
type LeafTLS string

// The values of LeafTLS.
const (
	LeafTLSLocal      LeafTLS = "Local"
	LeafTLSDistribute LeafTLS = "Distribute" // copies of the hub's, where these allow it
)

// LeafMember is what leaves look like in one member.
type LeafMember struct {
	Name        Member
	Class       string  // empty: as in all members, like the next
	Gateways    string  `cbor:",omitempty"`
	TLS         LeafTLS `cbor:",omitempty"` // empty: as in all members
	Annotations Labels  `cbor:",omitempty"` // that leaves have there, whatever the root says
}

// Equal reports whether both say the same.
func (a LeafMember) Equal(b LeafMember) bool {
	return a.Name == b.Name && a.Class == b.Class && a.Gateways == b.Gateways && a.TLS == b.TLS && a.Annotations.Equal(b.Annotations)
}

// Equal reports whether both say the same, or are nil.
func (a *LeafSpec) Equal(b *LeafSpec) bool {
	return a == b || a != nil && b != nil && a.Class == b.Class && a.Gateways == b.Gateways && a.TLS == b.TLS && slices.Equal(a.Annotations, b.Annotations) &&
		slices.EqualFunc(a.Members, b.Members, LeafMember.Equal)
}

// Member is what leaves look like in a member.
func (a *LeafSpec) Member(m Member) LeafMember {
	out := LeafMember{Name: m}
	if i, ok := slices.BinarySearchFunc(a.Members, m, func(x LeafMember, m Member) int { return x.Name.Compare(m) }); ok {
		out = a.Members[i]
	}
	out.Class, out.Gateways = cmp.Or(out.Class, a.Class), cmp.Or(out.Gateways, a.Gateways)
	out.TLS = cmp.Or(out.TLS, a.TLS, LeafTLSLocal)
	return out
}

// Allows reports whether an annotation of a root goes along.
func (a *LeafSpec) Allows(annotation string) bool {
	return slices.ContainsFunc(a.Annotations, func(p string) bool { return Named(p, annotation) })
}

// Named reports whether a label or an annotation has a name, or, if that ends in "/",
// one that begins so.
func Named(pattern, name string) bool {
	return pattern == name || strings.HasSuffix(pattern, "/") && strings.HasPrefix(name, pattern)
}

// Manifest is a root in full, as its leaves are made of it. Only roots of classes
// that members serve have one.
type Manifest struct {
	UID  string
	Body string // JSON of metadata (labels and annotations) and spec, keys sorted

	Published Texts // of a Gateway, the addresses in its status now, sorted
	Adopts    Texts `cbor:",omitzero"`  // members where it takes over an object of its name; "*": in all
	Orphans   bool  `cbor:",omitempty"` // its leaves stay when they are wanted no more

	Rollout string `cbor:",omitempty"` // what its owner wants of an edition of it: "resume=TOKEN" or "back=TOKEN"
}

// Equal reports whether both are the same.
func (a Manifest) Equal(b Manifest) bool { return a == b }

// LeafID names the leaf of a root in a member.
type LeafID struct {
	Member Member
	Root   Object
}

// Compare orders by member and root.
func (a LeafID) Compare(b LeafID) int {
	return cmp.Or(a.Member.Compare(b.Member), a.Root.Compare(b.Root))
}

// String is the root and the member.
func (a LeafID) String() string { return a.Root.String() + " in " + string(a.Member) }

// What became of a leaf, of what package syncer says: owners are told of these.
const (
	LeafRefused      = "Refused"
	LeafForeign      = "Foreign"
	LeafOfAnotherHub = "OfAnotherHub"
	LeafContested    = "Contested"
	LeafNotServed    = "NotServed"
)

// LeafState is what became of a leaf, as its member's syncer says.
type LeafState struct {
	Reason    string   // of package syncer
	Message   string   `cbor:",omitempty"` // more about it, in the member's words
	There     bool     // the member has one of ours, of whatever version
	In        string   `cbor:",omitempty"` // namespace where it is, if the member calls that of the root otherwise
	Addresses Texts    // that its controller names in its status, sorted
	Said      LeafSaid `cbor:",omitempty"` // that its controllers say of it otherwise
	Dropped   Texts    // fields that the member does not have
	Altered   Texts    // fields that the member sets otherwise
	Diff      Texts    // fields that taking over an object of others would change
	Edition   string   `cbor:",omitempty"` // that the member had last, of a root whose edits go in waves
	Behind    bool     `cbor:",omitempty"` // controllers have not looked at it as it is now
	Claimed   Texts    `cbor:",omitzero"`  // objects of others there that ask for its hosts, a LeafClaim each
}

// LeafClaim is an object in a member that is not ours and asks for a host of a leaf.
type LeafClaim struct {
	Host                  string // as the leaf has it, "*.example" for all below
	Kind, Namespace, Name string
}

// Text is the claim as text; none of its parts has a space.
func (a LeafClaim) Text() string {
	return strings.Join([]string{a.Host, a.Kind, a.Namespace + "/" + a.Name}, " ")
}

// LeafClaimOf is the inverse. What can't be read claims nothing.
func LeafClaimOf(text string) LeafClaim {
	parts := append(strings.Split(text, " "), "", "")
	namespace, name, _ := strings.Cut(parts[2], "/")
	return LeafClaim{parts[0], parts[1], namespace, name}
}

// Equal reports whether both say the same.
func (a LeafState) Equal(b LeafState) bool { return a == b }

// LeafAddresses are what a member's controllers may name as their addresses.
type LeafAddresses struct {
	Ranges []netip.Prefix // sorted
	Names  []string       // sorted; "*.example" is all names below
}

// Equal reports whether both are the same.
func (a LeafAddresses) Equal(b LeafAddresses) bool {
	return slices.Equal(a.Ranges, b.Ranges) && slices.Equal(a.Names, b.Names)
}

// Has reports whether an address, or a host name, is one of them.
func (a LeafAddresses) Has(address string) bool {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Zone() == "" && slices.ContainsFunc(a.Ranges, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	}
	return slices.ContainsFunc(a.Names, func(n string) bool {
		below, all := strings.CutPrefix(n, "*")
		return n == address || all && strings.HasSuffix(address, below) && len(address) > len(below)
	})
}
