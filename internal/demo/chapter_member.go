package demo

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tellMember lets the member nearest to edge us leave the fleet and join it
// again.
func tellMember(ctx context.Context, f *fleet, s *scene) error {
	const edge = "us"
	member := nearest[edge]
	was, err := f.hub.get(ctx, "MemberCluster", "", member)
	if err != nil {
		return err
	}
	again := &unstructured.Unstructured{Object: object{
		"apiVersion": was.GetAPIVersion(), "kind": was.GetKind(), "metadata": object{"name": member}, "spec": was.Object["spec"],
	}}
	body, err := again.MarshalJSON()
	if err != nil {
		return err
	}
	s.undo = func(ctx context.Context) error { return f.hub.apply(ctx, body) }
	return f.unharmed(ctx, s, []string{"eu", edge}, func(ctx context.Context, l *load) error {
		began := time.Now()
		if err := f.hub.of("MemberCluster", "").Delete(ctx, member, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := f.await(ctx, member+" to be gone", func(ctx context.Context) error {
			_, err := f.hub.get(ctx, "MemberCluster", "", member)
			if err == nil {
				return fmt.Errorf("its MemberCluster is still there")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}); err != nil {
			return err
		}
		s.ms("left_ms", time.Since(began))
		if err := f.elsewhere(ctx, l, edge, member); err != nil {
			return err
		}
		began = time.Now()
		if err := f.hub.apply(ctx, body); err != nil {
			return err
		}
		if err := f.answeredBy(ctx, l, edge, member, 1); err != nil {
			return err
		}
		s.ms("recovery_ms", time.Since(began))
		s.say("%s left, others answered at edge %s; it joined and answers again after %s", member, edge, round(time.Since(began)))
		return nil
	})
}

// elsewhere waits until a member answers no more at an edge.
func (f *fleet) elsewhere(ctx context.Context, l *load, edge, member string) error {
	last := l.seen(edge)
	return f.await(ctx, "answers of other members at edge "+edge, func(context.Context) error {
		now := l.seen(edge)
		answers := now.done - last.done
		if answers < hold/4 {
			return fmt.Errorf("%d more answers", answers)
		}
		mine := now.members[member] - last.members[member]
		last = now
		if mine > 0 {
			return fmt.Errorf("%s gave %d of the last %d", member, mine, answers)
		}
		return nil
	})
}
