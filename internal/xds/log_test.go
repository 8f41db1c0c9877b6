package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func versionOf(name string, v int) Change {
	return Change{Secret, name, &Resource{Name: name, Version: fmt.Sprint(v)}}
}

// follower of a view in a test: what it is sent by name.
func followerOf(t *testing.T, s *Store, view, edge string, subscribe ...string) (*member, bell, func() string) {
	t.Helper()
	m, woken := newMember(NewSession(Limits{Grace: 1}))
	s.follow(m, view, edge)
	if err := m.say(s.now(), m.session, Request{Type: Secret, Subscribe: subscribe}); err != nil {
		t.Fatal(err)
	}
	return m, woken, func() string {
		var out []string
		m.step(func(x *Session) {
			for _, r := range x.Ready(s.now()) {
				for _, res := range r.Resources {
					out = append(out, res.Name+"@"+res.Version)
				}
				for _, name := range r.Removed {
					out = append(out, "-"+name)
				}
				if err := x.Request(s.now(), Request{Type: r.Type, Nonce: r.Nonce}); err != nil {
					t.Fatal(err)
				}
			}
		})
		slices.Sort(out)
		return strings.Join(out, " ")
	}
}

// TestACommitWaitsForNobody: while a session takes a step, commits return; they
// are there before the next step of anybody, each as a whole.
func TestACommitWaitsForNobody(t *testing.T) {
	s := NewStore()
	s.Commit(Commit{Views: []ViewOf{{"v", []string{"a", "b"}}}, Contents: []Content{
		{Collection: "a", Changes: []Change{versionOf("x", 1)}}, {Collection: "b", Changes: []Change{versionOf("y", 1)}}}})
	m, _, _ := followerOf(t, s, "v", "fra", "x", "y")
	_, woken, look := followerOf(t, s, "v", "ams", "x", "y")
	if got := look(); got != "x@1 y@1" {
		t.Fatalf("sent %q", got)
	}
	m.step(func(*Session) { // it holds the store, on this goroutine
		for v := 2; v < 5; v++ {
			s.Commit(Commit{Contents: []Content{
				{Collection: "a", Changes: []Change{versionOf("x", v)}}, {Collection: "b", Changes: []Change{versionOf("y", v)}}}})
		}
		if woken.rang() {
			t.Error("somebody was told of a commit in the middle of a step")
		}
	})
	if !woken.rang() {
		t.Error("nobody was told when the step ended")
	}
	if got := look(); got != "x@4 y@4" {
		t.Errorf("sent %q", got)
	}
}

// TestAChangeAsksThoseWhoFollow: however many sessions follow other names of the
// same collection, or more names than few.
func TestAChangeAsksThoseWhoFollow(t *testing.T) {
	s := NewStore()
	var changes []Change
	var all []string
	for i := range 2 * fewNames {
		changes = append(changes, versionOf(fmt.Sprint("s", i), 1))
		all = append(all, fmt.Sprint("s", i))
	}
	s.Publish("v", changes)
	for i := range 50 {
		followerOf(t, s, "v", "fra", fmt.Sprint("s", i), fmt.Sprint("s", i+1))
	}
	wide, _, _ := followerOf(t, s, "v", "fra", all...)
	g := wide.group
	asked := func(name string) int {
		id, _ := s.names.find(secret, name)
		return len(g.asked(rowID{secret, id}))
	}
	if got := []int{asked("s0"), asked("s1"), asked("s99")}; !slices.Equal(got, []int{2, 3, 1}) {
		t.Errorf("asked %v, want those that follow the name, and the one that follows many", got)
	}
	s.leave(wide)
	if got := []int{asked("s0"), asked("s99")}; !slices.Equal(got, []int{1, 0}) {
		t.Errorf("asked %v after that left", got)
	}
}

// TestAViewOfOtherCollections: whoever follows a view is sent what differs when
// it is made of others, and nothing when what it has moves among them. Of a
// collection that is gone it keeps what it had; when that is back it has what
// that has then.
func TestAViewOfOtherCollections(t *testing.T) {
	s := NewStore()
	s.Commit(Commit{Views: []ViewOf{{"v", []string{"a", "b"}}}, Contents: []Content{
		{Collection: "a", Changes: []Change{versionOf("x", 1), versionOf("both", 1)}},
		{Collection: "b", Changes: []Change{versionOf("y", 1), versionOf("both", 1)}}}})
	m, woken, look := followerOf(t, s, "v", "fra", "x", "y", "z", "both")
	expect := func(when, want string) {
		t.Helper()
		if got := look(); got != want {
			t.Errorf("%s: sent %q, want %q", when, got, want)
		}
	}
	expect("at first", "-z both@1 x@1 y@1")
	s.Commit(Commit{Contents: []Content{
		{Collection: "a", Changes: []Change{{Secret, "x", nil}, {Secret, "both", nil}}},
		{Collection: "b", Changes: []Change{versionOf("x", 1)}}}})
	expect("x is in the other one, both in one", "")
	s.Commit(Commit{Views: []ViewOf{{"v", []string{"b", "c"}}}, Contents: []Content{{Collection: "c", Changes: []Change{versionOf("z", 1)}}}})
	if !woken.rang() {
		t.Error("whoever follows it is not told")
	}
	expect("another collection", "z@1")
	s.Remove("b")
	expect("one is gone", "")
	s.Publish("b", []Change{versionOf("x", 2)})
	expect("it is back", "x@2") // removals wait
	if got := m.session.content; len(got.list) != 2 || got.list[0] != s.collections["b"] {
		t.Errorf("it follows %v", got.list)
	}
	s.Commit(Commit{Views: []ViewOf{{"v", nil}}})
	if got := m.session.content; len(got.list) != 2 || got.list[0] != s.collections["b"] {
		t.Errorf("of a view that is gone it keeps %v", got.list)
	}
	woken.rang()
	s.Commit(Commit{Views: []ViewOf{{"v", []string{"c"}}}, Contents: []Content{{Collection: "c", Changes: []Change{versionOf("z", 2)}}}})
	if !woken.rang() {
		t.Error("whoever followed the view is not told that it is back")
	}
	expect("the view is back", "-both -y z@2") // and x leaves
	s.Commit(Commit{Views: []ViewOf{{"v", nil}}})
	s.leave(m)
	s.Commit(Commit{Contents: []Content{{Collection: "a", Gone: true}, {Collection: "b", Gone: true}, {Collection: "c", Gone: true}}})
	for k := range kinds {
		if n := len(s.names.of[k].ids); n > 0 {
			t.Errorf("%d names of %s are kept", n, k.url().Short())
		}
	}
	if len(s.groups)+len(s.collections)+len(s.views) > 0 {
		t.Errorf("kept %v %v %v", s.groups, s.collections, s.views)
	}
}
