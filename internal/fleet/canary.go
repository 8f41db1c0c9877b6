package fleet

import (
	"cmp"
	"fmt"
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

// bucket is a node of a tree over a member's backends. A backend's canaries
// travel up the tree and stop where they lose, so that neither a new backend
// nor a changed endpoint makes anybody look at all backends of the member.
type bucket struct {
	member model.Member
	depth  uint8 // 0: the member as a whole
	path   uint16
}

func (a bucket) Compare(b bucket) int {
	return cmp.Or(a.member.Compare(b.member), cmp.Compare(a.depth, b.depth), cmp.Compare(a.path, b.path))
}

// up is the bucket one level above.
func (a bucket) up() bucket { return bucket{a.member, a.depth - 1, a.path >> canaryBits} }

const (
	canaryBits  = 5 // children of a bucket: 32
	canaryDepth = 3 // 32,768 leaves
)

// leafOf is the leaf that a group belongs to.
func leafOf(id GroupID) bucket {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.Backend.String())) // never fails
	return bucket{id.Member, canaryDepth, uint16(h.Sum32() & (1<<(canaryBits*canaryDepth) - 1))}
}

// DeclareCanaries derives the canaries of every member.
func DeclareCanaries(g *inc.Graph, p *Program) *inc.Table[model.Member, Canaries] {
	groups := inc.Derive(g, "canaries of groups", func(r *inc.Reader, id GroupID) (Canaries, bool) {
		group, _ := p.Groups.Get(r, id)
		out := ready(group.Endpoints)
		return out, len(out) > 0
	}, p.Groups)
	level := inc.IndexBy(groups, func(id GroupID, _ Canaries) []bucket { return []bucket{leafOf(id)} })
	tree := inc.Derive(g, "canaries of leaves", func(r *inc.Reader, b bucket) (Canaries, bool) {
		return pick(level.Get(r, b)), true
	}, level)
	for depth := canaryDepth - 1; depth >= 0; depth-- {
		above := inc.IndexBy(tree, func(b bucket, _ Canaries) []bucket { return []bucket{b.up()} })
		tree = inc.Derive(g, fmt.Sprint("canaries of level ", depth), func(r *inc.Reader, b bucket) (Canaries, bool) {
			return pick(above.Get(r, b)), true
		}, above)
	}
	whole := inc.IndexBy(tree, func(b bucket, _ Canaries) []model.Member { return []model.Member{b.member} })
	return inc.Derive(g, "canaries", func(r *inc.Reader, m model.Member) (Canaries, bool) {
		return pick(whole.Get(r, m)), true
	}, whole)
}

// ready are the first ready endpoints.
func ready(endpoints []model.Endpoint) Canaries {
	out := make(Canaries, 0, min(canaryCount, len(endpoints)))
	for _, e := range endpoints {
		if len(out) == canaryCount {
			break
		}
		if e.State == model.EndpointReady {
			out = append(out, netip.AddrPortFrom(e.Addr, e.Port))
		}
	}
	return out
}

// pick takes the first of each list in turn, then the second, and so on.
func pick(lists []Canaries) Canaries {
	if len(lists) == 1 {
		return lists[0] // shared: most leaves have one group
	}
	out := make(Canaries, 0, canaryCount)
	for i := range canaryCount {
		for _, list := range lists {
			if len(out) == canaryCount {
				return out
			}
			if i < len(list) && !slices.Contains(out, list[i]) {
				out = append(out, list[i])
			}
		}
	}
	return out
}
