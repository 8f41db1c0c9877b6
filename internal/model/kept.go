package model

import "slices"

// Kept is who is remembered to have the places of a backend that a Placement limits, by
// member, each once.
type Kept []KeptPlace

// KeptPlace is the place of a member.
type KeptPlace struct {
	Member Member
	// Since is when it was seen that the member has the Service no more, in Unix
	// milliseconds. 0: it has it, or has lost it just now.
	Since int64
	// Over: that was longer ago than the Placement has places held. From then on the
	// member has its place only while nobody else could have it.
	Over bool
}

// Equal reports whether both are the same.
func (a Kept) Equal(b Kept) bool { return slices.Equal(a, b) }

// find is the index of a member's place.
func (a Kept) find(m Member) (int, bool) {
	return slices.BinarySearchFunc(a, m, func(p KeptPlace, m Member) int { return p.Member.Compare(m) })
}

// Find is the place of a member, if it has one.
func (a Kept) Find(m Member) (KeptPlace, bool) {
	i, ok := a.find(m)
	if !ok {
		return KeptPlace{}, false
	}
	return a[i], true
}

// Ended is what is remembered when the hold of a member is over. A member that has the
// Service again meanwhile is held no more.
func (a Kept) Ended(m Member) Kept {
	i, ok := a.find(m)
	if !ok || a[i].Since == 0 {
		return a
	}
	out := slices.Clone(a)
	out[i].Over = true
	return out
}
