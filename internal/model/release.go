package model

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Release is which release of the Gateway API the hub has, as the definition of its
// GatewayClasses says. Both are any text.
type Release struct {
	Version string // such as "v1.7.0"; empty: it does not say
	Channel string // standard or experimental; empty: it does not say
}

// Equal reports whether both are the same.
func (a Release) Equal(b Release) bool { return a == b }

// GatewayDefinition is the object whose annotations are a Release.
func GatewayDefinition(workspace string) Object {
	return Object{Workspace: workspace, Kind: "CustomResourceDefinition", Name: "gatewayclasses." + GatewayGroup}
}

// Releases that are supported are those of v1 between these minor versions: the oldest
// and the newest that the conformance suites are run with (test/conformance). The newest
// is that of the types we are built with.
const oldestMinor, newestMinor = 6, 7

// Supported reports whether a release is one that we are tested with, or differs from
// one by its patch. The channel does not matter: the experimental one has all that the
// standard one has. What came before a release need not be like it.
func (a Release) Supported() bool {
	v, err := version.ParseSemantic(a.Version)
	return err == nil && v.Major() == 1 && v.Minor() >= oldestMinor && v.Minor() <= newestMinor && v.PreRelease() == ""
}

// Scopes reports whether the status of its Gateways says from where addresses are
// reachable (GEP-5093: the experimental channel of v1.7).
func (a Release) Scopes() bool {
	v, err := version.ParseSemantic(a.Version)
	return err == nil && a.Channel == "experimental" && v.AtLeast(firstWithScopes)
}

var firstWithScopes = version.MustParseSemantic("v1.7.0")

// SupportedReleases says which releases are supported.
func SupportedReleases() string {
	return fmt.Sprintf("releases of v1.%d and v1.%d are supported", oldestMinor, newestMinor)
}

// Described says it in a sentence.
func (a Release) Described() string {
	switch _, err := version.ParseSemantic(a.Version); {
	case a.Version == "":
		return "the hub does not say which version of the Gateway API it has"
	case err != nil:
		return fmt.Sprintf("the hub has the Gateway API in %q, which is no version", a.Version)
	case a.Channel == "":
		return "the hub has the Gateway API in " + a.Version
	}
	return fmt.Sprintf("the hub has the Gateway API in %s, channel %q", a.Version, a.Channel)
}
