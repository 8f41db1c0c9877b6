package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// resting are the kinds whose statuses stay.
var resting = []string{"HTTPRoute", "Gateway", "GatewayClass", "ListenerSet"}

// rest churns pods, and has the proxy of the edge come again in between: no status may
// change by that.
func (w *world) rest(ctx context.Context) error {
	var all []*versions
	for _, kind := range resting {
		v, err := follow(ctx, w.Hub, kind, "")
		if err != nil {
			return err
		}
		defer func() { _, _, _ = v.end() }()
		all = append(all, v)
	}
	began := time.Now()
	if err := errors.Join(w.churn(ctx, w.duringRest()/2), w.reconnect(ctx), w.churn(ctx, w.duringRest()/2)); err != nil {
		return err
	}
	for _, v := range all {
		if err := v.caughtUp(ctx, w.Hub); err != nil {
			return err
		}
	}
	var errs []error
	for _, v := range all {
		first, then, err := v.end()
		changed := statusChanges(first, then)
		w.said.line("%s: %d there, %d versions and %d changes of status in %s", v.kind, len(first), len(then), len(changed), time.Since(began).Round(time.Second))
		errs = append(append(errs, err), changed...)
	}
	return errors.Join(errs...)
}

func (w *world) duringRest() time.Duration { return w.options.rest }

// churn replaces all pods again and again, under load.
func (w *world) churn(ctx context.Context, long time.Duration) error {
	rounds := 0
	err := w.under(ctx, w.newLoad(append(w.bystanders(), w.weighted(), w.granted(), w.tenant(), w.secure())...), func(ctx context.Context) error {
		for began := time.Now(); time.Since(began) < long; rounds++ {
			if err := w.restart(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	w.said.line("all pods were replaced %d times", rounds)
	return err
}

// restart replaces all pods, as `kubectl rollout restart` does.
func (w *world) restart(ctx context.Context) error {
	at := object{"kubectl.kubernetes.io/restartedAt": time.Now().UTC().Format(time.RFC3339Nano)}
	for _, d := range deployments {
		if err := w.members[d.member].Patch(ctx, "Deployment", d.namespace, d.name, object{"spec": object{"template": object{"metadata": object{"annotations": at}}}}); err != nil {
			return err
		}
	}
	for _, d := range deployments {
		if err := w.settled(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// reconnect kills the edge's proxy, and has another one start, which knows nothing. Only
// one is there, so clients are not asked.
func (w *world) reconnect(ctx context.Context) error {
	streams := func(want int) func(context.Context) error {
		return func(ctx context.Context) error {
			all, err := w.Admin.Streams(ctx)
			if err == nil && len(all) != want {
				err = fmt.Errorf("there are %d", len(all))
			}
			return err
		}
	}
	if err := w.Lab.KillEdge(ctx, edge); err != nil {
		return err
	}
	if err := patience.Await(ctx, "the stream of the edge to be gone", streams(0)); err != nil {
		return err
	}
	if err := w.Lab.Heal(ctx, edge); err != nil {
		return err
	}
	if err := patience.Await(ctx, "a stream of the edge", streams(1)); err != nil {
		return err
	}
	return w.served(ctx, append(w.bystanders(), w.weighted(), w.granted(), w.tenant(), w.secure())...)
}

// statusChanges are the versions that have another status than the one before of the
// same object.
func statusChanges(first, then []*unstructured.Unstructured) (out []error) {
	last := map[string]*unstructured.Unstructured{}
	for _, o := range first {
		last[string(o.GetUID())] = o
	}
	for _, o := range then {
		was := last[string(o.GetUID())]
		last[string(o.GetUID())] = o
		switch {
		case was == nil:
			out = append(out, fmt.Errorf("%s %s/%s came; expected was that nothing does", o.GetKind(), o.GetNamespace(), o.GetName()))
		case !reflect.DeepEqual(was.Object["status"], o.Object["status"]):
			out = append(out, fmt.Errorf("the status of %s %s/%s changed with version %s\n  from %v\n  to   %v", o.GetKind(), o.GetNamespace(), o.GetName(), o.GetResourceVersion(), was.Object["status"], o.Object["status"]))
		}
	}
	return out
}
