package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/inc"
)

// text is a table of text, for tests.
type text string

func (a text) Compare(b text) int { return cmpText(a, b) }
func (a text) Equal(b text) bool  { return a == b }

func cmpText(a, b text) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TestMailboxLatestWins: after everything is taken, each key has its last
// value, no key was taken twice in one Take, and the mailbox is empty.
func TestMailboxLatestWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := inc.New()
		table := inc.Input[text, text](g, "table")
		m, want := NewMailbox(), map[text]text{}
		waiting := map[text]bool{}
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "take") == 0 {
				g.Commit(func(tx *inc.Tx) {
					writes := m.Take()
					if len(writes) != len(waiting) {
						t.Fatalf("took %d writes of %d keys", len(writes), len(waiting))
					}
					for _, w := range writes {
						w(tx)
					}
				})
				clear(waiting)
				continue
			}
			k := rapid.SampledFrom([]text{"a", "b", "c"}).Draw(t, "key")
			v := text(fmt.Sprint(i))
			want[k], waiting[k] = v, true
			u := rapid.SampledFrom([]Urgency{Urgent, Bulk}).Draw(t, "urgency")
			m.Put(u, k, func(tx *inc.Tx) { table.Set(tx, k, v) })
			if m.Len() != len(waiting) {
				t.Fatalf("%d letters for %d keys", m.Len(), len(waiting))
			}
		}
		g.Commit(func(tx *inc.Tx) {
			for _, w := range m.Take() {
				w(tx)
			}
		})
		for k, v := range want {
			if got, _ := table.Get(nil, k); got != v {
				t.Fatalf("%s is %s, want %s", k, got, v)
			}
		}
	})
}

func TestMailboxUrgentFirst(t *testing.T) {
	m := NewMailbox()
	var got []string
	put := func(u Urgency, key string) { m.Put(u, key, func(*inc.Tx) { got = append(got, key) }) }
	put(Bulk, "b1")
	put(Bulk, "b2")
	put(Urgent, "u1")
	put(Urgent, "b2") // becomes urgent
	put(Bulk, "u1")   // stays urgent
	for _, w := range m.Take() {
		w(nil)
	}
	if want := []string{"u1", "b2", "b1"}; !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
	if m.Len() != 0 {
		t.Errorf("%d letters left", m.Len())
	}
}

// TestMailboxPace: whatever a write costs, turns come to take about turnTime,
// and everything is taken in the end.
func TestMailboxPace(t *testing.T) {
	for _, cost := range []time.Duration{time.Microsecond, 20 * time.Microsecond, time.Millisecond} {
		m := NewMailbox()
		const all = 100_000
		for i := range all {
			m.Put(Bulk, i, func(*inc.Tx) {})
		}
		total, late := 0, 0
		for turn := 0; m.Len() > 0; turn++ {
			<-m.Wake()
			n := len(m.Take())
			took := time.Duration(n) * cost
			m.Took(n, took)
			total += n
			if turn > 8 && took > 2*turnTime && took > minBatch*cost {
				late++
			}
		}
		if total != all || late > 0 {
			t.Errorf("at %v a write: took %d of %d, %d turns were too long", cost, total, all, late)
		}
	}
}

func TestMailboxWakes(t *testing.T) {
	m := NewMailbox()
	for i := range 3 {
		m.Put(Bulk, i, func(*inc.Tx) {})
	}
	<-m.Wake()
	m.Take()
	select {
	case <-m.Wake():
		t.Error("woken for nothing")
	default:
	}
}

// TestMailboxIsBounded: while the loop stands still, however often the same keys
// are put, and however urgently, the mailbox holds two places a key at most.
func TestMailboxIsBounded(t *testing.T) {
	const keys, puts = 1000, 300_000
	m := NewMailbox()
	for i := range puts {
		m.Put(Urgency(i%3%2), i*7919%keys, func(*inc.Tx) {})
	}
	held := m.boxes[Urgent].len() + m.boxes[Bulk].len()
	t.Logf("%d puts of %d keys: %d letters, %d places", puts, keys, m.Len(), held)
	if m.Len() != keys || held > 2*keys {
		t.Errorf("%d letters in %d places of %d keys", m.Len(), held, keys)
	}
	if n := len(m.Take()); n != keys {
		t.Errorf("%d were taken", n)
	}
}
