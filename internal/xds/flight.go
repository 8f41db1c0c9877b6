package xds

import "time"

// flight is the unanswered response of a type. No id is in it twice.
type flight struct {
	nonce string
	seq   uint64 // of the nonce
	at    time.Time
	items []item
	index map[uint32]int // of a long one's items, by id: made when somebody looks
}

type item struct {
	id      uint32
	version string // empty: removed
	forced  bool   // sent although the client may have had it
	void    bool   // unsubscribed meanwhile: the answer says nothing
}

// shortFlight is how many items are searched one by one. Nearly every response
// is as short and needs no index; a client that drops or asks for all names of a
// long one must not cost names times items.
const shortFlight = 16

// find returns the item of an id, nil if there is none.
func (f *flight) find(id uint32) *item {
	if f == nil {
		return nil
	}
	if len(f.items) <= shortFlight {
		for i := range f.items {
			if f.items[i].id == id {
				return &f.items[i]
			}
		}
		return nil
	}
	if f.index == nil {
		f.index = make(map[uint32]int, len(f.items))
		for i := range f.items {
			f.index[f.items[i].id] = i
		}
	}
	if i, ok := f.index[id]; ok {
		return &f.items[i]
	}
	return nil
}

// inFlight tells whether the unanswered response carries the id.
func (t *topic) inFlight(id uint32) bool {
	it := t.flight.find(id)
	return it != nil && !it.void
}

// crossed: a response from before the client dropped this name may reach it now
// that it asked again. What it has then is unknown.
func (s *Session) crossed(k kind, id uint32) {
	if it := s.topics[k].flight.find(id); it != nil {
		s.crossedItem(k, it)
	}
}

// crossedAll is the same for all names.
func (s *Session) crossedAll(k kind) {
	if f := s.topics[k].flight; f != nil {
		for i := range f.items {
			s.crossedItem(k, &f.items[i])
		}
	}
}

func (s *Session) crossedItem(k kind, it *item) {
	if it.void && it.version != "" {
		s.suppose(k, it.id)
		s.topics[k].dirty.set(it.id)
	}
}
