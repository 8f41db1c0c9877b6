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
