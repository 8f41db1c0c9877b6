package syncer

import (
	"context"
	"errors"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Namespaces makes those of a member that are not there, when something is to be written in
// them. It reads none, changes none and deletes none: whether somebody else has something in
// one nobody can know who may not list all kinds.
type Namespaces struct {
	Hub    string
	Client dynamic.Interface
	May    func() bool // somebody allows it
	Log    *slog.Logger
}

var spaceKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// spaceOf is what the mark of a namespace says whose it is.
func spaceOf(workspace, namespace string) string {
	return "Namespace/" + workspace + "//" + namespace
}

// make makes a namespace if that is why something was not written, and reports whether it
// should be tried again. An error of its own is told in place of the first.
func (n *Namespaces) make(ctx context.Context, name, root string, err error) (bool, error) {
	if n == nil || !lacksSpace(err, name) || !n.May() {
		return false, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	o.SetName(name)
	o.SetLabels(map[string]string{v1alpha1.LabelHub: n.Hub})
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationRoot: root})
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, made := n.Client.Resource(spaceKind).Create(call, o, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	if made != nil && !apierrors.IsAlreadyExists(made) {
		return false, made
	}
	if made == nil {
		n.Log.Info("syncer: a namespace is made", "namespace", name)
	}
	return true, nil
}

// lacksSpace reports whether an error is that a namespace is not there.
func lacksSpace(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Kind == "namespaces" && d.Name == name
}
