package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// GlobalIngresses say how things are now, and things may change often. So each is
// written once in a while at most, with what holds by then, and all together not more
// often than a hub bears. What makes one appear or go, or takes a site out, goes first.
const (
	globalEvery   = 5 * time.Second // between two writes of one object
	globalQPS     = 10              // writes
	globalBurst   = 20
	globalWorkers = 2
	perGlobal     = 3 // requests at most: its root, itself, the write
)

// Global says what is to become of a GlobalIngress.
func (w *Writer) Global(o model.Object, row leaf.GlobalRow) {
	w.mu.Lock()
	w.globals[o] = row
	w.mu.Unlock()
	w.add(job{global, o})
}

// urgent reports whether a piece of work goes before others.
func (w *Writer) urgent(j job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.globals[j.object].Urgent
}

// spacing is how long it takes until a GlobalIngress may be written again.
func (w *Writer) spacing(j job) time.Duration {
	if j.what != global {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at, lately := w.globalAt[j.object]
	if !lately {
		return 0
	}
	return time.Until(at.Add(globalEvery))
}

// paced waits for a turn to write, and notes that the object is written. What was not
// written of late is forgotten.
func (w *Writer) paced(ctx context.Context, o model.Object) error {
	if err := w.pace.Wait(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if len(w.globalAt) >= maxOver {
		maps.DeleteFunc(w.globalAt, func(_ model.Object, at time.Time) bool { return now.Sub(at) > globalEvery })
	}
	w.globalAt[o] = now
	return nil
}

// globalWant is what a GlobalIngress should say.
type globalWant struct {
	of      model.Global
	rootUID string
}

// says reports whether an object says it already.
func (g globalWant) says(have *unstructured.Unstructured) bool {
	var o v1alpha1.GlobalIngress
	if runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, &o) != nil {
		return false
	}
	_, seen := ingest.GlobalIngress(&o)
	return seen.Ours && seen.Exact && seen.RootUID == g.rootUID && seen.Says.Equal(g.of)
}

// globally does what is to be done about a GlobalIngress.
func (w *Writer) globally(ctx context.Context, t target, row leaf.GlobalRow) error {
	if wait := w.spacing(t.job); wait > 0 { // it was written since this was asked for
		w.world.queue.AddAfter(t.job, wait)
		return nil
	}
	var err error
	switch {
	case row.Delete != "":
		err = w.removeGlobal(ctx, t, row.Delete)
	case row.Release.Len() > 0:
		err = w.releaseGlobal(ctx, t, row.Release)
	case row.Wanted:
		err = w.writeGlobal(ctx, t, row.Want)
	}
	if err != nil { // a write that failed, as where a consumer wrote meanwhile, is none
		w.mu.Lock()
		delete(w.globalAt, t.object)
		w.mu.Unlock()
	}
	return err
}

// writeGlobal makes a GlobalIngress, or makes it say what it should. One that is not
// ours is left alone, and so is one that is leaving: another is made when it is gone.
func (w *Writer) writeGlobal(ctx context.Context, t target, says model.Global) error {
	of, err := w.world.target(job{global, says.Root})
	if err != nil {
		return err
	}
	root, err := of.get(ctx)
	if err != nil {
		return err // it is gone, too: its row goes soon
	}
	want := globalWant{says, string(root.GetUID())}
	have, err := t.get(ctx)
	if apierrors.IsNotFound(err) {
		return w.createGlobal(ctx, t, want)
	}
	if err != nil {
		return err
	}
	if have.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByServe || have.GetDeletionTimestamp() != nil {
		return nil
	}
	if want.says(have) {
		w.record(t.job, have, want)
		return nil
	}
	w.contest(t.job, have)
	if err := want.put(have); err != nil {
		return err
	}
	if err := w.paced(ctx, t.object); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	have, err = t.in.Update(ctx, have, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
	if err != nil {
		return err
	}
	w.record(t.job, have, want)
	return nil
}

func (w *Writer) createGlobal(ctx context.Context, t target, want globalWant) error {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(v1alpha1.GroupVersion.String())
	o.SetKind(model.GlobalKind)
	o.SetNamespace(t.object.Namespace)
	o.SetName(t.object.Name)
	if err := want.put(o); err != nil {
		return err
	}
	if err := w.paced(ctx, t.object); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	have, err := t.in.Create(ctx, o, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	if err != nil {
		return err
	}
	w.record(t.job, have, want)
	return nil
}

// put writes it into an object. What others added beside it stays: labels, annotations,
// finalizers, owners and the status.
func (g globalWant) put(o *unstructured.Unstructured) error {
	spec := ingest.GlobalSpec(g.of, g.rootUID)
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return fmt.Errorf("%s: %w", o.GetName(), err)
	}
	o.Object["spec"] = written
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedByServe
	annotations[v1alpha1.AnnotationRootCreated] = strconv.FormatInt(g.of.Created, 10)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	owner := ingest.GlobalOwner(g.of.Root, g.rootUID)
	owners := slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.APIVersion == owner.APIVersion && r.Kind == owner.Kind && r.Name == owner.Name
	})
	o.SetOwnerReferences(append(owners, owner))
	return nil
}

// removeGlobal has one deleted, if it still is the one that was meant and has our mark.
func (w *Writer) removeGlobal(ctx context.Context, t target, uid string) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	if string(have.GetUID()) != uid || have.GetDeletionTimestamp() != nil || have.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByServe {
		return nil
	}
	if err := w.paced(ctx, t.object); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return t.in.Delete(ctx, t.object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(types.UID(uid)), ResourceVersion: new(have.GetResourceVersion()),
	}})
}

// releaseGlobal takes finalizers of Spillway from one that is leaving.
func (w *Writer) releaseGlobal(ctx context.Context, t target, names model.Texts) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	held := have.GetFinalizers()
	rest := slices.DeleteFunc(slices.Clone(held), func(f string) bool { return names.Has(f) && strings.HasPrefix(f, v1alpha1.FinalizerPrefix) })
	if have.GetDeletionTimestamp() == nil || len(rest) == len(held) {
		return nil
	}
	have.SetFinalizers(rest)
	if err := w.paced(ctx, t.object); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = t.in.Update(ctx, have, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
	return err
}
