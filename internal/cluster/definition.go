package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// definitionsAPI is where the definitions of kinds are, and definitionsPlural what they
// are called there.
var definitionsAPI = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}

const definitionsPlural = "customresourcedefinitions"

// definition is the one of GatewayClasses, which says of which release the Gateway API
// is. One object is watched, so that a role can grant just that, and its metadata, which
// is small beside its schema. A status says what it says, and nothing else depends on it.
func (h *Hub) definition(client *rest.RESTClient) *source {
	in := h.Inputs
	s := newStore(h.Mailbox, func(o metav1.Object) []fact {
		k, v := ingest.Definition(o.(*metav1.PartialObjectMetadata))
		return []fact{row[model.Object, model.Release]{in.Releases, k, v}}
	}, nil)
	return &source{
		resource: resource{
			client: client, plural: definitionsPlural, metadata: true,
			fields: fields.OneTermEqualSelector(metav1.ObjectNameField, model.GatewayDefinition("").Name).String(),
			list:   func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
		},
		store: s, optional: true, mayHide: true,
	}
}
