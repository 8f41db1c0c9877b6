package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/spillway-dev/spillway/api/openshift"
)

// openShiftVersion is that of the definition of Routes (TestOpenShiftVersion). The
// definition does not say it, so it is noted when it is installed.
const (
	openShiftVersion = "v0.0.0-20250710004639-926605d3338b"
	openShiftMark    = "spillway.dev/openshift-api"
)

// routeBundle is what a hub has of OpenShift.
var routeBundle = bundle{"Route of OpenShift", [][]byte{openshift.Routes}, "v1", newerRoutes, openShiftVersion, openShiftMark}

// newerRoutes says why a definition of Routes is not one that we have installed, of a
// version that is not newer than ours.
func newerRoutes(o *unstructured.Unstructured) string {
	text, marked := o.GetAnnotations()[openShiftMark]
	have, err := version.ParseSemantic(text)
	switch {
	case !marked:
		return "somebody else has installed it"
	case err != nil:
		return fmt.Sprintf("its version is %q", text)
	case version.MustParseSemantic(openShiftVersion).LessThan(have):
		return "it is of version " + text
	}
	return ""
}
