package syncer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// What is deleted without consent.
const (
	few  = 10 // as many at once always are
	part = 4  // and one in so many of what is there
)

// Consent lets all go that waits for it now.
func (s *Syncer) Consent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.surplus {
		e.consented = true
		s.count(key, e)
		s.soon(key, e, 0)
	}
}

// count keeps the numbers of what is there and what should go, and what that asks for. It
// is called after each change of that, by who has the lock.
func (s *Syncer) count(key Key, e *leaf) {
	s.reclaim(key, e)
	there := e.seen != nil && e.seen.uid != e.deleting
	if there && !e.counted {
		s.there++
	} else if !there && e.counted {
		s.there--
	}
	e.counted = there
	if there && !e.seen.leaving && !e.consented && e.unwanted() {
		s.surplus[key] = e
	} else {
		delete(s.surplus, key)
	}
}

// unwanted reports whether a leaf should be deleted if it is there.
func (e *leaf) unwanted() bool { return e.want == nil && e.invalid == nil && !e.release }

// prune deletes what was read, if it may, and nothing else of the name.
func (t *task) prune(ctx context.Context, have *unstructured.Unstructured) error {
	if have.GetDeletionTimestamp() != nil {
		t.say(State{Reason: Leaving, Message: "it is being deleted; a finalizer holds it"})
		return nil
	}
	if have.GetAnnotations()[v1alpha1.AnnotationLeafDeletion] == string(v1alpha1.LeafOrphan) {
		return t.orphan(ctx, have)
	}
	uid, version := have.GetUID(), have.GetResourceVersion()
	if t.moves(have) || !t.may(uid) {
		return nil
	}
	err := t.in.Delete(ctx, t.key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	if err != nil {
		t.kept()
	}
	return err
}

// orphan lets an object go that its root's owner wanted to stay.
func (t *task) orphan(ctx context.Context, have *unstructured.Unstructured) error {
	t.mu.Lock()
	known := t.complete
	t.mu.Unlock()
	if !known {
		return nil
	}
	return t.letGo(ctx, have)
}

// may reports whether an object may be deleted now, and counts it if so.
func (t *task) may(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, now := t.leaves[t.key], time.Now()
	if e == nil || !e.unwanted() || !t.complete {
		return false
	}
	if !e.consented {
		t.deleted = slices.DeleteFunc(t.deleted, func(at time.Time) bool { return now.Sub(at) >= t.pace.atOnce })
		many, of := len(t.surplus)+len(t.deleted), t.there+len(t.deleted)
		if many > max(few, of/part) {
			t.Syncer.say(t.key, e, State{Reason: Waiting, Message: fmt.Sprintf("%d of %d leaves in the member should go: that needs consent", many, of)})
			t.queue.AddAfter(t.key, t.pace.atOnce)
			return false
		}
		t.deleted = append(t.deleted, now)
	}
	e.deleting = uid
	t.count(t.key, e)
	return true
}

// kept takes back what may counted: it was not deleted.
func (t *task) kept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.leaves[t.key]
	if e == nil {
		return
	}
	if e.deleting = ""; !e.consented && len(t.deleted) > 0 {
		t.deleted = t.deleted[:len(t.deleted)-1]
	}
	t.count(t.key, e)
}

// letGo takes our mark and what we own of the fields away, and nothing else.
func (t *task) letGo(ctx context.Context, have *unstructured.Unstructured) error {
	others := slices.DeleteFunc(slices.Clone(have.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.FieldManager
	})
	if len(others) == 0 {
		others = []metav1.ManagedFieldsEntry{{}} // an empty list would change nothing
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": have.GetUID(), "resourceVersion": have.GetResourceVersion(),
		"labels":        map[string]any{v1alpha1.LabelHub: nil, v1alpha1.LabelRootUID: nil},
		"annotations":   map[string]any{v1alpha1.AnnotationRoot: nil, v1alpha1.AnnotationApplied: nil, v1alpha1.AnnotationLeafDeletion: nil},
		"managedFields": others,
	}})
	if err != nil {
		return err
	}
	_, err = t.in.Patch(ctx, t.key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
	if err == nil {
		t.done()
	}
	return err
}
