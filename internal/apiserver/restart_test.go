package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/eventually"
)

// A server that was asked to stop, or killed, starts again on its data: same
// port, same CA, same kubeconfig to the byte, same objects. Its directory is
// too long a path for a unix socket.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30), "data")
	start := func() *server {
		s, err := launch(dir, "--crds=false")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.stop(syscall.SIGKILL) })
		t.Logf("ready after %v", s.started)
		return s
	}
	read := func(s *server) []byte {
		b, err := os.ReadFile(s.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}

	first := start()
	kubeconfig := read(first)
	checkModes(t, dir)
	if n := listeners(t, first.cmd.Process.Pid); n != 1 {
		t.Errorf("the server listens on %d TCP ports, want 1", n)
	}
	must(t)(first.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("kept")}, metav1.CreateOptions{}))
	// An open watch must not hold up the stop.
	w, err := first.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	begin := time.Now()
	if err := first.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %v", time.Since(begin))
	if code := first.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, first.log)
	}
	for line := range strings.Lines(first.log.String()) {
		// The server's own etcd client logs past us when it is closed in a request. On a slow
		// machine its check of addresses may come before the one Service that there is.
		if !strings.Contains(line, `"logger":"etcd-client"`) && !strings.Contains(line, "is not allocated; repairing") {
			t.Errorf("start and stop are not quiet: %s", line)
		}
	}

	second := start()
	if !bytes.Equal(kubeconfig, read(second)) {
		t.Error("the kubeconfig has changed")
	}
	must(t)(first.client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}))
	must(t)(second.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named("killed")}, metav1.CreateOptions{}))
	if err := second.stop(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	third := start()
	must(t)(third.client.CoreV1().ConfigMaps("default").Get(t.Context(), "killed", metav1.GetOptions{}))
}

// A server that is told to stop while it starts ends in peace.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := hubCommand("--data-dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	eventually.Nil(t, "the database has begun", func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "run", "etcd.sock"))
		return err
	})
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// checkModes wants nothing below dir to be writable by others, and no key or
// kubeconfig readable by others.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	secrets := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		mode := info.Mode()
		switch {
		case e.IsDir() && mode.Perm()&0o077 != 0,
			mode.IsRegular() && mode.Perm()&0o022 != 0:
			t.Errorf("%s has mode %v", path, mode)
		}
		if ext := filepath.Ext(path); ext == ".key" || ext == ".kubeconfig" {
			secrets++
			if mode.Perm() != 0o600 {
				t.Errorf("%s has mode %v", path, mode)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if secrets != 6 {
		t.Errorf("%d keys and kubeconfigs, want 6", secrets)
	}
}

// listeners counts the TCP sockets a process listens on, from /proc.
func listeners(t *testing.T, pid int) int {
	t.Helper()
	sockets := map[string]bool{}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Skipf("no %s on this system", fds)
	}
	for _, e := range entries {
		link, _ := os.Readlink(filepath.Join(fds, e.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	n := 0
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n")[1:] {
			f := strings.Fields(line)
			const listen = "0A"
			if len(f) > 9 && f[3] == listen && sockets[f[9]] {
				n++
			}
		}
	}
	return n
}
