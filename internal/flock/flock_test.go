package flock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); !errors.Is(err, ErrHeld) {
		t.Errorf("one that is held: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Take(path)
	if err != nil {
		t.Fatalf("one that was given back: %v", err)
	}
	_ = again.Close()
	if _, err := Take(filepath.Join(path, "below")); err == nil || errors.Is(err, ErrHeld) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}
