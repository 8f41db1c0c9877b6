package checkpoint

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// metric is the value of a metric of a store.
func metric(t *testing.T, s *Store, name string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(s.Metrics())
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == "spillway_checkpoint_"+name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no metric", name)
	return 0
}

// stored is a store with everything, in a folder of its own.
func stored(t *testing.T) (w *world, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	w = open(t, dir)
	w.s.Complete()
	w.commit(everything(w.in))
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	return w, dir
}

// survives ends a store, and checks that the next one finds all that it had.
func (w *world) survives(t *testing.T, dir string) {
	t.Helper()
	want := w.text(t)
	w.s.close()
	again := open(t, dir)
	defer again.s.close()
	if got := again.text(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTakenAway: a folder that somebody deletes while it is in use is there again,
// with all that it held, whether or not something changes.
func TestTakenAway(t *testing.T) {
	for name, take := range map[string]func(dir string) error{
		"the folder": os.RemoveAll,
		"the file":   func(dir string) error { return os.Remove(filepath.Join(dir, fileName)) },
		"another in place": func(dir string) error {
			old := filepath.Join(dir, "old")
			return os.Rename(old, filepath.Join(dir, fileName))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := stored(t)
			if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := take(dir); err != nil {
				t.Fatal(err)
			}
			if err := w.s.flush(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("the folder is not locked: %v", err)
			}
			w.commit(func(tx *inc.Tx) { w.in.Members.Set(tx, "later", model.MemberSpec{}) })
			if err := w.s.flush(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(w.log.String(), "\n"); n != 1 || metric(t, w.s, "lost_total") != 1 {
				t.Errorf("told %d times, counted %v: %s", n, metric(t, w.s, "lost_total"), w.log)
			}
			w.survives(t, dir)
		})
	}
}

// TestTakenByAnother: a folder that another process has by now is its own.
func TestTakenByAnother(t *testing.T) {
	w, dir := stored(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir)
	w.commit(func(tx *inc.Tx) { w.in.Members.Set(tx, "later", model.MemberSpec{}) })
	if err := w.s.flush(); err == nil || !strings.Contains(err.Error(), "in use") || metric(t, w.s, "waiting_rows") != 1 {
		t.Errorf("%v, %v rows wait", err, metric(t, w.s, "waiting_rows"))
	}
	if _, err := os.Stat(filepath.Join(dir, fileName)); err == nil {
		t.Error("written into the other's folder")
	}
	other.s.close()
	if err := w.s.flush(); err != nil || metric(t, w.s, "waiting_rows") != 0 {
		t.Errorf("when the other is gone: %v", err)
	}
	w.s.close()
}

// TestCutWhileInUse: what is cut is not filled up with zeros, but written anew as
// soon as the tables are asked, whether or not something changes.
func TestCutWhileInUse(t *testing.T) {
	for name, change := range map[string]func(*world) func(*inc.Tx){
		"a change": func(w *world) func(*inc.Tx) {
			return func(tx *inc.Tx) { w.in.Members.Set(tx, "later", model.MemberSpec{}) }
		},
		"none": func(*world) func(*inc.Tx) { return func(*inc.Tx) {} },
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := stored(t)
			asked := 0
			w.s.Ask = func() { asked++ }
			path := filepath.Join(dir, fileName)
			if err := os.Truncate(path, w.s.file.size/2); err != nil {
				t.Fatal(err)
			}
			if err := w.s.flush(); !errors.Is(err, errCut) || asked != 1 {
				t.Fatalf("a file that was cut: %v, asked %d times", err, asked)
			}
			if err := w.s.flush(); !errors.Is(err, errCut) || asked != 1 || metric(t, w.s, "lost_total") != 1 {
				t.Fatalf("before the tables were asked: %v, asked %d times", err, asked)
			}
			w.commit(change(w))
			if err := w.s.flush(); err != nil {
				t.Fatal(err)
			}
			w.survives(t, dir)
		})
	}
}

// TestCutWhenEmpty: a file without rows that is cut is no failure for ever.
func TestCutWhenEmpty(t *testing.T) {
	w, dir := stored(t)
	defer w.s.close()
	w.commit(func(tx *inc.Tx) {
		for _, m := range w.in.Members.Keys() {
			w.in.Members.Delete(tx, m)
		}
	})
	w.s.again = nil // no table has a row
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, fileName), 1); err != nil {
		t.Fatal(err)
	}
	if err := w.s.flush(); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	w.s.Committed()
	if err := w.s.flush(); err != nil {
		t.Errorf("with nothing to write: %v", err)
	}
}

// TestKeyElsewhere: the key may be kept apart. One that is missing is no reason to
// lose the checkpoint.
func TestKeyElsewhere(t *testing.T) {
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	o := Options{Dir: dir, KeyFile: key, Log: slog.New(slog.DiscardHandler)}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	rows := inc.New()
	table := inc.Input[model.Member, model.MemberSpec](rows, "members")
	Register(s, "members", table)
	s.Complete()
	rows.Commit(func(tx *inc.Tx) { table.Set(tx, "a", model.MemberSpec{}) })
	s.Committed()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	s.close()
	if _, err := os.Stat(filepath.Join(dir, keyName)); err == nil {
		t.Error("a key lies beside the checkpoint")
	}
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), filepath.Join(dir, fileName)) {
		t.Errorf("without the key: %v", err)
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(o); err != nil {
		t.Fatal(err)
	}
	if _, found := s.Found(); !found {
		t.Error("with the key again, nothing is found")
	}
	s.file.close()
	s.close()
}

// TestRefusedIsCounted: and the one before it is not kept for ever.
func TestRefusedIsCounted(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w := open(t, dir)
		if metric(t, w.s, "refused") != 1 {
			t.Error("not counted")
		}
		w.s.close()
		if kept, err := os.ReadFile(filepath.Join(dir, badName)); err != nil || string(kept) != text {
			t.Errorf("kept %q, %v", kept, err)
		}
	}
}
