package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/examples"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// tellScale scales the Deployment of the member nearest to edge eu up by one
// and back.
func tellScale(ctx context.Context, f *fleet, s *scene) error {
	member := nearest["eu"]
	c := f.members[member]
	deployment, err := c.Get(ctx, "Deployment", namespace, workload)
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	return f.unharmed(ctx, s, edges, func(ctx context.Context, l *load) error {
		known, err := c.Pods(ctx, namespace, workload)
		if err != nil {
			return err
		}
		before, err := f.pushed(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := scale(ctx, c, replicas+1); err != nil {
			return err
		}
		if err := f.await(ctx, "the new pod to answer at edge eu", func(context.Context) error {
			for pod := range l.seen("eu").pods {
				if !slices.Contains(known, pod) {
					return nil
				}
			}
			return fmt.Errorf("only %d pods do", len(known))
		}); err != nil {
			return err
		}
		s.ms("recovery_ms", time.Since(began))
		if err := f.await(ctx, "the edges to acknowledge", func(ctx context.Context) error { return f.inSync(ctx, edges...) }); err != nil {
			return err
		}
		after, err := f.pushed(ctx)
		if err != nil {
			return err
		}
		bytes := after.since(before)
		s.set("pushed_bytes", bytes)
		if bytes == 0 {
			return fmt.Errorf("a new pod answers and nothing was pushed")
		}
		s.say("a new pod of %s serves after %s, for %d bytes to %d edges", member, round(time.Since(began)), bytes, len(after))
		if err := scale(ctx, c, replicas); err != nil {
			return err
		}
		return f.await(ctx, "the fleet to be as before", func(ctx context.Context) error { return settled(ctx, c) })
	})
}

// tellRollout restarts all pods of all members, one after the other in each.
func tellRollout(ctx context.Context, f *fleet, s *scene) error {
	return f.unharmed(ctx, s, edges, func(ctx context.Context, _ *load) error {
		began := time.Now()
		for _, m := range members {
			at := object{"kubectl.kubernetes.io/restartedAt": began.UTC().Format(time.RFC3339Nano)}
			change := object{"spec": object{"template": object{"metadata": object{"annotations": at}}}}
			if err := f.members[m].Patch(ctx, "Deployment", namespace, workload, change); err != nil {
				return err
			}
		}
		for _, m := range members {
			if err := f.await(ctx, "the rollout in "+m, func(ctx context.Context) error { return settled(ctx, f.members[m]) }); err != nil {
				return err
			}
		}
		s.ms("rollout_ms", time.Since(began))
		s.say("all pods of all members were replaced")
		return nil
	})
}

// tellEdit adds a host and a path to the Ingress and takes them away again.
func tellEdit(ctx context.Context, f *fleet, s *scene) error {
	const host = "www.shop.example"
	objects, err := parse(examples.Shop)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Ingress" })
	if i < 0 {
		return fmt.Errorf("the example has no Ingress")
	}
	eachEdge := func(ctx context.Context, want bool) error {
		for _, edge := range edges {
			_, err := f.request(ctx, edge, host)
			switch {
			case want && err != nil:
				return fmt.Errorf("edge %s does not serve %s: %w", edge, host, err)
			case !want && err == nil:
				return fmt.Errorf("edge %s still serves %s", edge, host)
			}
		}
		return nil
	}
	return f.unharmed(ctx, s, edges, func(ctx context.Context, _ *load) error {
		before, err := f.pushed(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := f.hub.Apply(ctx, withHost(objects[i], host).Object); err != nil {
			return err
		}
		if err := f.await(ctx, "the new host to be served", func(ctx context.Context) error { return eachEdge(ctx, true) }); err != nil {
			return err
		}
		s.ms("recovery_ms", time.Since(began))
		s.say("a second host and path, served by both edges after %s", round(time.Since(began)))
		if err := apply(ctx, f.hub, examples.Shop); err != nil {
			return err
		}
		if err := f.await(ctx, "the host to be gone", func(ctx context.Context) error { return eachEdge(ctx, false) }); err != nil {
			return err
		}
		after, err := f.pushed(ctx)
		s.set("pushed_bytes", after.since(before))
		s.say("and taken away again")
		return err
	})
}

// withHost is a copy of an Ingress with another host, served like the first,
// and another path of the first.
func withHost(o *unstructured.Unstructured, host string) *unstructured.Unstructured {
	o = o.DeepCopy()
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "rules")
	more := (&unstructured.Unstructured{Object: rules[0].(object)}).DeepCopy().Object
	more["host"] = host
	paths, _, _ := unstructured.NestedSlice(rules[0].(object), "http", "paths")
	other := (&unstructured.Unstructured{Object: paths[0].(object)}).DeepCopy().Object
	other["path"], other["pathType"] = "/hello", "Exact"
	_ = unstructured.SetNestedSlice(rules[0].(object), append(paths, other), "http", "paths")
	_ = unstructured.SetNestedSlice(o.Object, append(rules, more), "spec", "rules")
	return o
}

func scale(ctx context.Context, c *user.Cluster, replicas int64) error {
	return c.Patch(ctx, "Deployment", namespace, workload, object{"spec": object{"replicas": replicas}})
}

func settled(ctx context.Context, c *user.Cluster) error { return c.Settled(ctx, namespace, workload) }
