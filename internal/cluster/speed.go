package cluster

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

// A member is read no faster than this once it has sent burstBytes: reading costs
// a processor, which others need too. What one has to say is far below: a first
// list of 50,000 Services, and 2,000 changed EndpointSlices a second. What it
// sends beyond waits in its own connection.
const (
	burstBytes     = 64 << 20
	bytesPerSecond = 4 << 20
)

// speed is how fast all answers of a server together are read.
type speed struct {
	limit *rate.Limiter
	told  func() // called the first time that it holds something up
	once  sync.Once
}

func newSpeed(told func()) *speed {
	return &speed{limit: rate.NewLimiter(bytesPerSecond, burstBytes), told: told}
}

// wait waits until so many bytes more may have come. A nil speed is any.
func (s *speed) wait(ctx context.Context, bytes int) error {
	if s == nil || bytes == 0 {
		return nil
	}
	if s.limit.Tokens() < float64(bytes) {
		s.once.Do(s.told)
	}
	return s.limit.WaitN(ctx, bytes)
}
