package app

import (
	"sync"
	"time"
)

// beat is how often the watchdog looks, and with it at the clock, so that a
// longer while between two looks is one in which the process did not run.
const (
	beat    = time.Second
	missing = 3 * beat
)

// catchUp: a clock that lost time goes faster by this part until it has it back.
const catchUp = 8

// steady is a clock that stands still while the process does: stopped by a
// signal, or on a machine that gave it no time. Whoever did not say a word in
// that time was not silent, it was we who did not listen; so nothing that proxies
// said, and no witness, is older for it. It counts by the monotonic clock.
type steady struct {
	real func() time.Time

	mu   sync.Mutex
	last time.Time
	lost time.Duration
}

func (c *steady) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.real()
	since := now.Sub(c.last)
	switch {
	case c.last.IsZero():
	case since > missing:
		c.lost += since - beat
	default:
		c.lost -= min(c.lost, since/catchUp)
	}
	c.last = now
	return now.Add(-c.lost)
}
