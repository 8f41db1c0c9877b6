package kubelet

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What was written before a time is left out of a log since then.
func TestLogSince(t *testing.T) {
	dir, m := t.TempDir(), &marks{of: map[string][]mark{}}
	name, began := logName("shop", "web", "echo"), time.Unix(1000, 0)
	write := func(text string, at time.Duration) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := m.look(dir, began.Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n", 0)
	write("second\n", 2*time.Second)
	for _, c := range []struct {
		since time.Duration
		want  int64
	}{{-time.Second, 0}, {0, 6}, {time.Second, 6}, {2 * time.Second, 13}} {
		if got := m.since(name, began.Add(c.since)); got != c.want {
			t.Errorf("since %s: from byte %d instead of %d", c.since, got, c.want)
		}
	}
	asked := map[string][]string{"sinceSeconds": {"1"}}
	if got, err := m.start(name, asked, began.Add(2*time.Second)); got != 6 || err != nil {
		t.Errorf("of the last second: from byte %d, %v", got, err)
	}
	if _, err := m.start(name, map[string][]string{"follow": {"true"}}, began); err == nil {
		t.Error("follow is taken as if it were known")
	}
}
