package demo

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// tellMember lets the member nearest to edge us leave the fleet and join it
// again.
func tellMember(ctx context.Context, f *fleet, s *scene) error {
	const edge = "us"
	member := nearest[edge]
	was, err := f.hub.Get(ctx, "MemberCluster", "", member)
	if err != nil {
		return err
	}
	again := user.Named(was.GetAPIVersion(), was.GetKind(), "", member, object{"spec": was.Object["spec"]})
	s.undo = func(ctx context.Context) error { return f.hub.Apply(ctx, again) }
	return f.unharmed(ctx, s, []string{"eu", edge}, func(ctx context.Context, l *load) error {
		began := time.Now()
		if err := f.hub.Delete(ctx, "MemberCluster", "", member); err != nil {
			return err
		}
		if err := f.await(ctx, member+" to be gone", func(ctx context.Context) error {
			_, err := f.hub.Get(ctx, "MemberCluster", "", member)
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
		if err := f.hub.Apply(ctx, again); err != nil {
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
