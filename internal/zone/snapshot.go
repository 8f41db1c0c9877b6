package zone

import "slices"

// Snapshot is all that answers are made from: zones, hosts, places. It is
// immutable; the zero value knows nothing and refuses everything. Hosts are
// kept apart from zones, so a zone may come before or after its hosts.
type Snapshot struct {
	zones  pmap[*Zone]
	depths []int // how many zones have an apex of so many labels
	names  pmap[node]
	places Locator // from the hub; nil: none
	geo    Locator // from a database; asked where places has no entry
	held   bool
}

// node is a name that exists: it has records, a wildcard below it, or children.
type node struct {
	set  *RecordSet
	wild *RecordSet // of "*." and this name
	kids int32      // existing names one label longer, the wildcard not counted
}

func (n node) empty() bool { return n.set == nil && n.wild == nil && n.kids == 0 }

// WithHeld sets whether zones may be missing: a name outside of every zone is
// then SERVFAIL, not REFUSED.
func (s Snapshot) WithHeld(held bool) *Snapshot {
	s.held = held
	return &s
}

// WithPlaces sets the table of places. Nil: none.
func (s Snapshot) WithPlaces(l Locator) *Snapshot {
	s.places = l
	return &s
}

// WithGeo sets the locator that is asked where the table of places has no
// entry. Nil: none.
func (s Snapshot) WithGeo(l Locator) *Snapshot {
	s.geo = l
	return &s
}

// WithZone adds a zone, in place of one with the same apex.
func (s Snapshot) WithZone(z *Zone) *Snapshot {
	before := s.zones.size
	s.zones = s.zones.with(z.spec.Apex, z)
	s.countDepth(z.spec.Apex, s.zones.size-before)
	return &s
}

// WithoutZone takes a zone away. Its hosts stay, unanswered.
func (s Snapshot) WithoutZone(apex Name) *Snapshot {
	before := s.zones.size
	s.zones = s.zones.without(apex)
	s.countDepth(apex, s.zones.size-before)
	return &s
}

func (s *Snapshot) countDepth(apex Name, by int) {
	depth := apex.labels()
	s.depths = slices.Clone(s.depths)
	for len(s.depths) <= depth {
		s.depths = append(s.depths, 0)
	}
	s.depths[depth] += by
	for len(s.depths) > 0 && s.depths[len(s.depths)-1] == 0 {
		s.depths = s.depths[:len(s.depths)-1]
	}
}

// WithHost sets what a host has; nil takes it away. The host may be a wildcard.
func (s Snapshot) WithHost(host Name, set *RecordSet) *Snapshot {
	if isWildcard(host) {
		base := host.parent()
		n, _ := s.names.get([]byte(base))
		n.wild = set
		s.put(base, n)
		return &s
	}
	n, _ := s.names.get([]byte(host))
	n.set = set
	s.put(host, n)
	return &s
}

// put stores a node and keeps the counts of its ancestors right.
func (s *Snapshot) put(name Name, n node) {
	_, had := s.names.get([]byte(name))
	by := int32(0)
	switch {
	case n.empty() && !had:
		return
	case n.empty():
		s.names, by = s.names.without(name), -1
	default:
		s.names = s.names.with(name, n)
		if !had {
			by = 1
		}
	}
	if by == 0 || len(name) <= 1 {
		return
	}
	up := name.parent()
	n, _ = s.names.get([]byte(up))
	n.kids += by
	s.put(up, n)
}

func isWildcard(n Name) bool { return len(n) > 2 && n[0] == 1 && n[1] == '*' }
