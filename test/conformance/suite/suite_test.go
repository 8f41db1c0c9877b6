// Package suite runs the upstream conformance suite of the Gateway API, of the version
// that the go.mod names, as it is.
package suite

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// Claimed is the variable with the names of the features that are claimed, of whatever
// version.
const claimed = "SPILLWAY_FEATURES"

// renamed are features by their name in later versions.
var renamed = map[string]string{"HTTPRouteRetryCodes": "HTTPRouteRetry"}

func TestConformance(t *testing.T) {
	opts := conformance.DefaultOptions(t)
	opts.SupportedFeatures = known(t, strings.Split(os.Getenv(claimed), ","))
	conformance.RunConformanceWithOptions(t, opts)
}

// known are the names as this version has them. Those it has not are of a later one:
// the suite takes every name, and would list it in its report.
func known(t *testing.T, names []string) []features.FeatureName {
	all := features.SetsToNamesSet(features.AllFeatures)
	var out []features.FeatureName
	for _, n := range names {
		f := features.FeatureName(n)
		if old, ok := renamed[n]; ok && !all.Has(f) {
			f = features.FeatureName(old)
		}
		if !all.Has(f) {
			t.Logf("this version has no feature %s", n)
			continue
		}
		out = append(out, f)
	}
	slices.Sort(out)
	return sets.List(sets.New(out...))
}
