package apiserver

import (
	"context"
	"fmt"
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

// bundles are the definitions of others that a configuration asks for.
func (c Config) bundles() (out []bundle) {
	if c.CRDs {
		out = append(out, importBundle)
	}
	if c.CRDs && !c.NoGatewayAPI {
		out = append(out, gatewayBundle())
	}
	if c.OpenShiftRoutes {
		out = append(out, routeBundle)
	}
	if c.Exports {
		out = append(out, exportBundle)
	}
	return out
}

// installCRDs applies the CustomResourceDefinitions that are asked for, ours and those
// of others, and waits until the server lists objects of all of them.
func installCRDs(ctx context.Context, rc *rest.Config, cfg Config) error {
	cs, err := clientset.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	var lists []string
	for _, b := range cfg.bundles() {
		more, err := b.install(ctx, rc, cfg.Log)
		if err != nil {
			return err
		}
		lists = append(lists, more...)
	}
	if cfg.CRDs {
		more, err := installOurs(ctx, cs)
		if err != nil {
			return err
		}
		lists = append(lists, more...)
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

// installOurs applies our own, and returns the lists to wait for.
func installOurs(ctx context.Context, cs *clientset.Clientset) (lists []string, err error) {
	crds := cs.ApiextensionsV1().CustomResourceDefinitions()
	for _, doc := range v1alpha1.CRDs() {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(doc, &crd); err != nil {
			return nil, fmt.Errorf("install CRDs: %w", err)
		}
		force := true
		_, err := crds.Patch(ctx, crd.Name, types.ApplyPatchType, doc, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err != nil {
			return nil, fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		lists = append(lists, path.Join("/apis", crd.Spec.Group, crd.Spec.Versions[0].Name, crd.Spec.Names.Plural))
	}
	return lists, nil
}
