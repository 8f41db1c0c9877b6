package leaf

import (
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Counts adds up what members have, change by change: a table that did would
// look at all of a member for each endpoint that changes. It follows the commits
// of its graph and belongs to the same goroutine. A writer asks for it when it
// writes a member's status for another reason, or now and then.
type Counts struct {
	of       map[model.Member]*Count
	holdings *inc.Table[model.Member, model.Holding]
}

// Count is how much a member has.
type Count struct {
	Services  int
	Endpoints int // in EndpointSlices, ready or draining
}

func newCounts(p *fleet.Program) *Counts {
	c := &Counts{of: map[model.Member]*Count{}, holdings: p.In.Holdings}
	p.In.Services.Watch(func(changes []inc.Change[model.MemberService, model.ServiceSpec]) {
		for _, ch := range changes {
			c.add(ch.Key.Member, Count{Services: one(ch.New) - one(ch.Old)})
		}
	})
	p.In.Slices.Watch(func(changes []inc.Change[model.SliceID, model.Slice]) {
		for _, ch := range changes {
			c.add(ch.Key.Member, Count{Endpoints: size(ch.New) - size(ch.Old)})
		}
	})
	return c
}

// Of returns what a member has.
func (c *Counts) Of(m model.Member) Count {
	if n := c.of[m]; n != nil {
		return *n
	}
	return Count{}
}

// Leaves returns how many leaves are in a member, if that is known.
func (c *Counts) Leaves(m model.Member) (n int, known bool) {
	h, known := c.holdings.Get(nil, m)
	return h.Leaves, known && h.Leaves >= 0
}

func (c *Counts) add(m model.Member, n Count) {
	sum := c.of[m]
	if sum == nil {
		sum = &Count{}
		c.of[m] = sum
	}
	sum.Services += n.Services
	sum.Endpoints += n.Endpoints
	if *sum == (Count{}) {
		delete(c.of, m)
	}
}

func one[T any](p *T) int {
	if p == nil {
		return 0
	}
	return 1
}

func size(s *model.Slice) int {
	if s == nil {
		return 0
	}
	return s.Endpoints.Len()
}
