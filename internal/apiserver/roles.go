package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/deploy/rbac"
)

// serveUser is who the kubeconfig of `spillway serve` is of.
const serveUser = "spillway-serve"

// roleKinds are the resources of what deploy/rbac/hub.yaml may hold.
var roleKinds = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ClusterRole":        rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
	"ClusterRoleBinding": rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	"RoleBinding":        rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
}

// installRoles applies what `spillway serve` may do on a hub, and gives it to the
// user of its kubeconfig, beside the service account.
func installRoles(ctx context.Context, rc *rest.Config) error {
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("install roles: %w", err)
	}
	objects, err := documents(rbac.Hub)
	if err != nil {
		return fmt.Errorf("install roles: %w", err)
	}
	for _, o := range objects {
		if bound, there := o.Object["subjects"].([]any); there {
			o.Object["subjects"] = append(bound, map[string]any{"apiGroup": rbacv1.GroupName, "kind": rbacv1.UserKind, "name": serveUser})
		}
		of, ok := roleKinds[o.GetKind()]
		if !ok {
			return fmt.Errorf("install roles: %s %s: no such kind here", o.GetKind(), o.GetName())
		}
		in := client.Resource(of).Namespace(o.GetNamespace())
		if _, err := in.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return fmt.Errorf("install %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// documents reads objects in YAML.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		o := &unstructured.Unstructured{}
		switch err := dec.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case o.Object != nil:
			out = append(out, o)
		}
	}
}
