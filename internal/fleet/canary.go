package fleet

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Canaries are a few ready endpoints of a member, of different backends where
// it has them: edges probe these to tell whether the way to the member works.
type Canaries []netip.AddrPort

// Equal reports whether both hold the same.
func (a Canaries) Equal(b Canaries) bool { return slices.Equal(a, b) }

// canaryCount is how many canaries a member has, if it has so many endpoints.
// More than one, so that a single broken pod says nothing about the member.
const canaryCount = 3

// keptCandidates is how many groups of a member are kept in mind. As long as
// enough of them have a ready endpoint, nobody looks at the others.
const keptCandidates = 16

// WatchCanaries calls f after each commit for each member whose canaries are
// others now; none: it has none. They follow from the present endpoints alone,
// in an order of groups that is as good as random and always the same.
//
// It is no table: rows for every backend would be kept for three addresses a
// member.
func WatchCanaries(p *Program, f func(model.Member, Canaries)) {
	c := &canaries{groups: p.Groups, of: map[model.Member]*candidates{}}
	p.Groups.Watch(func(changes []inc.Change[GroupID, Group]) {
		for _, m := range c.apply(changes) {
			was := c.of[m].shown
			if now := c.choose(m); !now.Equal(was) {
				f(m, now)
			}
		}
	})
}

// canaries chooses for all members.
type canaries struct {
	groups *inc.Table[GroupID, Group]
	of     map[model.Member]*candidates
	looked int // groups looked at beyond those that changed
}

// candidate is a group that has ready endpoints.
type candidate struct {
	order uint32
	id    GroupID
	ready Canaries
}

func (a candidate) compare(b candidate) int {
	return cmp.Or(cmp.Compare(a.order, b.order), a.id.Compare(b.id))
}

// candidates are the first groups of a member that have ready endpoints: all of
// those up to the last, or simply all.
type candidates struct {
	first []candidate
	last  candidate
	all   bool
	shown Canaries
}

func candidateOf(id GroupID, g *Group) candidate {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.Backend.String())) // never fails
	c := candidate{order: h.Sum32(), id: id}
	if g != nil {
		c.ready = ready(g.Endpoints)
	}
	return c
}

// apply notes what changed, and returns the members that it is about, sorted.
func (c *canaries) apply(changes []inc.Change[GroupID, Group]) (touched []model.Member) {
	for _, ch := range changes {
		m := ch.Key.Member
		if c.of[m] == nil {
			c.of[m] = &candidates{all: true}
		}
		c.of[m].note(candidateOf(ch.Key, ch.New), keptCandidates)
		touched = append(touched, m)
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// note puts a group where it belongs, if it is among the first.
func (s *candidates) note(c candidate, keep int) {
	at, has := slices.BinarySearchFunc(s.first, c, candidate.compare)
	switch {
	case len(c.ready) == 0 && has:
		s.first = slices.Delete(s.first, at, at+1)
	case len(c.ready) == 0:
	case has:
		s.first[at] = c
	case s.all || c.compare(s.last) <= 0:
		s.first = slices.Insert(s.first, at, c)
	}
	if len(s.first) > keep {
		clear(s.first[keep:])
		s.first = s.first[:keep]
		s.last, s.all = s.first[keep-1], false
	}
}

// choose chooses the canaries of a member anew. It looks at all of its groups
// only when too many of the first have lost their endpoints.
func (c *canaries) choose(m model.Member) Canaries {
	s := c.of[m]
	for keep := keptCandidates; !s.enough(); keep *= 2 {
		*s = candidates{all: true, shown: s.shown}
		for _, id := range c.groups.Keys() {
			if id.Member != m {
				continue
			}
			c.looked++
			group, _ := c.groups.Get(nil, id)
			s.note(candidateOf(id, &group), keep)
		}
	}
	s.shown = pick(s.first)
	if len(s.first) == 0 {
		delete(c.of, m)
	}
	return s.shown
}

// enough tells whether no other group could have a say.
func (s *candidates) enough() bool {
	var firsts Canaries
	for _, c := range s.first {
		if !slices.Contains(firsts, c.ready[0]) {
			firsts = append(firsts, c.ready[0])
		}
	}
	return s.all || len(firsts) >= canaryCount
}

// ready are the first ready endpoints.
func ready(endpoints model.Endpoints) Canaries {
	out := make(Canaries, 0, canaryCount)
	for e := range endpoints.All() {
		if len(out) == canaryCount {
			break
		}
		if e.State == model.EndpointReady {
			out = append(out, netip.AddrPortFrom(e.Addr, e.Port))
		}
	}
	return out
}

// pick takes the first of each group in turn, then the second, and so on.
func pick(groups []candidate) Canaries {
	var out Canaries
	for i := range canaryCount {
		for _, g := range groups {
			if len(out) == canaryCount {
				return out
			}
			if i < len(g.ready) && !slices.Contains(out, g.ready[i]) {
				out = append(out, g.ready[i])
			}
		}
	}
	return out
}
