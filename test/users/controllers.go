package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const (
	ourController   = "spillway.dev/gateway"
	otherController = "example.org/other"
	elsewhere       = "elsewhere" // a Gateway of the other, and its class

	edits        = 30                     // of the user
	betweenEdits = 100 * time.Millisecond // at least
	writes       = 100                    // of the other controller, at least
	betweenHis   = 20 * time.Millisecond  // at least
)

// controllers has another controller write its entry in the status of a route, while we
// write ours and a user edits the route.
func (w *world) controllers(ctx context.Context) error {
	seen, err := follow(ctx, w.Hub, "HTTPRoute", own)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = seen.end() }()
	him := &neighbour{hub: w.Hub}
	failed := w.under(ctx, w.newLoad(append(w.bystanders(), w.edited())...), func(ctx context.Context) error {
		return w.together(ctx, him, seen)
	})
	first, then, err := seen.end()
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	h := history{wrote: him.wrote}
	for _, o := range append(first, then...) {
		if o.GetName() == "edited" {
			h.next(o)
		}
	}
	w.said.line("%d versions of the route: %d edits, %d writes of the other controller (%d conflicts), %d status writes of ours", h.versions, h.edits, h.his, him.conflicts, h.ours)
	return errors.Join(h.wrong...)
}

// together returns when both have written, and the last is seen.
func (w *world) together(ctx context.Context, him *neighbour, seen *versions) error {
	edited := make(chan struct{})
	var failed error
	var writing sync.WaitGroup
	writing.Go(func() { failed = him.write(ctx, edited) })
	err := w.edit(ctx)
	close(edited)
	writing.Wait()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	var last *unstructured.Unstructured
	if err := patience.Await(ctx, "our entry to be of the last edit", func(ctx context.Context) (err error) {
		if last, err = w.Hub.Get(ctx, "HTTPRoute", own, "edited"); err != nil {
			return err
		}
		return errors.Join(him.there(last), ours(last))
	}); err != nil {
		return err
	}
	return seen.until(ctx, last)
}

// edit is a user who edits the route.
func (w *world) edit(ctx context.Context) error {
	for n := range edits {
		if err := w.Hub.Patch(ctx, "HTTPRoute", own, "edited", object{"spec": object{"rules": []any{weightedRule(n, weighting{1, 0})}}}); err != nil {
			return err
		}
		user.Rest(ctx, betweenEdits)
	}
	return nil
}

// ours is nil if our entry says what it should of the last edit.
func ours(o *unstructured.Unstructured) error {
	all := entriesOf(o, ourController)
	if len(all) != 1 {
		return fmt.Errorf("%d entries of %s; expected was one", len(all), ourController)
	}
	return says(o, all[0], []condition{{"Accepted", true, "Accepted"}, {"ResolvedRefs", true, "ResolvedRefs"}})
}

// entriesOf are those of a controller in the status of a route.
func entriesOf(o *unstructured.Unstructured, controller string) (out []object) {
	for _, e := range entries(o, "status", "parents") {
		if e["controllerName"] == controller {
			out = append(out, e)
		}
	}
	return out
}

// neighbour is another controller.
type neighbour struct {
	hub       *user.Cluster
	wrote     []object // its entry, as it was each time
	conflicts int
}

// write writes its entry again and again, until the user has ended, and often enough.
func (n *neighbour) write(ctx context.Context, ended <-chan struct{}) error {
	for {
		select {
		case <-ended:
			if len(n.wrote) >= writes {
				return nil
			}
		default:
		}
		if err := n.once(ctx); err != nil {
			return err
		}
		user.Rest(ctx, betweenHis)
	}
}

