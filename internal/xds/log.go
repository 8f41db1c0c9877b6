package xds

import "sync"

// Commit is what changes in one step: no stream sees a part of it. Together its
// changes must leave no resource using one that the views which have it lack,
// unless the user asked for just that.
type Commit struct {
	Contents []Content
	Views    []ViewOf
	Edges    []EdgeOf
}

// Content is what changes in a collection, which is made if there is none. Held
// tells for which names absence says nothing: nothing with such a name is
// removed from a client or said to be absent, and with name "*" no empty answer
// is given for the type. It must be pure and fast; nil holds nothing. What was
// held before is looked at again.
//
// A collection that is Gone leaves whoever has it with what it had.
type Content struct {
	Collection string
	Changes    []Change
	Held       func(t TypeURL, name string) bool
	Gone       bool
}

// ViewOf says which collections a view is made of: whoever has it sees their
// union. Two of them may have one name only with the same content. Of a view
// that nothing was said of there is one collection, of its own name. A view without
// Collections is gone: who follows it keeps what it had.
type ViewOf struct {
	ID          string
	Collections []string
}

// EdgeOf says which view an edge has from now on; empty: none.
type EdgeOf struct{ Edge, View string }

// log is the commits that nobody applied yet. Who appends to it waits for
// nobody: not for the sessions, which hold the store while they take a step.
type log struct {
	mu      sync.Mutex
	commits []Commit
}

func (l *log) add(c Commit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits = append(l.commits, c)
}

// take returns what there is, oldest first.
func (l *log) take() []Commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.commits
	l.commits = nil
	return out
}

func (l *log) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.commits) > 0
}

// Commit makes a step. It never waits for a client: if a session takes a step
// now, the commit is made at the end of that, before any other session's.
func (s *Store) Commit(c Commit) {
	s.log.add(c)
	s.drain()
}

// drain applies what is in the log, unless whoever holds the store will.
func (s *Store) drain() {
	for s.log.any() && s.mu.TryLock() {
		s.apply()
		s.mu.Unlock()
	}
}

// lock takes the store for a step. All that was committed before is applied.
func (s *Store) lock() {
	s.mu.Lock()
	s.apply()
}

// unlock gives the store back. Commits that came meanwhile are applied first.
func (s *Store) unlock() {
	s.apply()
	s.mu.Unlock()
	s.drain()
}

// apply makes the steps that are in the log. s.mu is held.
func (s *Store) apply() {
	for commits := s.log.take(); len(commits) > 0; commits = s.log.take() {
		for _, c := range commits {
			s.commit(c)
		}
	}
}
