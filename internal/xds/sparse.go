package xds

// sparse is values by small numbers. It costs what it has and, a little, from its
// lowest number to its highest.
type sparse[V any] struct {
	ids   bitset   // that have a value
	pages []*[64]V // by id/64, beginning with first; nil: none of it has
	first uint32
}

// at is the value of an id, or none.
func (s *sparse[V]) at(id uint32) (v V) {
	page := id>>6 - s.first // a huge number where it is below
	if page < uint32(len(s.pages)) && s.pages[page] != nil {
		v = s.pages[page][id&63]
	}
	return v
}

func (s *sparse[V]) put(id uint32, v V) {
	s.ids.set(id)
	s.reach(id >> 6)
	page := &s.pages[id>>6-s.first]
	if *page == nil {
		*page = new([64]V)
	}
	(*page)[id&63] = v
}

func (s *sparse[V]) drop(id uint32) {
	if !s.ids.clear(id) {
		return
	}
	var none V
	page := &s.pages[id>>6-s.first]
	(*page)[id&63] = none
	if s.ids.word(id>>6) == 0 {
		*page = nil
	}
	if !s.ids.any() {
		s.pages = nil
	}
}

// reach makes room for a page.
func (s *sparse[V]) reach(page uint32) {
	switch n := uint32(len(s.pages)); {
	case n == 0:
		s.pages, s.first = make([]*[64]V, 1), page
	case page < s.first:
		s.pages = append(make([]*[64]V, s.first-page), s.pages...)
		s.first = page
	case page >= s.first+n:
		s.pages = append(s.pages, make([]*[64]V, page-s.first-n+1)...)
	}
}
