package xds

import (
	"slices"
	"sync"
)

// moves lets streams move to another view one after the other: a move compares
// all that both views have, and holds them meanwhile. Those that wait follow
// their old view, and are told of its changes.
type moves struct {
	mu     sync.Mutex
	inside *stream // that may move now
	queue  []*stream
}

// enter tells whether a stream may move now. If not it is woken, to ask again,
// when it is its turn. Who entered must leave.
func (m *moves) enter(st *stream) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.inside == nil:
		m.inside = st
	case m.inside != st && !slices.Contains(m.queue, st):
		m.queue = append(m.queue, st)
	}
	return m.inside == st
}

// leave gives the next one its turn. A stream that ends leaves, too.
func (m *moves) leave(st *stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = slices.DeleteFunc(m.queue, func(other *stream) bool { return other == st })
	if m.inside != st {
		return
	}
	m.inside = nil
	if len(m.queue) == 0 {
		return
	}
	m.inside = m.queue[0]
	m.queue = slices.Delete(m.queue, 0, 1)
	m.inside.recheck.Store(true)
	m.inside.member.wake()
}
