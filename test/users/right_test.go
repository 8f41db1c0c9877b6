package main

import (
	"slices"
	"testing"
	"time"
)

func TestRightAnswers(t *testing.T) {
	began := time.Unix(0, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	var r right
	r.be(at(0), "old")
	r.be(at(10), "old", "new")
	r.be(at(20), "new")
	for _, c := range []struct {
		sent, done int
		want       []string
	}{
		{1, 9, []string{"old"}},
		{1, 11, []string{"new", "old"}},
		{12, 13, []string{"new", "old"}},
		{19, 21, []string{"new", "old"}},
		{21, 22, []string{"new"}},
	} {
		if got := r.of(at(c.sent), at(c.done)); !slices.Equal(got, c.want) {
			t.Errorf("sent at %d, done at %d: got %v, want %v", c.sent, c.done, got, c.want)
		}
	}
}

func TestRightAnswersAreForgotten(t *testing.T) {
	var r right
	for i := range 1000 {
		r.be(time.Unix(int64(i), 0), "a")
	}
	if most := int(kept.Seconds()) + 2; len(r.spans) > most {
		t.Errorf("%d spans are kept, more than %d", len(r.spans), most)
	}
}
