package syncer

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestContested: what somebody else keeps changing is put right less and less
// often, and told, until it is calm.
func TestContested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		r := m.run(nil, configMaps)
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		quiet, other := m.configMap("quiet", map[string]any{"of": "us"})
		r.Want(key, leaf)
		r.Want(quiet, other)
		r.there(key)
		r.writes()
		begin := time.Now()
		for time.Since(begin) < time.Hour { // an enemy who looks each second
			if at(m.get(key), "data", "of") == "us" {
				m.patch(key, `{"data":{"of":"them"}}`)
			}
			time.Sleep(time.Second)
		}
		if n := len(r.writes()); n < 8 || n > 24 {
			t.Errorf("%d repairs in an hour", n)
		}
		if s := r.state(key); s.Reason != Contested {
			t.Errorf("told %+v", s)
		}
		if s := r.state(quiet); s.Reason != Applied {
			t.Errorf("the other is told %+v", s)
		}
		time.Sleep(againLast + time.Second)
		if got := at(m.get(key), "data", "of"); got != "us" {
			t.Errorf("after the last: %v", got)
		}
		time.Sleep(calm)
		if s := r.state(key); s.Reason != Applied {
			t.Errorf("when it is calm: %+v", s)
		}
		r.writes()
		m.delete(key)
		time.Sleep(time.Second)
		if w := r.writes(); len(w) != 1 {
			t.Errorf("then a deletion is put right by %v", w)
		}
	})
}

// TestAnEditInAWar: what the root's owner wants is written at once.
func TestAnEditInAWar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		r := m.run(nil, configMaps)
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		r.Want(key, leaf)
		r.there(key)
		for range 6 {
			m.patch(key, `{"data":{"of":"them"}}`)
			r.until("a repair", func() error {
				if got := at(m.get(key), "data", "of"); got != "us" {
					return fmt.Errorf("%v", got)
				}
				return nil
			})
		}
		m.patch(key, `{"data":{"of":"them"}}`)
		_, leaf = m.configMap("a", map[string]any{"of": "us now"})
		r.Want(key, leaf)
		time.Sleep(time.Second)
		if got := at(m.get(key), "data", "of"); got != "us now" {
			t.Errorf("it is %v", got)
		}
	})
}

// TestWatchesEnd: a watch that ends, and one that can't go on, cost reads, and
// nothing that happened meanwhile is missed.
func TestWatchesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		r := m.run(nil, configMaps)
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		r.Want(key, leaf)
		r.Complete()
		r.there(key)
		r.writes()
		for _, expire := range []bool{false, true} {
			f.Cut(expire)
			time.Sleep(time.Minute)
			if w := r.writes(); len(w) > 0 {
				t.Errorf("a watch began anew, expired %v, and cost %v", expire, w)
			}
			f.Mu.Lock()
			f.Answer = func(q *http.Request) int {
				if q.Method == http.MethodGet && q.URL.Query().Get("labelSelector") != "" {
					return http.StatusServiceUnavailable
				}
				return 0
			}
			f.Mu.Unlock()
			f.Cut(expire)
			m.delete(key)
			time.Sleep(time.Minute)
			f.Mu.Lock()
			f.Answer = nil
			f.Mu.Unlock()
			time.Sleep(3 * time.Minute)
			if m.get(key) == nil {
				t.Errorf("expired %v: a deletion was missed", expire)
			}
			if w := r.writes(); len(w) != 1 {
				t.Errorf("it was made again by %v", w)
			}
		}
	})
}

// TestAMemberThatFails: one that does nothing but fail is asked slowly, however
// many leaves there are, and has them all soon after it works again.
func TestAMemberThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		var keys []Key
		fails := func(q *http.Request) int {
			if q.URL.Query().Get("labelSelector") != "" {
				return 0
			}
			return http.StatusInternalServerError
		}
		f.Answer = fails
		asked := 0
		r := m.run(func(r *run) {
			r.before = func(*http.Request) {
				f.Mu.Lock()
				defer f.Mu.Unlock()
				asked++
			}
		}, configMaps)
		for i := range 300 {
			key, leaf := m.configMap(fmt.Sprintf("a-%d", i), nil)
			keys = append(keys, key)
			r.Want(key, leaf)
		}
		time.Sleep(10 * time.Minute)
		f.Mu.Lock()
		if asked > 150 {
			t.Errorf("asked %d times in 10 minutes", asked)
		}
		f.Answer = nil
		f.Mu.Unlock()
		if s := r.state(keys[0]); s.Reason != Failing && s.Reason != Pending {
			t.Errorf("told %+v", s)
		}
		time.Sleep(3 * time.Minute)
		for _, k := range keys {
			if s := r.state(k); s.Reason != Applied {
				t.Fatalf("%v: %+v", k, s)
			}
		}
	})
}

