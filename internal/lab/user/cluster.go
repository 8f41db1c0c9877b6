package user

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config reads a kubeconfig of the fleet.
func Config(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // our own server: no limit on this side
	return cfg, nil
}

// Author is who writes objects.
type Author struct {
	Manager  string        // field manager
	Timeout  time.Duration // ends a request to an API server, which may be cut or dead
	Warnings bool          // of API servers are logged
}

// Cluster is the hub or a member as an author sees it.
type Cluster struct {
	Name   string // for messages
	author Author
	client dynamic.Interface
}

// Open makes a Cluster of a kubeconfig. It asks nobody.
func (a Author) Open(name, kubeconfig string) (*Cluster, error) {
	cfg, err := Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	if !a.Warnings {
		cfg.WarningHandler = rest.NoWarnings{}
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{name, a, client}, nil
}

// Of are the objects of a kind, of all namespaces if it names none.
func (c *Cluster) Of(kind, namespace string) dynamic.ResourceInterface {
	r := c.client.Resource(resources[kind])
	if namespace == "" {
		return r
	}
	return r.Namespace(namespace)
}

func (c *Cluster) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.author.Timeout)
}

// Get reads an object.
func (c *Cluster) Get(ctx context.Context, kind, namespace, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	return c.Of(kind, namespace).Get(ctx, name, metav1.GetOptions{})
}

// Apply is `kubectl apply --server-side --force-conflicts` of an object.
func (c *Cluster) Apply(ctx context.Context, o Object) error {
	u, force := &unstructured.Unstructured{Object: o}, true
	err := c.send(ctx, u.GetKind(), u.GetNamespace(), u.GetName(), types.ApplyPatchType, o, metav1.PatchOptions{Force: &force})
	if err != nil {
		return fmt.Errorf("apply %s %s to %s: %w", u.GetKind(), u.GetName(), c.Name, err)
	}
	return nil
}

// Patch applies a JSON merge patch (RFC 7386).
func (c *Cluster) Patch(ctx context.Context, kind, namespace, name string, change Object) error {
	return c.send(ctx, kind, namespace, name, types.MergePatchType, change, metav1.PatchOptions{})
}

func (c *Cluster) send(ctx context.Context, kind, namespace, name string, as types.PatchType, o Object, opts metav1.PatchOptions) error {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	opts.FieldManager = c.author.Manager
	_, err = c.Of(kind, namespace).Patch(ctx, name, as, body, opts)
	return err
}

// Delete deletes an object; one that is gone is no error.
func (c *Cluster) Delete(ctx context.Context, kind, namespace, name string) error {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	err := c.Of(kind, namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Pods lists the pods with label app=APP by name, those that end included.
func (c *Cluster) Pods(ctx context.Context, namespace, app string) ([]string, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	list, err := c.Of("Pod", namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.GetName())
	}
	return out, nil
}

// Settled is nil when a Deployment is as its spec says and no other pod with
// its name as label app is left.
func (c *Cluster) Settled(ctx context.Context, namespace, deployment string) error {
	o, err := c.Get(ctx, "Deployment", namespace, deployment)
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
			return fmt.Errorf("%s: %s of %s is %d of %d", c.Name, field, deployment, got, want)
		}
	}
	pods, err := c.Pods(ctx, namespace, deployment)
	if err == nil && len(pods) != int(want) {
		err = fmt.Errorf("%s: %d pods of %s instead of %d", c.Name, len(pods), deployment, want)
	}
	return err
}
