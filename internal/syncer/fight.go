package syncer

import "time"

// A leaf that somebody else changed is put right: at once the first time, then
// later each time, so that two who each hold another truth cost the member
// little. What is repaired often is contested until it has been calm.
const (
	againFirst = time.Second
	againLast  = 5 * time.Minute
	calm       = 2 * againLast // without a change by others: it is over
	loud       = 4             // repairs after which it is told
)

// fight is how often a leaf was put right.
type fight struct {
	times int
	last  time.Time
}

// rest is how long to leave it alone.
func (f fight) rest(now time.Time) time.Duration {
	if f.times == 0 {
		return 0
	}
	return f.last.Add(min(againFirst<<min(f.times-1, 16), againLast)).Sub(now)
}

// again counts a repair.
func (f *fight) again(now time.Time) {
	if now.Sub(f.last) > calm {
		f.times = 0
	}
	f.times++
	f.last = now
}

// over is how long until a contested leaf is a leaf as any other; 0: it is.
func (f fight) over(now time.Time) time.Duration {
	if f.times < loud {
		return 0
	}
	return max(0, f.last.Add(calm).Sub(now))
}
