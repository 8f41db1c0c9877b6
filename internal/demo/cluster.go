package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

const fieldManager = "spillway-demo"

// resources of the kinds that the demo touches.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":     {Version: "v1", Resource: "namespaces"},
	"Secret":        {Version: "v1", Resource: "secrets"},
	"Service":       {Version: "v1", Resource: "services"},
	"Pod":           {Version: "v1", Resource: "pods"},
	"Deployment":    {Group: "apps", Version: "v1", Resource: "deployments"},
	"Ingress":       {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"MemberCluster": {Group: "spillway.dev", Version: "v1alpha1", Resource: "memberclusters"},
}

// cluster is the hub or a member as its user sees it.
type cluster struct {
	name   string
	client dynamic.Interface
}

func openCluster(name, kubeconfig string) (*cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // our own server: no limit on this side
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &cluster{name: name, client: client}, nil
}

func (c *cluster) of(kind, namespace string) dynamic.ResourceInterface {
	r := c.client.Resource(resources[kind])
	if namespace == "" {
		return r
	}
	return r.Namespace(namespace)
}

func (c *cluster) get(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.of(kind, namespace).Get(ctx, name, metav1.GetOptions{})
}

// patch applies a JSON merge patch (RFC 7386).
func (c *cluster) patch(ctx context.Context, kind, namespace, name string, change any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.of(kind, namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// apply is `kubectl apply --server-side -f -` of manifests.
func (c *cluster) apply(ctx context.Context, manifests []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	objects, err := parse(manifests)
	if err != nil {
		return err
	}
	for _, o := range objects {
		body, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		force := true
		_, err = c.of(o.GetKind(), o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err != nil {
			return fmt.Errorf("apply %s %s to %s: %w", o.GetKind(), o.GetName(), c.name, err)
		}
	}
	return nil
}

// parse reads the documents of a YAML file.
func parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	in := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := in.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) == 0 {
			continue
		}
		if _, known := resources[o.GetKind()]; !known {
			return nil, fmt.Errorf("the demo does not know the kind %q", o.GetKind())
		}
		out = append(out, o)
	}
}

// changes calls see with what the object says now and after each change, until
// ctx ends or the server ends the watch.
func (c *cluster) changes(ctx context.Context, kind, namespace, name string, see func(*unstructured.Unstructured)) error {
	w, err := c.of(kind, namespace).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		switch o := e.Object.(type) {
		case *unstructured.Unstructured:
			if e.Type != watch.Bookmark {
				see(o)
			}
		case *metav1.Status:
			return fmt.Errorf("watch of %s %s: %s", kind, name, o.Message)
		}
	}
	return nil
}

// condition is "True", "False", "Unknown" or, if there is none, "".
func condition(o *unstructured.Unstructured, typ string) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if m, ok := c.(map[string]any); ok && m["type"] == typ {
			s, _ := m["status"].(string)
			return s
		}
	}
	return ""
}

// addresses lists status.loadBalancer of an Ingress, as it is sorted there.
func addresses(o *unstructured.Unstructured) []string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	var out []string
	for _, a := range all {
		if m, ok := a.(map[string]any); ok {
			for _, field := range []string{"ip", "hostname"} {
				if s, ok := m[field].(string); ok {
					out = append(out, s)
				}
			}
		}
	}
	return out
}
