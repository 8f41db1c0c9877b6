package cluster

import (
	"maps"
	"slices"
	"strings"
)

// A member may be read in some of its namespaces only. Then each is listed and watched
// alone, so that rights in these are enough, and all write into the store of their kind:
// limits are those of the member, and when namespaces come or go the others' rows stay.

// split are the namespaces that a list has, as it is kept: sorted, with commas.
func split(namespaces string) []string {
	if namespaces == "" {
		return nil
	}
	return strings.Split(namespaces, ",")
}

// reads reports whether a namespace is read.
func (s *store) reads(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has(namespace)
}

// has is reads; s.mu is held.
func (s *store) has(namespace string) bool {
	return s.only == nil || slices.Contains(s.only, namespace)
}

// partOf is the part that a namespace belongs to; s.mu is held.
func (s *store) partOf(namespace string) string {
	if s.only == nil {
		return ""
	}
	return namespace
}

// within reports whether a namespace is of a part.
func within(part, namespace string) bool { return part == "" || part == namespace }

// isOf reports whether a topic is of a part.
func (s *store) isOf(part string, of topic) bool {
	return part == "" || s.space != nil && s.space(of) == part
}

// isPart reports whether a source should read a part; s.mu is held.
func (s *store) isPart(part string) bool {
	if s.only == nil {
		return part == ""
	}
	return slices.Contains(s.only, part)
}

// restrict has these namespaces be read alone; nil: all. What is known of others goes, and
// of the rest it stays. A connection that reads others is about to end: what it brings of
// them is not taken. Who waits for what is said of them does so for askPatience at most.
func (s *store) restrict(namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || slices.Equal(s.only, namespaces) {
		return
	}
	s.only, s.listed = namespaces, s.listedOf(namespaces)
	clear(s.veiled)
	for _, n := range s.known.names(every) {
		if !s.has(n.namespace) {
			s.remove(n, Bulk)
		}
	}
	maps.DeleteFunc(s.held, func(n name, _ *seen) bool { return !s.has(n.namespace) })
	maps.DeleteFunc(s.asked, func(of topic, _ *question) bool { return s.space != nil && !s.has(s.space(of)) })
	for n := range s.aside {
		if !s.has(n.namespace) {
			s.dropAside(n)
		}
	}
	s.countApart()
}

// listedOf are the parts that were listed of some that are to be read.
func (s *store) listedOf(namespaces []string) map[string]bool {
	out := map[string]bool{}
	for _, n := range namespaces {
		if s.listed[n] || s.listed[""] {
			out[n] = true
		}
	}
	return out
}

// countApart has the load of each part be counted.
func (s *store) countApart() {
	s.known.loads = nil
	if s.only == nil {
		return
	}
	loads := map[string]*load{}
	for _, n := range s.only {
		loads[n] = &load{}
	}
	s.known.loads = loads
	for n := range s.known.all {
		_, w := s.known.marks(n)
		s.known.countIn(n, *w)
	}
	for n, a := range s.aside {
		s.known.countIn(n, a.weight)
	}
}

// veil says that the server does not let us see a part, or that it does. What was known of
// it stays, and nobody waits for more.
func (s *store) veil(part string, on bool) {
	s.mu.Lock()
	if !on {
		delete(s.veiled, part)
		s.mu.Unlock()
		return
	}
	if !s.isPart(part) {
		s.mu.Unlock()
		return
	}
	if s.veiled == nil {
		s.veiled = map[string]bool{}
	}
	s.veiled[part] = true
	told := map[topic]uint64{}
	for of, q := range s.asked {
		if s.isOf(part, of) {
			delete(s.asked, of)
			told[of] = q.number
		}
	}
	s.mu.Unlock()
	for of, number := range told {
		s.answered(of, number)
	}
}

// isVeiled reports whether a topic is of a part that the server does not let us see.
func (s *store) isVeiled(of topic) bool {
	for part := range s.veiled {
		if s.isOf(part, of) {
			return true
		}
	}
	return false
}
