package xds

// see is what the streams of a view see that are of no edge.
func (s *Store) see(view string) *catalog {
	s.lock()
	defer s.unlock()
	return &s.group(groupKey{view, ""}).content
}
