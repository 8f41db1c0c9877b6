package app

import "time"

// first is the first lists of a start. Those of a start without a checkpoint
// are committed as one: nothing is published before the hub's are there, and a
// row would be computed anew for each list that it depends on. A start from a
// checkpoint, which may be old, has no proxy come before it has read what
// changed since: one that has more than the checkpoint says would lose it for a
// moment.
//
// Lists of members are waited for as well, but not for a member that says
// nothing; and with a checkpoint not for a hub that does.
type first struct {
	over         func()      // nil: there is nothing to wait for
	hub, members func() bool // are they read?
	until        time.Time   // the hub is waited for; zero: as long as it takes
	patience     time.Duration
	read         time.Time // when the hub was, zero: not yet
}

const (
	firstPatience = 2 * time.Second             // with members, from when the hub is read
	hubPatience   = 2 * time.Second             // with the hub, where there is a checkpoint
	savedPatience = 500 * time.Millisecond      // with members then: a stale endpoint is retried elsewhere, a host that is gone is not
	holdFor       = hubPatience + savedPatience // a proxy's connection, before it is turned away: below the 5 s in which Envoy gives up a TLS handshake
	firstLook     = 10 * time.Millisecond       // how often it is looked
)

// due ends the waiting when it is time to, and returns when it wants to be asked
// again; zero: it has ended.
func (f *first) due(now time.Time) (next time.Time) {
	if f.over == nil {
		return time.Time{}
	}
	read := f.hub()
	if read && f.read.IsZero() {
		f.read = now
	}
	wait := f.until.IsZero() || now.Before(f.until)
	if read {
		wait = !f.members() && now.Before(f.read.Add(f.patience))
	}
	if wait {
		return now.Add(firstLook)
	}
	f.over()
	*f = first{}
	return time.Time{}
}
