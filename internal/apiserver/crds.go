package apiserver

import (
	"context"
	"fmt"

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

// installCRDs applies our CustomResourceDefinitions and waits until all of
// them are established.
func installCRDs(ctx context.Context, rc *rest.Config) error {
	cs, err := clientset.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	crds := cs.ApiextensionsV1().CustomResourceDefinitions()
	var names []string
	for _, doc := range v1alpha1.CRDs() {
		var crd metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(doc, &crd); err != nil {
			return fmt.Errorf("install CRDs: %w", err)
		}
		force := true
		_, err := crds.Patch(ctx, crd.Name, types.ApplyPatchType, doc, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		names = append(names, crd.Name)
	}
	for _, name := range names {
		err := poll(ctx, func(ctx context.Context) error {
			crd, err := crds.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return established(crd)
		})
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", name, err)
		}
	}
	return nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not established: %v", crd.Status.Conditions)
}
