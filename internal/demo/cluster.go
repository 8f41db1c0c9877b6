package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

type object = user.Object

var author = user.Author{Manager: "spillway-demo", Timeout: askTimeout, Warnings: true}

// apply is `kubectl apply --server-side -f -` of manifests.
func apply(ctx context.Context, c *user.Cluster, manifests []byte) error {
	objects, err := parse(manifests)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.Apply(ctx, o.Object); err != nil {
			return err
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
		if !user.Knows(o.GetKind()) {
			return nil, fmt.Errorf("the demo does not know the kind %q", o.GetKind())
		}
		out = append(out, o)
	}
}

// changes calls see with what the object says now and after each change, until
// ctx ends or the server ends the watch.
func changes(ctx context.Context, c *user.Cluster, kind, namespace, name string, see func(*unstructured.Unstructured)) error {
	w, err := c.Of(kind, namespace).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
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
	s, _ := user.Condition(o, typ)["status"].(string)
	return s
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
