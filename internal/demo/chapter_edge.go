package demo

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// tellEdge kills an edge: DNS names the other one, which serves on. When it is
// back, DNS names it again.
func tellEdge(ctx context.Context, f *fleet, s *scene) error {
	const lost, left = "eu", "us"
	gone := f.lab.EdgeAddress(lost)
	return f.unharmed(ctx, s, []string{left}, func(ctx context.Context, l *load) error {
		began := time.Now()
		if err := f.lab.KillEdge(ctx, lost); err != nil {
			return err
		}
		if err := f.await(ctx, "DNS to leave the dead edge", func(ctx context.Context) error {
			got, err := f.dnsSays(ctx, lost)
			if err == nil && (len(got) == 0 || slices.Contains(got, gone)) {
				err = fmt.Errorf("DNS says %v", got)
			}
			return err
		}); err != nil {
			return err
		}
		s.ms("recovery_ms", time.Since(began))
		s.say("DNS left edge %s after %s", lost, round(time.Since(began)))
		if err := f.more(ctx, l, hold); err != nil {
			return err
		}
		if err := f.ingressListsAll(ctx); err != nil {
			return fmt.Errorf("an edge that lost its stream keeps its place in the status: %w", err)
		}
		began = time.Now()
		if err := f.lab.Heal(ctx, lost); err != nil {
			return err
		}
		if err := f.await(ctx, "DNS to name the edge again", f.dnsNear); err != nil {
			return err
		}
		s.ms("healed_ms", time.Since(began))
		s.say("and named it again %s after it was started", round(time.Since(began)))
		return nil
	})
}
