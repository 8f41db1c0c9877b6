package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/gateway-api/pkg/consts"

	"github.com/spillway-dev/spillway/api/gatewayapi"
)

// gatewayBundle is the Gateway API of the standard channel.
func gatewayBundle() bundle {
	return bundle{"the Gateway API", gatewayapi.Files(), "v1", func(o *unstructured.Unstructured) string { return newer(o.GetAnnotations()) }, consts.BundleVersion, ""}
}

// newer says why what has such annotations is not older than ours, or the same:
// it is of the experimental channel, which has more fields, or of a later version,
// or of one that nobody knows.
func newer(annotations map[string]string) string {
	if channel := annotations[consts.ChannelAnnotation]; channel != "standard" {
		return fmt.Sprintf("it is of channel %q", channel)
	}
	text := annotations[consts.BundleVersionAnnotation]
	have, err := version.ParseSemantic(text)
	switch {
	case err != nil:
		return fmt.Sprintf("its version is %q", text)
	case version.MustParseSemantic(consts.BundleVersion).LessThan(have):
		return "it is of version " + text
	}
	return ""
}
