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

// claimed is the variable with the names of the features that are claimed, of whatever
// version.
const claimed = "SPILLWAY_FEATURES"

func TestConformance(t *testing.T) {
	opts := conformance.DefaultOptions(t)
	opts.SupportedFeatures = known(t, strings.Split(os.Getenv(claimed), ","))
	conformance.RunConformanceWithOptions(t, opts)
}

// known are the names as this version has them. Those it has not are of a later one:
// the suite takes every name, and would list it in its report.
func known(t *testing.T, names []string) []features.FeatureName {
	all := sets.New[features.FeatureName]()
	for f := range features.AllFeatures {
		if f.Channel == features.FeatureChannelStandard {
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
