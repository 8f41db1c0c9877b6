package xds

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
)

// TestNothingWaitsForEver: of what changes faster than the client takes it,
// everything comes in turn, and meanwhile also what changed with many others
// and what is new.
func TestNothingWaitsForEver(t *testing.T) {
	const busy, bulk, added, rounds = 300, 300, 100, 100
	now := time.Unix(0, 0)
	store := NewStore()
	store.few = 1
	version := 0
	name := func(i int) string { return fmt.Sprintf("secret-%03d", i) }
	publish := func(from, to int) {
		var changes []Change
		for i := from; i < to; i++ {
			version++
			changes = append(changes, Change{Type: Secret, Name: name(i), Resource: &Resource{Name: name(i), Version: fmt.Sprint(version), Body: model.BodyOf(make([]byte, 100))}})
		}
		store.Publish("v", changes)
	}
	m, _ := newMember(NewSession(Limits{ResponseBytes: 4000}))
	store.follow(m, "v", "")
	var all Request
	all.Type = Secret
	for i := range busy + bulk + added {
		all.Subscribe = append(all.Subscribe, name(i))
	}
	request := func(r Request) {
		if err := m.session.Request(now, r); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]int{}
	// take is a response and its acknowledgement.
	take := func() (n int) {
		for _, r := range m.session.Ready(now) {
			for _, res := range r.Resources {
				got[res.Name]++
			}
			n += len(r.Resources)
			request(Request{Type: r.Type, Nonce: r.Nonce})
		}
		return n
	}
	publish(0, busy+bulk)
	request(all)
	for take() > 0 {
	}
	clear(got)
	publish(busy, busy+bulk+added)
	for range rounds {
		for i := range busy {
			publish(i, i+1)
		}
		take()
	}
	least, most := rounds, 0
	for i := range busy {
		least, most = min(least, got[name(i)]), max(most, got[name(i)])
	}
	if least < 3 || most > least+1 {
		t.Errorf("of what is busy all came %d to %d times", least, most)
	}
	for i := busy; i < busy+bulk+added; i++ {
		if got[name(i)] != 1 {
			t.Errorf("%s came %d times", name(i), got[name(i)])
		}
	}
}
