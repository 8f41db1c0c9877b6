package model

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// GlobalKind is the kind of objects by which consumers learn where a root is served.
const GlobalKind = "GlobalIngress"

// globalPrefix is what names of GlobalIngresses begin with, by the kind of the root.
var globalPrefix = map[string]string{
	"Ingress":      "ingress",
	OpenShiftRoute: "route",
	"HTTPRoute":    "httproute",
	"GRPCRoute":    "grpcroute",
	"TLSRoute":     "tlsroute",
}

// GlobalRootKinds are the kinds of roots that may have one, sorted.
func GlobalRootKinds() []string { return slices.Sorted(maps.Keys(globalPrefix)) }

const (
	longestName = 253
	longMark    = "-long" // follows the prefix of a name that was shortened
	longKept    = 180     // bytes of the root's name in such
)

// GlobalOf is the GlobalIngress of a root; false: its kind has none. No two roots have
// the same: a name is the prefix of the kind, which has no dot, a dot and the name of
// the root. One that is too long so has another prefix and ends with a hash of the
// root's name.
func GlobalOf(root Object) (Object, bool) {
	prefix, ok := globalPrefix[root.Kind]
	if !ok || root.Member != "" {
		return Object{}, false
	}
	name := prefix + "." + root.Name
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(root.Name))
		name = prefix + longMark + "." + strings.TrimRight(root.Name[:longKept], "-.") + "." + hex.EncodeToString(sum[:20])
	}
	return Object{Kind: GlobalKind, Workspace: root.Workspace, Namespace: root.Namespace, Name: name}, true
}

// Global is what a GlobalIngress says.
type Global struct {
	Root    Object
	Created int64 // of the root, Unix seconds
	Hosts   Texts // as users write them, sorted
	Sites   []GlobalSite
	Serving int // sites, with those that were left out

	// What was left out.
	MoreHosts, MoreSites, MoreAddresses int
}

// Equal reports whether both say the same.
func (a Global) Equal(b Global) bool {
	return a.Root == b.Root && a.Created == b.Created && a.Hosts == b.Hosts && slices.Equal(a.Sites, b.Sites) && a.Serving == b.Serving &&
		a.MoreHosts == b.MoreHosts && a.MoreSites == b.MoreSites && a.MoreAddresses == b.MoreAddresses
}

// GlobalSite is a place where clients are served.
type GlobalSite struct {
	Name      string
	Member    bool // it is a member, not an edge
	Region    string
	Zone      string
	Located   bool
	Latitude  float64
	Longitude float64
	Addresses Texts // sorted
	Health    Health
	Serving   bool
	Reason    string
	Drain     bool
	Except    Texts // hosts that it does not serve though it serves others
}

// GlobalSeen is a GlobalIngress as it is on the hub.
type GlobalSeen struct {
	Says    Global
	UID     string // of the object
	RootUID string
	Ours    bool  // it has our mark
	Exact   bool  // it says nothing beyond Says, and belongs to its root
	Leaving int64 // since when it is being deleted, Unix seconds; 0: it is not
	Held    Texts // finalizers
}

// Equal reports whether both are the same.
func (a GlobalSeen) Equal(b GlobalSeen) bool {
	return a.Says.Equal(b.Says) && a.UID == b.UID && a.RootUID == b.RootUID && a.Ours == b.Ours && a.Exact == b.Exact && a.Leaving == b.Leaving && a.Held == b.Held
}

// SiteState is how DNS sees a site for one host: see zone.EdgeState.
type SiteState struct {
	Edge   Edge   // or what stands there for another kind of site
	Member Member // that it is, by leaves; empty: it is an edge
	Named  bool   // clients may be sent there
	Health Health // as far as witnesses say
	Silent bool   // no witness says anything
	Unsure bool   // what is not read yet may make it serve better
	Drain  bool
	Reason string
}

// SitesOf says how the sites stand that have a host in some classes, all of one host;
// was reports which served it last. refused: who asks for it may not have it.
type SitesOf[R any] func(r R, keys []HostKey, was func(SiteState) bool) (sites []SiteState, refused bool)
