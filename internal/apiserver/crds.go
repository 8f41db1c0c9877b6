package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// fieldManager owns what we apply to the server.
const fieldManager = "spillway-hub"

// installCRDs applies our CustomResourceDefinitions and, if asked, those of the Gateway
// API, and waits until the server lists objects of all of them.
func installCRDs(ctx context.Context, rc *rest.Config, gatewayAPI bool, log *slog.Logger) error {
	cs, err := clientset.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	crds := cs.ApiextensionsV1().CustomResourceDefinitions()
	var lists []string
	if gatewayAPI {
		if lists, err = installGatewayAPI(ctx, rc, log); err != nil {
			return err
		}
	}
	for _, doc := range v1alpha1.CRDs() {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(doc, &crd); err != nil {
			return fmt.Errorf("install CRDs: %w", err)
		}
		force := true
		_, err := crds.Patch(ctx, crd.Name, types.ApplyPatchType, doc, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		lists = append(lists, path.Join("/apis", crd.Spec.Group, crd.Spec.Versions[0].Name, crd.Spec.Names.Plural))
	}
	for _, list := range lists {
		err := patience.Await(ctx, list, func(ctx context.Context) error {
			// No retries by the client: it would wait a whole second.
			return cs.RESTClient().Get().AbsPath(list).Param("limit", "1").MaxRetries(0).Do(ctx).Error()
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", list, err)
		}
	}
	return nil
}
