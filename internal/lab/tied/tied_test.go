package tied

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := LastLine(path); got != "no log" {
		t.Error(got)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("first\n", 2000)+"last\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := LastLine(path); got != "last" {
		t.Error(got)
	}
}

// TestEnd: one that is killed or stopped does not count as failed and can be
// started again; one that ends by itself does.
func TestEnd(t *testing.T) {
	failed := make(chan error, 1)
	p := &Program{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}, Log: filepath.Join(t.TempDir(), "log"), Failed: func(err error) { failed <- err }}
	for _, end := range []func() error{p.Kill, p.Stop, p.Stop} {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if p.PID() == 0 {
			t.Error("it runs and has no id")
		}
		if err := end(); err != nil || p.PID() != 0 {
			t.Error(p.PID(), err)
		}
	}
	if len(failed) > 0 {
		t.Error(<-failed)
	}
	p.Args = []string{"nonsense"}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !strings.Contains(err.Error(), "sleep ended by itself") {
		t.Error(err)
	}
}

// TestPause: one that stands still has not ended, goes on, and can be killed.
func TestPause(t *testing.T) {
	p := &Program{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}, Log: filepath.Join(t.TempDir(), "log"), Failed: func(err error) { t.Error(err) }}
	if err := p.Pause(); err == nil {
		t.Error("one that does not run stands still")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func() error{p.Pause, p.Resume, p.Pause} {
		if err := do(); err != nil || p.PID() == 0 {
			t.Error(p.PID(), err)
		}
	}
	if err := p.Kill(); err != nil || p.PID() != 0 {
		t.Error(p.PID(), err)
	}
}
