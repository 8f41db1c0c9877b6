package zone

import (
	"slices"
	"strings"
)

// Snapshot is all that answers are made from: zones, hosts, places. It is
// immutable; the zero value knows nothing and refuses everything. Hosts are
// kept apart from zones, so a zone may come before or after its hosts.
type Snapshot struct {
	zones  pmap[*Zone]
	depths []int // how many zones have an apex of so many labels
	names  pmap[node]
	bases  []int   // how many wildcards of any depth are below a name of so many labels
	places Locator // from the hub; nil: none
	geo    Locator // from a database; asked where places has no entry
	held   bool
}

// node is a name that exists: it has records, a wildcard below it, or children,
// or is the apex of a zone.
type node struct {
	set  *RecordSet
	wild *wilds // below it; nil: none
	kids int32  // existing names one label longer, wildcards not counted
	apex bool
}

// wilds is what the wildcards below a name have, for one label and for any number.
type wilds struct{ one, any *RecordSet }

func (n node) empty() bool { return n.set == nil && n.wild == nil && n.kids == 0 && !n.apex }

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
	s.depths = counted(s.depths, z.spec.Apex, s.zones.size-before)
	s.setApex(z.spec.Apex, true)
	return &s
}

// WithoutZone takes a zone away. Its hosts stay, unanswered.
func (s Snapshot) WithoutZone(apex Name) *Snapshot {
	before := s.zones.size
	s.zones = s.zones.without(apex)
	s.depths = counted(s.depths, apex, s.zones.size-before)
	s.setApex(apex, false)
	return &s
}

// setApex makes a name one that exists because of a zone: in the zone above, too,
// where nobody could delegate it.
func (s *Snapshot) setApex(name Name, is bool) {
	n, _ := s.names.get([]byte(name))
	n.apex = is
	s.put(name, n)
}

// counted is how many names have so many labels, with some more of one.
func counted(depths []int, of Name, by int) []int {
	depth := of.labels()
	depths = slices.Clone(depths)
	for len(depths) <= depth {
		depths = append(depths, 0)
	}
	depths[depth] += by
	for len(depths) > 0 && depths[len(depths)-1] == 0 {
		depths = depths[:len(depths)-1]
	}
	return depths
}

// WithHost sets what a host has; nil takes it away. The host may be a wildcard: its
// first label is then "*" for one label, "**" for any number (see model.Host).
func (s Snapshot) WithHost(host Name, set *RecordSet) *Snapshot {
	if stars := host.stars(); stars > 0 {
		base := host.parent()
		n, _ := s.names.get([]byte(base))
		var has wilds
		if n.wild != nil {
			has = *n.wild
		}
		if stars == 1 {
			has.one = set
		} else {
			if (has.any == nil) != (set == nil) {
				s.bases = counted(s.bases, base, map[bool]int{true: 1, false: -1}[has.any == nil])
			}
			has.any = set
		}
		if n.wild = &has; has == (wilds{}) {
			n.wild = nil
		}
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

// stars is the length of a first label that is "*" or "**"; else 0.
func (n Name) stars() int {
	for _, label := range [...]string{"\x01*", "\x02**"} {
		if strings.HasPrefix(string(n), label) {
			return len(label) - 1
		}
	}
	return 0
}
