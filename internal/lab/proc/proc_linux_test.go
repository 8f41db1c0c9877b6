package proc

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/lab/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a shell script; changes receives every start and end.
func start(t *testing.T, script string) (*Process, <-chan bool, string) {
	t.Helper()
	host, err := netns.Host()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	changes := make(chan bool, 1000)
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Config{
		Name: "test", Space: host, Path: "/bin/sh", Args: []string{"-c", script}, LogFile: log,
		Log: slog.New(slog.DiscardHandler), Changed: func(up bool) { changes <- up },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, changes, log
}

func await(t *testing.T, changes <-chan bool, want ...bool) {
	t.Helper()
	for i, w := range want {
		if got := <-changes; got != w {
			t.Fatalf("change %d: running=%v", i, got)
		}
	}
}

func TestKillAndResume(t *testing.T) {
	p, changes, _ := start(t, "exec sleep 1000")
	await(t, changes, true)
	st := p.State()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", st.PID)); !st.Running || err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	p.Kill()
	await(t, changes, false)
	p.Kill() // again: nothing to do
	if st := p.State(); st.Running || st.PID != 0 || st.LastExit != "signal: killed" {
		t.Errorf("%+v", st)
	}
	p.Resume()
	await(t, changes, true)
	if st := p.State(); !st.Running || st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
	p.Close()
	await(t, changes, false)
	p.Resume() // too late: does nothing, returns
}

func TestRestart(t *testing.T) {
	p, changes, log := start(t, "echo once; exit 7")
	await(t, changes, true, false, true, false, true, false)
	if st := p.State(); st.Restarts < 2 || st.LastExit != "exit status 7" {
		t.Errorf("%+v", st)
	}
	p.Kill()
	if b, err := os.ReadFile(log); err != nil || len(b) < len("once\n")*3 {
		t.Errorf("log %q, %v", b, err)
	}
}

func TestMissingProgram(t *testing.T) {
	host, err := netns.Host()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	_, err = Start(Config{Name: "none", Space: host, Path: "/does/not/exist", LogFile: filepath.Join(t.TempDir(), "log")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestSelf(t *testing.T) {
	if pid := SelfPID(); pid != os.Getpid() || UsageOf(pid).RSS == 0 || UsageOf(1<<30).RSS != 0 {
		t.Error(pid, UsageOf(pid))
	}
}
