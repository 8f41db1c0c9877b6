package hds

import (
	"hash/maphash"
	"sync/atomic"
)

// echo recognizes a report that says what the one before it said, by its bytes:
// nearly all do. Envoy writes its endpoints in an order that stays.
type echo struct {
	stands atomic.Bool // the last report is taken, and the same would say the same
	last   uint64      // its hash; belongs to who receives
}

var seed = maphash.MakeSeed()

// same is called for each message where it is received. A message that it takes
// while the one before is still being read may be lost; another one follows.
func (e *echo) same(raw []byte) bool {
	sum := maphash.Bytes(seed, raw)
	same := sum == e.last && e.stands.Load()
	e.last = sum
	return same
}
