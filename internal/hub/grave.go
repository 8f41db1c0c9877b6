package hub

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// Grave is what a MemberTombstone says that the MemberCluster does not.
type Grave struct {
	Cluster model.ClusterID // empty: it never told
	Hub     string
	Leaves  int         // negative: not known
	Keys    int         // copies of Secrets
	Spaces  model.Texts // namespaces in the member where these are, sorted
}

// mostSpaces is how many namespaces a MemberTombstone names.
const mostSpaces = 1024

// leafGuard is what is wanted of the finalizer of a MemberCluster for its leaves.
type leafGuard struct {
	hold bool
	bury *Grave // before it is taken away; nil: there is nothing to remember
}

// GuardLeaves puts our finalizer for leaves on a MemberCluster.
func (w *Writer) GuardLeaves(m model.Member) { w.guardOf(m, leafGuard{hold: true}) }

// ReleaseLeaves takes it away: there are none.
func (w *Writer) ReleaseLeaves(m model.Member) { w.guardOf(m, leafGuard{}) }

// Bury takes it away once a MemberTombstone is written.
func (w *Writer) Bury(m model.Member, g Grave) { w.guardOf(m, leafGuard{bury: &g}) }

// ForgetLeaves is told of a MemberCluster that is gone.
func (w *Writer) ForgetLeaves(m model.Member) { w.forget(leafing, memberObject(m)) }

func (w *Writer) guardOf(m model.Member, g leafGuard) {
	o := memberObject(m)
	w.mu.Lock()
	w.leafed[o] = g
	w.mu.Unlock()
	w.add(job{leafing, o})
}

// Unbury deletes a MemberTombstone.
func (w *Writer) Unbury(k model.TombstoneID) {
	w.mu.Lock()
	w.unburied[k.Object()] = true
	w.mu.Unlock()
	w.add(job{unbury, k.Object()})
}

func (w *Writer) guardLeaves(ctx context.Context, t target, g leafGuard) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	if g.bury != nil && have.GetDeletionTimestamp() != nil {
		if err := w.state.bury(ctx, have, *g.bury); err != nil {
			return err
		}
	}
	data, err := finalizers(v1alpha1.FinalizerLeaves, g.hold, have)
	if err != nil {
		return err
	}
	return t.merge(ctx, data)
}

// bury writes the tombstone of a MemberCluster, whose name follows from it: who tries
// again finds it.
func (l *line) bury(ctx context.Context, have *unstructured.Unstructured, g Grave) error {
	stone, err := tombstone(have, g)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = l.client.Resource(kinds[model.TombstoneKind].resource).Create(ctx, stone, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err): // which must not be taken for that the MemberCluster is gone
		return errors.New("the hub does not have MemberTombstones: install our CRDs")
	}
	return err
}

// uidPart is how much of a UID is in the name of a tombstone.
const uidPart = 8

func tombstone(have *unstructured.Unstructured, g Grave) (*unstructured.Unstructured, error) {
	var m v1alpha1.MemberCluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, &m); err != nil {
		return nil, fmt.Errorf("a MemberCluster can't be read: %w", err)
	}
	uid := string(m.UID)
	stone := &v1alpha1.MemberTombstone{Spec: v1alpha1.MemberTombstoneSpec{
		Member: m.Name, MemberUID: uid, Connection: m.Spec.Connection, AllowProxy: m.Annotations[v1alpha1.AnnotationAllowProxy] == "true",
		ClusterUID: string(g.Cluster), HubUID: g.Hub,
	}}
	stone.Name = m.Name + "-" + uid[:min(uidPart, len(uid))]
	stone.APIVersion, stone.Kind = v1alpha1.GroupVersion.String(), model.TombstoneKind
	if g.Leaves >= 0 {
		stone.Spec.Leaves = new(int32(g.Leaves))
	}
	if g.Keys > 0 {
		spaces := g.Spaces.List()
		stone.Spec.Keys, stone.Spec.KeyNamespaces = new(int32(g.Keys)), spaces[:min(len(spaces), mostSpaces)]
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stone)
	delete(out, "status")
	return &unstructured.Unstructured{Object: out}, err
}

// dig deletes a tombstone.
func (w *Writer) dig(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := t.in.Delete(ctx, t.object.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unburied, t.object)
	return nil
}
