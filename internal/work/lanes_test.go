package work

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLanesTakeTurns: each lane's first piece is among the first.
func TestLanesTakeTurns(t *testing.T) {
	q := NewLanes(func(s string) string { lane, _, _ := strings.Cut(s, "/"); return lane })
	for _, piece := range []string{"noisy/0", "noisy/1", "noisy/2", "noisy/3", "small/0", "/eu-1"} {
		q.Push(piece)
	}
	var got []string
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	if s := strings.Join(got, " "); s != "noisy/0 small/0 /eu-1 noisy/1 noisy/2 noisy/3" {
		t.Errorf("order %s", s)
	}
	if len(q.waiting) != 0 || len(q.turns) != 0 {
		t.Errorf("left over: %v %v", q.waiting, q.turns)
	}
}

// TestRanked: what is urgent goes first, also what becomes so while it waits, and none
// is handed out twice.
func TestRanked(t *testing.T) {
	urgent := map[string]bool{"a/3": true}
	q := NewRanked(func(s string) string { lane, _, _ := strings.Cut(s, "/"); return lane }, func(s string) bool { return urgent[s] })
	for _, piece := range []string{"a/1", "a/2", "b/1", "a/3"} {
		q.Push(piece)
	}
	q.Touch("b/1") // it is as it was
	urgent["a/2"] = true
	q.Touch("a/2")
	q.Touch("a/2")
	if q.Len() != 4 {
		t.Errorf("%d wait", q.Len())
	}
	var got []string
	take := func() { got = append(got, q.Pop()) }
	take()
	take()
	urgent["a/2"] = false
	q.Push("a/2") // again, behind its ghost
	for q.Len() > 0 {
		take()
	}
	if s := strings.Join(got, " "); s != "a/3 a/2 a/1 b/1 a/2" {
		t.Errorf("order %s", s)
	}
	if len(q.calm)+len(q.ghosts)+q.gone != 0 {
		t.Errorf("left over: %v %v %d", q.calm, q.ghosts, q.gone)
	}
}
