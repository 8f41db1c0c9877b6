package xds

import (
	"math/bits"
	"time"
)

// Who is asked first: of the clients that follow a view each in its turn, as
// far as they are fit for it.

// Client is who a session speaks to, as far as a rollout minds.
type Client struct {
	Identity string // that it proved: its voice for clients of other identities
	Node     string // that it says it is: its voice for clients of its identity
	Version  string // of Envoy
}

// swift is how long an answer may take without being slow. A client at the
// other end of the world takes 0.3 s, at most.
const swift = 100 * time.Millisecond

// rank orders sessions by how fit they are to be asked first, less is better:
// those with a voice; those past their first load that leave nothing
// unanswered; the faster ones, in powers of two.
func (s *Session) rank(now time.Time) uint64 {
	rank := uint64(bits.Len64(uint64(s.place.took / swift)))
	if !s.promises(now) {
		rank |= 1 << 16
	}
	if s.place.wrong {
		rank |= 1 << 17
	}
	return rank
}

// patience is how long a lead may be silent: some times what it usually takes,
// within bounds.
func (s *Session) patience() time.Duration {
	return min(max(4*s.place.took, s.limits.Trial/4), s.limits.Trial)
}

// answersFor tells whether a client may still say something about the current
// version of a row: it follows it, is not kept from it, and does not keep what
// it has.
func (s *Session) answersFor(k kind, id uint32) bool {
	res := s.content.get(k, id)
	return res != nil && s.topics[k].wants(id) && !s.refused(k, id, res) && !s.keeps(k, id, res) && !s.early(k, id)
}
