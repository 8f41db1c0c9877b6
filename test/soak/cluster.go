package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	fieldManager = "spillway-soak"
	// askTimeout ends a request to an API server that may be cut or dead.
	askTimeout = 5 * time.Second
)

type object = map[string]any

var ours = schema.GroupVersion{Group: "spillway.dev", Version: "v1alpha1"}

// resources of the kinds that the soak writes.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"Secret":             {Version: "v1", Resource: "secrets"},
	"Service":            {Version: "v1", Resource: "services"},
	"Pod":                {Version: "v1", Resource: "pods"},
	"Deployment":         {Group: "apps", Version: "v1", Resource: "deployments"},
	"Ingress":            {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"IngressClass":       {Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"},
	"GatewayClassConfig": ours.WithResource("gatewayclassconfigs"),
	"MemberCluster":      ours.WithResource("memberclusters"),
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
	cfg.QPS, cfg.WarningHandler = -1, restclient.NoWarnings{} // our own server: no limit on this side; nonsense is written on purpose
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &cluster{name, client}, nil
}

func (c *cluster) of(kind, namespace string) dynamic.ResourceInterface {
	r := c.client.Resource(resources[kind])
	if namespace == "" {
		return r
	}
	return r.Namespace(namespace)
}

// apply is `kubectl apply --server-side` of one object.
func (c *cluster) apply(ctx context.Context, o object) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u := &unstructured.Unstructured{Object: o}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	force := true
	_, err = c.of(u.GetKind(), u.GetNamespace()).Patch(ctx, u.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return fmt.Errorf("apply %s %s to %s: %w", u.GetKind(), u.GetName(), c.name, err)
	}
	return nil
}

// patch applies a JSON merge patch (RFC 7386).
func (c *cluster) patch(ctx context.Context, kind, namespace, name string, change object) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.of(kind, namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// remove deletes an object; one that is gone is no error.
func (c *cluster) remove(ctx context.Context, kind, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := c.of(kind, namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *cluster) get(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.of(kind, namespace).Get(ctx, name, metav1.GetOptions{})
}

// pods lists a workload's pods by name, those that end included.
func (c *cluster) pods(ctx context.Context, workload string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := c.of("Pod", namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + workload})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.GetName())
	}
	return out, nil
}

// settled is nil when a Deployment is as its spec says and no other pod is left.
func (c *cluster) settled(ctx context.Context, workload string) error {
	o, err := c.get(ctx, "Deployment", namespace, workload)
	if err != nil {
		return err
	}
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...)
		return n
	}
	want := number("spec", "replicas")
	for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
		if got := number("status", field); got != want || number("status", "observedGeneration") < o.GetGeneration() {
			return fmt.Errorf("%s: %s of %s is %d of %d", c.name, field, workload, got, want)
		}
	}
	pods, err := c.pods(ctx, workload)
	if err == nil && len(pods) != int(want) {
		err = fmt.Errorf("%s: %d pods of %s instead of %d", c.name, len(pods), workload, want)
	}
	return err
}
