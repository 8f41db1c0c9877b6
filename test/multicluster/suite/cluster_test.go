package suite

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	manager      = "multicluster-suite"
	gatewayGroup = "gateway.networking.k8s.io"
	mcsGroup     = "multicluster.x-k8s.io"
)

// resources of the kinds that tests write or read.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":      {Version: "v1", Resource: "namespaces"},
	"Service":        {Version: "v1", Resource: "services"},
	"Deployment":     {Group: "apps", Version: "v1", Resource: "deployments"},
	"EndpointSlice":  {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"GatewayClass":   {Group: gatewayGroup, Version: "v1", Resource: "gatewayclasses"},
	"Gateway":        {Group: gatewayGroup, Version: "v1", Resource: "gateways"},
	"HTTPRoute":      {Group: gatewayGroup, Version: "v1", Resource: "httproutes"},
	"ReferenceGrant": {Group: gatewayGroup, Version: "v1beta1", Resource: "referencegrants"},
	"ServiceExport":  {Group: mcsGroup, Version: "v1beta1", Resource: "serviceexports"},
	"ServiceImport":  {Group: mcsGroup, Version: "v1beta1", Resource: "serviceimports"},
}

// cluster is the hub or a member.
type cluster struct {
	name   string
	client dynamic.Interface
}

func openCluster(name, kubeconfig string) (*cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	client, err := dynamic.NewForConfig(cfg)
	return &cluster{name, client}, err
}

func (c *cluster) of(kind, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.client.Resource(resources[kind])
	}
	return c.client.Resource(resources[kind]).Namespace(namespace)
}

// apply applies an object. text is all in YAML that stands beside apiVersion, kind and
// its name.
func (c *cluster) apply(ctx context.Context, kind, namespace, name, text string) (*unstructured.Unstructured, error) {
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return nil, fmt.Errorf("%s %s: %w:\n%s", kind, name, err, text)
	}
	meta, _ := object["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = name
	if namespace != "" {
		meta["namespace"] = namespace
	}
	object["apiVersion"], object["kind"], object["metadata"] = resources[kind].GroupVersion().String(), kind, meta
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	out, err := c.of(kind, namespace).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager, Force: new(true)})
	if err != nil {
		err = fmt.Errorf("apply %s %s/%s in %s: %w:\n%s", kind, namespace, name, c.name, err, text)
	}
	return out, err
}

// read reads an object.
func (c *cluster) read(ctx context.Context, kind, namespace, name string, into any) error {
	u, err := c.of(kind, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// remove removes an object; one that is gone is no error.
func (c *cluster) remove(ctx context.Context, kind, namespace, name string) error {
	err := c.of(kind, namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
