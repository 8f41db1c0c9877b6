package cluster

import (
	"errors"
	"slices"
	"strings"
)

// A member may be read in some of its namespaces only. Then each is listed and watched
// alone, so that rights in these are enough, and all write into the store of their kind:
// limits are those of the member, and when namespaces come or go the others' rows stay.

// share is what one source says of a store: that of all namespaces (empty), or of one.
type share struct {
	*store
	namespace string
}

// Replace takes a list of the part.
func (p share) Replace(list []any, version string) error {
	return p.replacePart(p.namespace, list, version)
}

// first is a first list of a part under way.
type first struct {
	incoming load
	excess   error // it is over a limit, and is not taken
}

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

// restrict has these namespaces be read alone; nil: all. What is known of others goes.
// A connection that still reads others is about to end: what it brings of them is not taken.
func (s *store) restrict(namespaces []string) {
	s.mu.Lock()
	if s.closed || slices.Equal(s.only, namespaces) {
		s.mu.Unlock()
		return
	}
	listed := map[string]bool{}
	for _, n := range namespaces {
		if s.listed[n] || s.listed[""] {
			listed[n] = true
		}
	}
	s.only, s.listed = namespaces, listed
	for _, n := range s.known.names(func(uint32) bool { return true }) {
		if !s.has(n.namespace) {
			s.remove(n, Bulk)
		}
	}
	for n := range s.aside {
		if !s.has(n.namespace) {
			s.dropAside(n)
		}
	}
	for n := range s.held {
		if !s.has(n.namespace) {
			delete(s.held, n)
		}
	}
	told := map[topic]uint64{}
	for of, q := range s.asked {
		if s.space != nil && !s.has(s.space(of)) {
			delete(s.asked, of)
			told[of] = q.number
		}
	}
	s.mu.Unlock()
	for of, number := range told {
		s.answered(of, number)
	}
}

// afresh says that no list is under way: a connection begins.
func (s *store) afresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.firsts)
	s.listing.Store(0)
}

// elsewhere is what is known, or comes, of other parts than those that are listed now.
func (s *store) elsewhere() (l load) {
	if s.only == nil {
		return l
	}
	add := func(n name, w weight) {
		if s.firsts[n.namespace] == nil {
			l.add(w)
		}
	}
	for n := range s.known.all {
		_, w := s.known.marks(n)
		add(n, *w)
	}
	for n, a := range s.aside {
		add(n, a.weight)
	}
	return l
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

// elseIn is a failure in a namespace.
type elseIn struct {
	error
	namespace string
}

func (e elseIn) Unwrap() error { return e.error }

// in says in which namespace something failed; empty: in all.
func in(namespace string, err error) error {
	if namespace == "" {
		return err
	}
	return elseIn{err, namespace}
}

// inWords is " in namespace x"; nothing for all.
func inWords(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// where says where rights are missing.
func where(err error) string {
	var e elseIn
	if errors.As(err, &e) {
		return "in namespace " + e.namespace + ", which spec.readNamespaces names"
	}
	return "in all namespaces"
}
