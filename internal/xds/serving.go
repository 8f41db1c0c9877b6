package xds

// Whether a client can serve, by what it acknowledged.

// Serves tells whether the client can take connections: it acknowledged some
// version of a listener of its view, or the view has none.
func (s *Session) Serves() bool {
	held, all := s.listeners()
	return held > 0 || all == 0
}

// Whole is Serves for every listener of the view.
func (s *Session) Whole() bool {
	held, all := s.listeners()
	return held == all
}

// Loaded tells whether the client has its first state: it serves, said which
// routes it has, and acknowledged all that it follows.
func (s *Session) Loaded() bool {
	_, all := s.listeners()
	routed := all == 0 || s.topics[routes].asked || s.content.present(routes) == 0
	return routed && s.Serves() && s.Quiet()
}

// listeners counts those that the view has, and of those the ones that the
// client has. A gRPC client takes no connections: it has no need of any.
func (s *Session) listeners() (held, all int) {
	if s.world != nil {
		return 0, 0
	}
	t := &s.topics[listener]
	t.has.each(func(id uint32) bool {
		if s.content.get(listener, id) != nil && t.arrived(id) {
			held++
		}
		return true
	})
	return held, s.content.present(listener)
}
