package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); !errors.Is(err, ErrHeld) {
		t.Errorf("one that is held: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("one that was given back: %v", err)
	}
	_ = again.Close()
	if _, err := Lock(filepath.Join(path, "below")); err == nil || errors.Is(err, ErrHeld) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		text string
		mode fs.FileMode
	}{{"first", 0o600}, {"", 0o644}, {"third", 0o600}} {
		if err := Replace(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.text {
			t.Errorf("%q, %v; want %q", got, err, c.text)
		}
		if at, err := os.Stat(path); err != nil || at.Mode() != c.mode {
			t.Errorf("mode %v, %v; want %v", at.Mode(), err, c.mode)
		}
	}
	if err := Replace(filepath.Join(path, "below"), nil, 0o600); err == nil {
		t.Error("written below a file")
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}
