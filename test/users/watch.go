package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// versions are all that an API server makes of the objects of a kind, in their order:
// its watch leaves none out.
type versions struct {
	kind string
	done sync.WaitGroup

	mu     sync.Mutex
	watch  watch.Interface // nil: it was ended
	at     string
	first  []*unstructured.Unstructured // when it began
	then   []*unstructured.Unstructured // those after
	failed error
}

// follow begins with what is there. End it with end.
func follow(ctx context.Context, c *user.Cluster, kind, namespace string) (*versions, error) {
	of := c.Of(kind, namespace)
	list, err := of.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, err
	}
	v := &versions{kind: kind, watch: w, at: list.GetResourceVersion()}
	for i := range list.Items {
		v.first = append(v.first, &list.Items[i])
	}
	v.done.Go(func() { v.read(w) })
	return v, nil
}

func (v *versions) read(w watch.Interface) {
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		v.mu.Lock()
		switch {
		case v.watch == nil: // it says that it was ended
		case ok && e.Type != watch.Error:
			v.then, v.at = append(v.then, o), o.GetResourceVersion()
		default:
			v.failed = errors.Join(v.failed, fmt.Errorf("the watch of %ss after version %s says %v", v.kind, v.at, e.Object))
		}
		v.mu.Unlock()
	}
}

// until returns when a version is there.
func (v *versions) until(ctx context.Context, o *unstructured.Unstructured) error {
	return patience.Await(ctx, fmt.Sprintf("version %s of %s %s", o.GetResourceVersion(), v.kind, o.GetName()), func(context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, x := range slices.Concat(v.first, v.then) {
			if x.GetUID() == o.GetUID() && x.GetResourceVersion() == o.GetResourceVersion() {
				return nil
			}
		}
		return errors.Join(v.failed, fmt.Errorf("the last is %s", v.at))
	})
}

// caughtUp returns when all that is there now was seen.
func (v *versions) caughtUp(ctx context.Context, c *user.Cluster) error {
	list, err := c.Of(v.kind, "").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := v.until(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// end ends it, and returns what was seen.
func (v *versions) end() (first, then []*unstructured.Unstructured, err error) {
	v.mu.Lock()
	w := v.watch
	v.watch = nil
	v.mu.Unlock()
	if w != nil {
		w.Stop()
	}
	v.done.Wait()
	return v.first, v.then, v.failed
}
