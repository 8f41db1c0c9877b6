package xds

// Whether a client can serve, by what it acknowledged.

// Serves tells whether the client can take connections: it acknowledged some
// version of a listener of its view, or the view has none.
func (s *Session) Serves() bool {
	return s.listeners() == 0 || s.hasListeners(1)
}

// Whole is Serves for every listener of the view.
func (s *Session) Whole() bool { return s.hasListeners(s.listeners()) }

// Loaded tells whether the client has its first state: it serves, said which
// routes it has, and acknowledged all that it follows.
func (s *Session) Loaded() bool {
	all := s.listeners()
	routed := all == 0 || s.topics[routes].asked || s.content.present(routes) == 0
	return routed && s.Serves() && s.Quiet()
}

// listeners counts those of the view. A gRPC client takes no connections: it has no
// need of any.
func (s *Session) listeners() int {
	if s.world != nil {
		return 0
	}
	return s.content.present(listener)
}

// hasListeners tells whether the client has so many of the view's listeners. It looks at
// no more than that takes.
func (s *Session) hasListeners(want int) bool {
	t := &s.topics[listener]
	return want <= 0 || !t.has.each(func(id uint32) bool {
		if s.content.get(listener, id) != nil && t.arrived(id) {
			want--
		}
		return want > 0
	})
}