// once does as controllers do: it reads the route, changes its own entry, writes all of
// the status, and begins again where somebody else was first.
func (n *neighbour) once(ctx context.Context) error {
	for {
		o, err := n.hub.Get(ctx, "HTTPRoute", own, "edited")
		if err != nil {
			return err
		}
		entry := hisEntry(len(n.wrote), o.GetGeneration())
		parents := []any{entry}
		for _, e := range entries(o, "status", "parents") {
			if e["controllerName"] != otherController {
				parents = append(parents, e)
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, parents, "status", "parents"); err != nil {
			return err
		}
		_, err = n.hub.Of("HTTPRoute", own).UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: "other"})
		switch {
		case apierrors.IsConflict(err):
			n.conflicts++
		case err != nil:
			return err
		default:
			n.wrote = append(n.wrote, entry)
			return nil
		}
	}
}

// hisEntry is how the other controller's entry is after so many writes.
func hisEntry(n int, generation int64) object {
	return object{
		"controllerName": otherController,
		"parentRef":      object{"group": group, "kind": "Gateway", "name": elsewhere, "namespace": own},
		"conditions": []any{object{
			"type": "Accepted", "status": "True", "reason": "Accepted", "message": fmt.Sprintf("write %d", n),
			"observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}
}

// there is nil if its last entry is.
func (n *neighbour) there(o *unstructured.Unstructured) error {
	want := n.wrote[len(n.wrote)-1]
	if all := entriesOf(o, otherController); len(all) != 1 || !reflect.DeepEqual(all[0], want) {
		return fmt.Errorf("the entries of %s are %v; expected was what it wrote last, %v", otherController, all, want)
	}
	return nil
}

// history is what the versions of a route say, one after another.
type history struct {
	wrote []object // by the other controller

	versions, edits, his, ours int
	wrong                      []error

	generation, observed int64 // of the version before; what our entry said of it, 0: it was not there
	last                 int   // which of the other's entries was there, from 1 on; 0: none
}

// next judges a version. No controller's entry goes once it was there, none goes back to
// what it was before, and none is there that its controller did not write.
func (h *history) next(o *unstructured.Unstructured) {
	first := h.versions == 0
	h.versions++
	his, observed := h.hisOf(o), h.oursOf(o)
	switch {
	case first:
	case o.GetGeneration() != h.generation:
		h.edits++
	case his != h.last:
		h.his++
	default:
		h.ours++
	}
	h.generation, h.last, h.observed = o.GetGeneration(), max(h.last, his), max(h.observed, observed)
}

func (h *history) hisOf(o *unstructured.Unstructured) int {
	all := entriesOf(o, otherController)
	if len(all) == 0 {
		if h.last > 0 {
			h.fail(o, "there is no entry of %s; expected was %v", otherController, h.wrote[h.last-1])
		}
		return 0
	}
	for n := len(h.wrote); n > 0; n-- {
		if len(all) == 1 && reflect.DeepEqual(all[0], h.wrote[n-1]) {
			if n < h.last {
				h.fail(o, "the entry of %s went back to its write %d; expected was %d or later", otherController, n-1, h.last-1)
			}
			return n
		}
	}
	h.fail(o, "the entries of %s are %v; expected was one that it wrote", otherController, all)
	return 0
}

func (h *history) oursOf(o *unstructured.Unstructured) int64 {
	all := entriesOf(o, ourController)
	if len(all) == 0 {
		if h.observed > 0 {
			h.fail(o, "there is no entry of ours; expected was one of generation %d or later", h.observed)
		}
		return 0
	}
	if len(all) > 1 {
		h.fail(o, "there are %d entries of ours; expected was one: %v", len(all), all)
	}
	var observed int64
	list, _ := all[0]["conditions"].([]any)
	for _, c := range list {
		m, _ := c.(object)
		n, _ := m["observedGeneration"].(int64)
		if n < h.observed || n > o.GetGeneration() {
			h.fail(o, "our condition %v is of generation %d; expected was one from %d to %d", m["type"], n, h.observed, o.GetGeneration())
		}
		observed = max(observed, n)
	}
	return observed
}

func (h *history) fail(o *unstructured.Unstructured, format string, args ...any) {
	if len(h.wrong) < mentioned {
		h.wrong = append(h.wrong, fmt.Errorf("version %s of HTTPRoute %s: "+format, append([]any{o.GetResourceVersion(), o.GetName()}, args...)...))
	}
}
