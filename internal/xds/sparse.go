package xds

import (
	"math/bits"
	"slices"
)

// sparse is values by small numbers. It costs what it has and, a little, from its
// lowest number to its highest.
type sparse[V any] struct {
	ids   bitset // that have a value
	pages [][]V  // the values of 64 ids each, by id; beginning with those of page first
	first uint32
}

// place is where the value of an id is, or would be, in its page.
func (s *sparse[V]) place(id uint32) int {
	below := s.ids.word(id>>6) & (1<<(id&63) - 1)
	return bits.OnesCount64(below)
}

// at is the value of an id, or none.
func (s *sparse[V]) at(id uint32) (v V) {
	if s.ids.has(id) {
		v = s.pages[id>>6-s.first][s.place(id)]
	}
	return v
}

func (s *sparse[V]) put(id uint32, v V) {
	s.reach(id >> 6)
	page, at := &s.pages[id>>6-s.first], s.place(id)
	if !s.ids.set(id) {
		(*page)[at] = v
		return
	}
	if n := len(*page); n == cap(*page) { // one, then 8, then 64
		*page = append(make([]V, 0, max(1, 8*n)), *page...)
	}
	*page = slices.Insert(*page, at, v)
}

func (s *sparse[V]) drop(id uint32) {
	if !s.ids.has(id) {
		return
	}
	page, at := &s.pages[id>>6-s.first], s.place(id)
	s.ids.clear(id)
	if *page = slices.Delete(*page, at, at+1); len(*page) == 0 {
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
		s.pages, s.first = make([][]V, 1), page
	case page < s.first:
		s.pages = append(make([][]V, s.first-page), s.pages...)
		s.first = page
	case page >= s.first+n:
		s.pages = append(s.pages, make([][]V, page-s.first-n+1)...)
	}
}
