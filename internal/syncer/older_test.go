package syncer

import (
	"fmt"
	"testing"
)

// TestAnOlderOneStays: a leaf that may stay as it is stays, is told as older, and is written
// once it may not; where there is none it is made, and one that was it already is kept up.
func TestAnOlderOneStays(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	key, leaf := m.configMap("a", map[string]any{"of": "one"})
	r.Want(key, leaf)
	r.there(key)
	r.end()

	r = m.run(nil)
	_, edited := m.configMap("a", map[string]any{"of": "two"})
	edited.Keep, edited.Tag = true, "two"
	r.Want(key, edited)
	fresh, made := m.configMap("b", map[string]any{"of": "two"})
	made.Keep, made.Tag = true, "two"
	r.Want(fresh, made)
	r.Complete()
	if s := r.await(key, Older); s.Tag != "" || s.UID == "" {
		t.Errorf("told %+v", s)
	}
	if s := r.there(fresh); s.Tag != "two" {
		t.Errorf("told %+v", s)
	}
	m.patch(key, `{"data":{"of":"them"}}`)
	m.patch(fresh, `{"data":{"of":"them"}}`)
	r.until("the one that it was to be put right", func() error {
		if got := at(m.get(fresh), "data", "of"); got != "two" {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	r.settle()
	if got := at(m.get(key), "data", "of"); got != "them" {
		t.Errorf("the older one is %v", got)
	}

	written := *edited
	written.Keep = false
	r.Want(key, &written)
	r.until("it to be written", func() error {
		if got := at(m.get(key), "data", "of"); got != "two" {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	if s := r.await(key, Applied); s.Tag != "two" {
		t.Errorf("told %+v", s)
	}
}
