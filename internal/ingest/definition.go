package ingest

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/gateway-api/pkg/consts"

	"github.com/spillway-dev/spillway/internal/model"
)

// Definition reads the annotations of a CustomResourceDefinition that say of which
// release of the Gateway API it is.
func Definition(o *metav1.PartialObjectMetadata) (model.Object, model.Release) {
	return object(model.GatewayDefinition("").Kind, o), model.Release{
		Version: shortened(o.Annotations[consts.BundleVersionAnnotation]),
		Channel: shortened(o.Annotations[consts.ChannelAnnotation]),
	}
}

// longest is how much of such an annotation is kept: names of versions are far shorter,
// and all of it is said in statuses.
const longest = 64

func shortened(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}
