package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

// tellRefuse cuts the data path of the nearest member so that packets to its
// pods are answered with resets.
func tellRefuse(ctx context.Context, f *fleet, s *scene) error {
	return f.tellCut(ctx, s, lab.ModeRefuse)
}

// tellDrop cuts it so that packets vanish.
func tellDrop(ctx context.Context, f *fleet, s *scene) error { return f.tellCut(ctx, s, lab.ModeDrop) }

// tellCut judges the cut of a data path. Requests that are safe to retry all
// succeed. Others may fail if they were sent before the loss was known: one whose
// connection broke before the answer may have been acted on, so no proxy may
// send it again (RFC 9110, 9.2.2).
func (f *fleet) tellCut(ctx context.Context, s *scene, mode lab.Mode) error {
	sum, known, err := f.cutData(ctx, s, mode)
	if err != nil {
		return err
	}
	if err := sum.safe.unscathed("safe"); err != nil {
		return err
	}
	if sum.unsafe.last.After(known) {
		return fmt.Errorf("unsafe requests failed that were sent %s after all edges knew: %s", sum.unsafe.last.Sub(known).Round(time.Millisecond), sum.unsafe)
	}
	s.say("%d safe requests, 0 failed; %d POSTs, %d failed", sum.safe.sent, sum.unsafe.sent, sum.unsafe.failed)
	return nil
}

// cutData cuts the path to the member nearest to edge eu and heals it, under
// load at both edges. known is when every edge had been told.
func (f *fleet) cutData(ctx context.Context, s *scene, mode lab.Mode) (sum tally, known time.Time, err error) {
	member, other := nearest["eu"], second["eu"]
	sum, err = f.underLoad(ctx, s, edges, func(ctx context.Context, l *load) error {
		began := time.Now()
		if err := f.lab.Cut(ctx, member, lab.PartData, mode); err != nil {
			return err
		}
		if err := f.answeredBy(ctx, l, "eu", other, 1); err != nil {
			return err
		}
		s.ms("recovery_ms", time.Since(began))
		moved := time.Since(began)
		if err := f.await(ctx, "the path to be known as lost", func(ctx context.Context) error { return f.pathIs(ctx, "eu", member, "False") }); err != nil {
			return err
		}
		s.ms("detection_ms", time.Since(began))
		s.say("%s answers at edge eu after %s, the path is known as lost after %s", other, round(moved), round(time.Since(began)))
		if err := f.await(ctx, "the edges to acknowledge", func(ctx context.Context) error { return f.inSync(ctx, edges...) }); err != nil {
			return err
		}
		known = time.Now()
		if err := f.more(ctx, l, hold); err != nil {
			return err
		}
		if err := f.dnsNear(ctx); err != nil {
			return fmt.Errorf("DNS should stay, the edge still serves: %w", err)
		}
		s.say("DNS rightly stays")
		if err := f.await(ctx, "the member's status to tell", func(ctx context.Context) error { return f.memberIs(ctx, member, "Healthy", "False") }); err != nil {
			return err
		}
		return f.healData(ctx, s, l, member)
	})
	return sum, known, err
}

func (f *fleet) healData(ctx context.Context, s *scene, l *load, member string) error {
	began := time.Now()
	if err := f.lab.Heal(ctx, member); err != nil {
		return err
	}
	if err := f.answeredBy(ctx, l, "eu", member, 1); err != nil {
		return err
	}
	s.ms("healed_ms", time.Since(began))
	s.say("healed, %s answers again after %s", member, round(time.Since(began)))
	return f.await(ctx, "the member's status to tell", func(ctx context.Context) error { return f.memberIs(ctx, member, "Healthy", "True") })
}
