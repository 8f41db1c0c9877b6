package cluster

import "maps"

// topic is what an object is about, by which it is read or not: a model.Service, as most
// members call it, or a model.SecretID.
type topic any

// What a store does with objects that give no rows since nothing refers to them, and with
// those whose facts wait: see reads. The caller of what has no lock of its own has it.

// spared reports whether an object gives no rows.
func (s *store) spared(d *seen) bool {
	if s.named != nil { // the member may call it otherwise since it came
		d.of = s.named(d.n)
	}
	return s.wanted != nil && !s.wanted(d.of)
}

// setAside takes the rows of an object away, and keeps it aside where that is done.
func (s *store) setAside(d *seen, urge Urgency) {
	s.remove(d.n, urge)
	if !s.setsAside || s.closed {
		return
	}
	if s.aside == nil {
		s.aside = map[name]aside{}
	}
	s.aside[d.n] = aside{d.facts, d.weight}
	s.known.count(d.n, d.weight)
}

// aside is an object that gives no rows, and would.
type aside struct {
	facts  []fact
	weight weight
}

func (s *store) dropAside(n name) {
	if a, ok := s.aside[n]; ok {
		s.known.uncount(n, a.weight)
		delete(s.aside, n)
	}
}

// emptyAside forgets those of a part, which are all where there is one: a map never shrinks.
func (s *store) emptyAside(part string) {
	for n := range s.aside {
		if within(part, n.namespace) {
			s.dropAside(n)
		}
	}
	if len(s.aside) == 0 {
		s.aside = nil
	}
}

// give has an object give its rows, if it was aside. It reports whether there is one, and
// whether that is known.
func (s *store) give(n name) (there, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.aside[n]; ok {
		s.dropAside(n)
		s.put(&seen{n: n, facts: a.facts, packed: packedAs(s.kind, n, a.facts), weight: a.weight}, Urgent)
		return true, s.listed[s.partOf(n.namespace)]
	}
	_, there = s.known.facts(n)
	return there, s.listed[s.partOf(n.namespace)]
}

// spare puts an object aside that gave a row.
func (s *store) spare(n name, f fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, there := s.known.facts(n)
	if !there || len(was) != 1 || !was[0].equal(f) || s.wanted == nil {
		return // it has changed since, or has more to say than a row
	}
	_, weight := s.known.marks(n)
	s.setAside(&seen{n: n, facts: []fact{f}, weight: *weight}, Bulk)
}

// shed drops an object if what it is about is not wanted.
func (s *store) shed(n name, of topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted(of) {
		s.remove(n, Urgent)
	}
}

// sweep drops objects whose rows are not wanted.
func (s *store) sweep(wanted func(fact) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.known.names(every) {
		if facts, _ := s.known.facts(n); len(facts) == 1 && !wanted(facts[0]) {
			s.remove(n, Bulk)
		}
	}
	s.known.shrink(4)
}

// touch notes that an object came by itself: what a question says of it may be older.
func (s *store) touch(d *seen) {
	if q := s.asked[d.of]; q != nil {
		q.came[d.n] = true
	}
}

// question is one about a topic.
type question struct {
	number uint64        // 0: nobody waits for the answer
	alone  bool          // no list answers it that has begun
	came   map[name]bool // objects that came by themselves since
}

// ask notes that the server is asked about a topic, unless it does not let us see that. What
// was asked before is not worth an answer any more. Alone, no list answers it that is under
// way: what came of it was taken to be about another one.
func (s *store) ask(of topic, number uint64, alone bool) (noted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.isVeiled(of) {
		return false
	}
	if number == 0 && s.asked[of] != nil {
		return true
	}
	if s.asked == nil {
		s.asked = map[topic]*question{}
	}
	s.asked[of] = &question{number, alone, map[name]bool{}}
	return true
}

// questions are what the server is to be asked about a part, by topic; nothing while its
// list is awaited, which answers them.
func (s *store) questions(part string) map[topic]*question {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed[part] || s.firsts[part] != nil {
		return nil
	}
	out := maps.Clone(s.asked)
	maps.DeleteFunc(out, func(of topic, _ *question) bool { return !s.isOf(part, of) })
	return out
}

// answer takes what the server says of a topic. What came by itself in the meantime is
// as new or will be. It fails where that is over a limit.
func (s *store) answer(of topic, q *question, objects []*seen) error {
	s.mu.Lock()
	if s.asked[of] != q || s.closed {
		s.mu.Unlock()
		return nil // a list has answered it, or it was asked anew
	}
	delete(s.asked, of)
	var err error
	for _, d := range objects {
		if q.came[d.n] || !s.has(d.n.namespace) {
			continue
		}
		if err = s.fits(d); err != nil {
			break
		}
		s.apply(d, Urgent)
	}
	s.mu.Unlock()
	s.answered(of, q.number)
	return err
}

// begun reports whether anything has come, ever.
func (s *store) begun() bool {
	s.taking.Lock()
	defer s.taking.Unlock()
	return s.arrived > 0
}

// settled are the questions that a list has answered: but for those of which it has
// objects that were not read, since nothing asked when they came.
func (s *store) settled(part string, unread map[topic]bool) (told map[topic]uint64) {
	told = map[topic]uint64{}
	for of, q := range s.asked {
		if s.isOf(part, of) && !unread[of] && !q.alone {
			delete(s.asked, of)
			told[of] = q.number
		}
	}
	return told
}

// hold keeps the facts of an object back while members are asked about what they refer
// to, and reports whether it does.
func (s *store) hold(d *seen, urge Urgency) bool {
	if s.waits == nil || !s.waits(d.facts, func() { s.release(d) }) {
		return false
	}
	d.urge = urge
	s.held[d.n] = d
	return true
}

// holds reports whether facts of some object wait.
func (s *store) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0
}

// release has facts go on, if they are still those of the object.
func (s *store) release(d *seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[d.n] == d && !s.closed {
		delete(s.held, d.n)
		s.put(d, d.urge)
	}
}
