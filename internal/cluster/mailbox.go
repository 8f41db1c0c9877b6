package cluster

import (
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
)

// Urgency says what goes first.
type Urgency uint8

// The urgencies. Everything urgent is taken at once; bulk in batches.
const (
	Urgent Urgency = iota // a change that somebody waits for: an endpoint, an edit
	Bulk                  // a first list, a large difference
)

// Batches are sized so that the loop's turn takes about turnTime: less than the
// 10 ms after which Go's scheduler has a goroutine wait behind all others.
const (
	turnTime  = 8 * time.Millisecond
	minBatch  = 8
	maxBatch  = 1 << 16
	fairBatch = 1024 // the first one, when nothing is known
)

// Mailbox holds writes for the next commit: per key the latest only, so it is
// never larger than the number of keys. Put may be called from anywhere and
// never waits. Take belongs to the one loop.
type Mailbox struct {
	mu    sync.Mutex
	boxes [2]box
	where map[any]place
	wake  chan struct{}
	batch int
	held  bool // bulk waits for Release
	whole bool // the next batch is all of bulk
}

// place is where a key's letter lies.
type place struct {
	urgency Urgency
	at      int // counted from the first letter ever put in that box
}

type letter struct {
	key   any
	write func(*inc.Tx)
}

// box is a queue: letters[0] is number first.
type box struct {
	letters []letter
	first   int
}

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox {
	return &Mailbox{where: map[any]place{}, wake: make(chan struct{}, 1), batch: fairBatch}
}

// Put leaves a write for the next commit, in place of an earlier one of the
// same key. Keys are compared by ==, so that each producer has its own type of
// key. A letter that waits in bulk becomes urgent if an urgent one replaces it,
// and an urgent one stays so; otherwise it keeps its place in the queue.
func (m *Mailbox) Put(u Urgency, key any, write func(*inc.Tx)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.where[key]; ok {
		b := &m.boxes[p.urgency]
		if p.urgency <= u {
			b.letters[p.at-b.first].write = write
			return
		}
		b.letters[p.at-b.first] = letter{} // a hole: Take skips it
	}
	b := &m.boxes[u]
	m.where[key] = place{u, b.first + len(b.letters)}
	b.letters = append(b.letters, letter{key, write})
	if u == Urgent || !m.held {
		m.ring()
	}
}

// Hold keeps what comes in bulk until Release: as long as nothing is published
// before it is complete, its rows would only be computed several times.
func (m *Mailbox) Hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

// Release has all of bulk taken as one batch.
func (m *Mailbox) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.whole = false, true
	m.ring()
}

func (m *Mailbox) ring() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Wake receives after a Put, and after a Take that left something behind. What
// TakeUrgent leaves is the loop's to remember: see Bulk.
func (m *Mailbox) Wake() <-chan struct{} { return m.wake }

// Len is the number of letters waiting.
func (m *Mailbox) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.where)
}

// TakeUrgent returns all that is urgent and leaves bulk to Take, so that it can
// be committed and published without waiting for that.
func (m *Mailbox) TakeUrgent() []func(*inc.Tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.pull(nil, Urgent, m.boxes[Urgent].len())
	m.forget()
	return out
}

// Bulk is how many letters of bulk may be taken, and whether they are worth a turn
// at once: they fill a batch, or there is nothing else to wait for.
func (m *Mailbox) Bulk() (letters int, full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held {
		return 0, false
	}
	letters = m.boxes[Bulk].len()
	return letters, m.whole || letters >= m.batch
}

// Take returns all that is urgent, then a batch of bulk, in the order in which
// their keys were first put. The batch is as large as fits into the time of a
// turn, as far as Took knows.
func (m *Mailbox) Take() []func(*inc.Tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.forget()
	out := m.pull(nil, Urgent, m.boxes[Urgent].len())
	if m.held {
		return out
	}
	// What is urgent takes its part of the turn.
	size := max(m.batch-len(out), minBatch)
	if m.whole {
		m.whole, size = false, m.boxes[Bulk].len()
	}
	out = m.pull(out, Bulk, size)
	if m.boxes[Bulk].len() > 0 {
		m.ring()
	}
	return out
}

// forget empties the index when no letter is left. A map never shrinks, so that
// of a large batch goes.
func (m *Mailbox) forget() {
	switch {
	case m.boxes[Urgent].len()+m.boxes[Bulk].len() > 0:
	case len(m.where) > minBatch:
		m.where = map[any]place{}
	default:
		clear(m.where)
	}
}

// Took tells how long the turn was that worked off what Take returned. Few writes
// say little: a turn costs something whatever it does.
func (m *Mailbox) Took(writes int, turn time.Duration) {
	if writes < minBatch {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fit := int(float64(writes) * float64(turnTime) / float64(max(turn, time.Microsecond)))
	m.batch = min(max(fit, m.batch/2, minBatch), 2*m.batch, maxBatch)
}

func (b *box) len() int { return len(b.letters) }

// pull moves up to n letters of a box to out. Where no letter is left, forget
// takes them out of the index.
func (m *Mailbox) pull(out []func(*inc.Tx), u Urgency, n int) []func(*inc.Tx) {
	b := &m.boxes[u]
	last := n >= b.len() && m.boxes[1-u].len() == 0
	i := 0
	for ; i < len(b.letters) && n > 0; i++ {
		l := b.letters[i]
		b.letters[i] = letter{}
		if l.write == nil {
			continue
		}
		if !last {
			delete(m.where, l.key)
		}
		out = append(out, l.write)
		n--
	}
	b.letters = b.letters[i:]
	b.first += i
	if len(b.letters) == 0 {
		b.letters = nil
	}
	return out
}
