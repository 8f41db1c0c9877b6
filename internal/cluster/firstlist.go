package cluster

// first is a first list of a part that is under way: it is taken as a whole or not at all.
type first struct {
	incoming load
	bytes    int   // on the wire
	excess   error // it is over a limit, and is not taken
}

// begin says that a first list of a part begins.
func (s *store) begin(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firsts == nil {
		s.firsts = map[string]*first{}
	}
	s.firsts[part] = &first{}
	s.listing.Store(int32(len(s.firsts)))
	for of, q := range s.asked {
		if s.isOf(part, of) {
			q.alone = false
		}
	}
}

// end says that a first list of a part has ended; s.mu is held.
func (s *store) end(part string) {
	delete(s.firsts, part)
	s.listing.Store(int32(len(s.firsts)))
}

// broke says that what came of a first list is lost. It may come anew.
func (s *store) broke(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.firsts[part]; f != nil {
		f.incoming, f.bytes = load{}, 0
	}
}

// afresh says that no list is under way, and that it is not known what the server hides: a
// connection begins.
func (s *store) afresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.firsts)
	clear(s.veiled)
	s.listing.Store(0)
}

// admit counts an object of a first list. It fails, and so does all that follows, where
// there is more than a limit allows.
func (s *store) admit(part string, w weight) error {
	if s.listing.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.firsts[part]
	if f == nil {
		return nil
	}
	f.incoming.add(w)
	if f.excess == nil {
		f.excess = s.limits.over(s.becoming(f), s.plural)
	}
	return f.excess
}

// took counts what is read of a first list. Those under way may be held as they came, so
// that the limit is one of all of them.
func (s *store) took(part string, n int) error {
	if s.listing.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firsts[part] == nil {
		return nil
	}
	s.firsts[part].bytes += n
	sum := 0
	for _, f := range s.firsts {
		sum += f.bytes
	}
	if sum > listLimit {
		return &excess{"bytes in a first list", listLimit}
	}
	return nil
}

// becoming is what there is when a first list is taken, nil for none: it comes in place of
// what is known of its part. Of others that are under way counts what is more, of each amount.
func (s *store) becoming(of *first) load {
	l := s.known.load
	for part, f := range s.firsts {
		have := s.known.loadOf(part)
		switch {
		case f == of:
			l.change(have, f.incoming)
		case f.excess == nil:
			l.change(have, have.larger(f.incoming))
		}
	}
	return l
}

// spoiled reports whether the first list of a part that is under way is over a limit.
func (s *store) spoiled(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.firsts[part]
	return f != nil && f.excess != nil
}

// lists reports whether a first list of a part is under way.
func (s *store) lists(part string) bool {
	if s.listing.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firsts[part] != nil
}

// complete reports whether the first list of a part is in the mailbox.
func (s *store) complete(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed[part]
}
