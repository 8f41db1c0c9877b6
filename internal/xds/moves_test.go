package xds

import "testing"

// TestMovesGoOneByOne: whoever waits is woken in turn; one that ends, or has no
// reason to move any more, passes its turn on.
func TestMovesGoOneByOne(t *testing.T) {
	var m moves
	var all []*stream
	bells := map[*stream]bell{}
	for range 5 {
		one, b := newMember(nil)
		st := &stream{member: one}
		all, bells[st] = append(all, st), b
	}
	woken := func(st *stream) bool { return bells[st].rang() && st.recheck.Swap(false) }
	for i, st := range all {
		if m.enter(st) != (i == 0) {
			t.Fatalf("stream %d", i)
		}
	}
	m.enter(all[2]) // asks again
	m.leave(all[1]) // ends while it waits
	m.leave(all[0])
	if woken(all[1]) || !woken(all[2]) || woken(all[3]) || m.enter(all[3]) {
		t.Fatal("the third was not the next")
	}
	m.leave(all[2]) // ends when it is its turn
	if !woken(all[3]) || !m.enter(all[3]) {
		t.Fatal("the fourth was not the next")
	}
	m.leave(all[3])
	m.leave(all[3])
	if !woken(all[4]) || !m.enter(all[4]) {
		t.Fatal("the last was not the next")
	}
	m.leave(all[4])
	if m.inside != nil || len(m.queue) != 0 || !m.enter(all[0]) {
		t.Errorf("left over: %+v", &m)
	}
}
