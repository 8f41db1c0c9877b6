package app

import (
	"context"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
)

// gatherTime is how long an acknowledgement waits for those of other proxies, so
// that a change of routes costs a commit more and not one for each proxy. If the
// loop turns in that time, for whatever reason, it takes what there is.
const gatherTime = 10 * time.Millisecond

// heed wakes the loop for what streams say: at once, where that is more than that
// they took what they were sent.
func (s *server) heed(ctx context.Context) {
	now, soon := s.reports.Wake()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	gathering := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-now:
			s.hear()
		case <-soon:
			if !gathering {
				gathering = true
				timer.Reset(gatherTime)
			}
		case <-timer.C:
			gathering = false
			if s.reports.Any() { // else the loop took it
				s.hear()
			}
		}
	}
}

// hear has what streams said taken in the next commit: it is one letter, however
// long that takes to come.
func (s *server) hear() {
	type saidKey struct{}
	s.put(saidKey{}, s.said)
}

// said writes what follows from what streams said.
func (s *server) said(tx *inc.Tx) {
	streams, verdicts := s.reports.Take()
	s.watch.streamed(tx, streams)
	s.clients.streamed(tx, streams)
	s.old.streamed(tx, streams)
	s.acks.streamed(streams)
	s.acks.apply(tx, verdicts)
}
