package user

import (
	"context"
	"sync"
	"time"
)

// Load sends requests when they are due, not when an answer has come, until
// Room of them are without one.
type Load struct {
	Rate int // requests a second
	Room int
	// Draw makes request number n, from 0 on, one after another. judge gets
	// the reply; several run at a time.
	Draw func(n int) (r Request, judge func(Reply))

	mu     sync.Mutex
	counts Counts
}

// Counts is what there is to count whatever the answers are.
type Counts struct {
	Sent  int
	Late  int // sent late, since too many were without an answer
	Again int // sent once more by the HTTP client, on a fresh connection
}

// Plus adds up what two loads counted.
func (c Counts) Plus(o Counts) Counts {
	return Counts{c.Sent + o.Sent, c.Late + o.Late, c.Again + o.Again}
}

// Run sends requests until ctx ends, and waits for their answers: what was sent
// is not ended with the load.
func (l *Load) Run(ctx context.Context) {
	var flying sync.WaitGroup
	defer flying.Wait()
	room := make(chan struct{}, l.Room)
	tick := time.NewTicker(time.Second / time.Duration(l.Rate))
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(l.Rate)); sent < due; sent++ {
			if !l.admit(ctx, room) {
				return
			}
			r, judge := l.Draw(sent)
			flying.Go(func() {
				defer func() { <-room }()
				reply := r.Send(context.Background())
				l.count(Counts{Again: reply.Again})
				judge(reply)
			})
		}
	}
}

// admit waits for room and reports false at the end.
func (l *Load) admit(ctx context.Context, room chan struct{}) bool {
	now := Counts{Sent: 1}
	select {
	case room <- struct{}{}:
	default:
		now.Late = 1
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	l.count(now)
	return true
}

func (l *Load) count(more Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts = l.counts.Plus(more)
}

// Counts are those so far.
func (l *Load) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}
