package app

import "time"

// first is the first lists of a start without a checkpoint. They are committed
// as one: nothing is published before the hub's are there, and a row would be
// computed anew for each list that it depends on.
//
// Those of the members are waited for as well, but not for a member that says
// nothing.
type first struct {
	mail         holder // nil: there is nothing to wait for
	hub, members func() bool
	listed       time.Time // when the hub was known, zero: not yet
}

// holder is what first needs of cluster.Mailbox.
type holder interface {
	Hold()
	Release()
}

const (
	firstPatience = 2 * time.Second       // with members, from when the hub is known
	firstLook     = 50 * time.Millisecond // how often it is looked
)

// hold begins to wait until the hub, and then all members, are known.
func (f *first) hold(mail holder, hub, members func() bool) {
	*f = first{mail: mail, hub: hub, members: members}
	mail.Hold()
}

// due ends the waiting when it is time to, and returns when it wants to be asked
// again; zero: it has ended.
func (f *first) due(now time.Time) (next time.Time) {
	switch {
	case f.mail == nil:
		return time.Time{}
	case !f.hub():
		return now.Add(firstLook)
	case f.listed.IsZero():
		f.listed = now
	}
	if !f.members() && now.Before(f.listed.Add(firstPatience)) {
		return now.Add(firstLook)
	}
	f.mail.Release()
	*f = first{}
	return time.Time{}
}
