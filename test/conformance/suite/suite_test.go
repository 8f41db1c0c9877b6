// Package suite runs the upstream conformance suite of the Gateway API, of the version
// that the go.mod names, as it is.
package suite

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	v1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// claimed is the variable with the names of the features that are claimed, of whatever
// version.
const claimed = "SPILLWAY_FEATURES"

// usable is the variable with an address that a Gateway can ask for, and unusable that
// with one that no edge has.
const (
	usable   = "SPILLWAY_USABLE"
	unusable = "SPILLWAY_UNUSABLE"
)

func addressIn(variable string) []v1.GatewaySpecAddress {
	return []v1.GatewaySpecAddress{{Type: new(v1.IPAddressType), Value: os.Getenv(variable)}}
}

func TestConformance(t *testing.T) {
	opts := conformance.DefaultOptions(t)
	opts.SupportedFeatures = known(t, strings.Split(os.Getenv(claimed), ","))
	opts.UsableNetworkAddresses, opts.UnusableNetworkAddresses = addressIn(usable), addressIn(unusable)
	hub := opts.Client
	opts.RestConfig.Wrap(func(t http.RoundTripper) http.RoundTripper { return patient{t, hub} })
	conformance.RunConformanceWithOptions(t, opts)
}

// fieldless are features of the experimental channel that need no field of it. A test of
// v1.6.3 demands that who does not claim the first refuses what it is for; the last is
// none of that version.
var fieldless = []features.FeatureName{features.SupportTLSRouteModeMixed, features.SupportHTTPRouteDestinationPortMatching, "ClusterTrustBundle"}

// known are the names as this version has them. Those it has not are of a later one:
// the suite takes every name, and would list it in its report.
func known(t *testing.T, names []string) []features.FeatureName {
	all := sets.New[features.FeatureName]()
	for f := range features.AllFeatures {
		if f.Channel == features.FeatureChannelStandard || slices.Contains(fieldless, f.Name) {
			all.Insert(f.Name)
		}
	}
	var out []features.FeatureName
	for _, n := range names {
		f := features.FeatureName(n)
		if !all.Has(f) {
			t.Logf("the standard channel of this version has no feature %s", n)
			continue
		}
		out = append(out, f)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
