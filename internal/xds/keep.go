package xds

// What a client keeps while the view is unsure. A resource is unsure when it
// was made without rows that should be there. A client that has nothing is
// sent it all the same: what is known is better than nothing. A client that has
// a version which was made with those rows, or may have been, is not: it keeps
// that until the resource is sure.
//
// A version that a client has from an earlier stream, of this process or of
// another, counts as sure unless it is the one that the view has.

// keeps tells whether the client is better off with the version it has than
// with this one. What it asked for anew it does not have any more.
func (s *Session) keeps(k kind, id uint32, res *resource) bool {
	t := &s.topics[k]
	if !t.arrived(id) || t.force.has(id) {
		return false
	}
	switch k {
	case cluster:
		return res.Unsure() && !t.guess.has(id) || s.keepsAssignments(res)
	case routes:
		return s.keepsNames(res)
	}
	return res.Unsure() && !t.guess.has(id)
}

// early tells whether a listener would come before it is known which hosts there
// are: a proxy that has none yet would answer 404 for those to come.
func (s *Session) early(k kind, id uint32) bool {
	return k == listener && s.world == nil && !s.topics[k].has.has(id) && s.content.isHeld(scope, everything)
}

// untold tells whether a client may not be told that there is nothing of a type.
func (s *Session) untold(k kind) bool {
	return s.content.isHeld(k, everything) || k == listener && s.world == nil && s.content.isHeld(scope, everything)
}

// keepsAssignments tells whether the client keeps an assignment of a cluster:
// it would need the assignment again after the cluster. A client that
// reconnects names its clusters before its assignments.
func (s *Session) keepsAssignments(res *resource) bool {
	t := &s.topics[assignment]
	for _, ref := range res.refs() {
		if ref.kind != assignment {
			continue
		}
		now := s.content.get(assignment, ref.id)
		if now == nil && t.has.has(ref.id) && s.content.isHeld(assignment, s.content.name(assignment, ref.id)) {
			return true
		}
		if now == nil || !now.Unsure() {
			continue
		}
		if !t.asked && !s.resumed.IsZero() {
			return true
		}
		if _, stale := t.staleVersion(ref.id); stale && t.arrived(ref.id) && !t.guess.has(ref.id) {
			return true
		}
	}
	return false
}

// keepsNames tells whether routes lead to a cluster whose backend the client
// knows by another name, and nobody is sure of either.
func (s *Session) keepsNames(res *resource) bool {
	if !s.content.doubtful() {
		return false
	}
	for _, ref := range res.refs() {
		if ref.kind == cluster && s.knowsAnother(s.content.name(cluster, ref.id)) {
			return true
		}
	}
	return false
}

// knowsAnother tells whether the client has an absent cluster of the family of
// this one, while nobody is sure of it.
func (s *Session) knowsAnother(name string) bool {
	family := s.content.family(name)
	if !s.content.doubts(family) {
		return false
	}
	t, found := &s.topics[cluster], false
	look := func(id uint32) bool {
		found = found || s.content.get(cluster, id) == nil && t.has.has(id) && s.content.family(s.content.name(cluster, id)) == family
		return !found
	}
	t.held.each(look)
	for id := range t.leaving { // it may be said to leave before it is known to be held
		look(id)
	}
	return found
}

// unkeep looks again at all that is kept or held.
func (s *Session) unkeep() bool {
	found := false
	for k := range s.topics {
		t := &s.topics[k]
		found = found || t.held.any()
		t.dirty.add(&t.held)
		t.held = bitset{}
	}
	return found
}
