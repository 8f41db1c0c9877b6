package syncer

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Marked reports whether a member has any object of a kind with the mark of a hub. A kind
// that the member does not have, or does not let us list, has none: who can't list it
// wrote none.
func Marked(ctx context.Context, client dynamic.Interface, hub string, kind schema.GroupVersionResource) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := client.Resource(kind).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelHub + "=" + hub, Limit: 1})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return len(list.Items) > 0, nil
}