// TestARefusalHoldsNobodyUp: it is tried again later each time.
func TestARefusalHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		tries := 0
		f.Answer = func(q *http.Request) int {
			if q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/no") {
				tries++
				return http.StatusForbidden
			}
			return 0
		}
		r := m.run(nil, configMaps)
		no, leaf := m.configMap("no", nil)
		r.Want(no, leaf)
		yes, leaf := m.configMap("yes", nil)
		r.Want(yes, leaf)
		r.there(yes)
		r.await(no, Refused)
		time.Sleep(time.Hour)
		f.Mu.Lock()
		defer f.Mu.Unlock()
		if tries < 30 || tries > 80 {
			t.Errorf("%d tries in an hour", tries)
		}
	})
}

// TestBeforeAllIsKnown: nothing is deleted, not even what is told not to be wanted.
func TestBeforeAllIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		key, leaf := m.configMap("a", nil)
		other, of := m.configMap("b", nil)
		r := m.run(func(r *run) { r.Want(key, leaf); r.Want(other, of) }, configMaps)
		r.there(key)
		r.there(other)
		r.end()
		r = m.run(func(r *run) { r.Want(key, nil) }, configMaps)
		time.Sleep(time.Hour)
		if w := r.writes(); len(w) > 0 {
			t.Errorf("written: %v", w)
		}
		r.Complete()
		time.Sleep(time.Minute)
		if w := r.writes(); len(w) != 2 || m.get(key) != nil || m.get(other) != nil {
			t.Errorf("then: %v", w)
		}
	})
}

// TestManyThatGoOneByOne: consent is asked for many, too, that are told one
// after the other, and what is wanted again needs none.
func TestManyThatGoOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		r := m.run(nil, configMaps)
		r.pace = usual
		leaves := map[Key]*Leaf{}
		for i := range 100 {
			key, leaf := m.configMap(fmt.Sprintf("a-%d", i), nil)
			leaves[key] = leaf
			r.Want(key, leaf)
		}
		r.Complete()
		time.Sleep(time.Minute)
		r.writes()
		for key := range leaves {
			r.Want(key, nil)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		w := r.writes()
		if len(w) > 25 {
			t.Errorf("%d were deleted without consent", len(w))
		}
		for key, leaf := range leaves {
			r.Want(key, leaf)
		}
		time.Sleep(time.Hour)
		if again := r.writes(); len(again) != len(w) {
			t.Errorf("%d were deleted, and then %d written", len(w), len(again))
		}
	})
}

// TestNoWordsInTheLog: the member's words may quote what a leaf has in it.
func TestNoWordsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		f.Answer = func(q *http.Request) int {
			if q.Method == http.MethodPatch {
				return http.StatusForbidden
			}
			return 0
		}
		var out lockedBuffer
		r := m.run(func(r *run) { r.Log = slog.New(slog.NewTextHandler(&out, nil)) }, configMaps)
		key, leaf := m.configMap("a", map[string]any{"password": "hunter2"})
		r.Want(key, leaf)
		if s := r.await(key, Refused); !strings.Contains(s.Message, "as the test wants") {
			t.Errorf("told %q", s.Message)
		}
		if s := out.String(); !strings.Contains(s, "leaf=") || strings.Contains(s, "as the test wants") || strings.Contains(s, "hunter2") {
			t.Errorf("log: %s", s)
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestALongStatus is told to be long, and not kept.
func TestALongStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		r := m.run(nil, configMaps)
		key, leaf := m.configMap("a", nil)
		r.Want(key, leaf)
		r.there(key)
		m.patch(key, `{"status":{"text":"`+strings.Repeat("x", maxStatus)+`"}}`)
		r.until("a long status", func() error {
			if s := r.state(key); !s.Oversized || s.Status != nil {
				return fmt.Errorf("%d bytes, %v", len(s.Status), s.Oversized)
			}
			return nil
		})
	})
}

// TestLostUnseen: a leaf that was written, and is gone before the watch has told that it was
// there, is written again once it is listed.
func TestLostUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		f.Answer = func(q *http.Request) int { // nobody is told of what changes
			if q.URL.Query().Get("watch") != "" {
				return http.StatusInternalServerError
			}
			return 0
		}
		r := m.run(nil, configMaps)
		r.Complete()
		time.Sleep(time.Minute)
		key, leaf := m.configMap("a", map[string]any{"of": "us"})
		f.Mu.Lock()
		f.Answer = func(q *http.Request) int { // nor does anybody list
			if q.Method == http.MethodGet && !strings.HasSuffix(q.URL.Path, "/a") {
				return http.StatusInternalServerError
			}
			return 0
		}
		f.Mu.Unlock()
		r.Want(key, leaf)
		time.Sleep(time.Minute)
		if s := r.state(key); s.Reason != Applied {
			t.Fatalf("it is %s", s.Reason)
		}
		f.Restore(nil, true)
		f.Mu.Lock()
		f.Answer = nil
		f.Mu.Unlock()
		time.Sleep(2 * relist)
		if m.get(key) == nil {
			t.Error("it is not there")
		}
	})
}
