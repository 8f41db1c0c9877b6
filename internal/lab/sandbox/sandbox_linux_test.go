package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/lab/kubelet"
	"github.com/spillway-dev/spillway/internal/lab/netns"
)

// TestMain runs the tests in a user namespace when they are not root's.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 || os.Getenv("SANDBOX_TEST_INSIDE") != "" {
		goleak.VerifyTestMain(m)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_INSIDE=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case os.Getenv("CI") == "true":
		fmt.Fprintln(os.Stderr, "sandbox tests need user namespaces:", err)
		os.Exit(1)
	}
	fmt.Println("SKIP sandbox tests: no user namespaces here:", err)
}

var podAddr = netip.MustParseAddr("10.1.1.2")

func newPod(t *testing.T) kubelet.Sandbox {
	t.Helper()
	r, err := netns.NewRouter("router")
	if err != nil {
		t.Skip("no network namespaces here:", err)
	}
	t.Cleanup(r.Close)
	rt := &Runtime{Router: r, Root: t.TempDir()}
	box, err := rt.Sandbox("web-1", []netip.Addr{podAddr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	return box
}

// run runs a shell script in the pod and returns its output.
func run(t *testing.T, box kubelet.Sandbox, script string, mounts ...kubelet.Mount) (string, kubelet.Exit) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	r, err := box.Start(kubelet.Program{Name: "c", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Mounts: mounts, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	out, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), r.Exit()
}

func TestRoot(t *testing.T) {
	box := newPod(t)
	file := filepath.Join(t.TempDir(), "file")
	dir := t.TempDir()
	for path, text := range map[string]string{file: "file", filepath.Join(dir, "a"): "volume"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, exit := run(t, box, `
		hostname
		cat /etc/spillway-new/deep/a /etc/spillway-new/file /etc/hostname-of-none 2>/dev/null
		test -e /etc/passwd && echo passwd
		cat /nowhere/at/all/a
		cat /etc/spillway-new/deep/more/a
		cat /var/run/secrets/x/a
		echo x > /readonly/a || echo refused
		echo x > /etc/spillway-new/deep/b && echo written
	`,
		kubelet.Mount{Source: dir, Target: "/etc/spillway-new/deep"},
		kubelet.Mount{Source: file, Target: "/etc/spillway-new/file"},
		kubelet.Mount{Source: dir, Target: "/nowhere/at/all"},
		kubelet.Mount{Source: dir, Target: "/etc/spillway-new/deep/more"},
		kubelet.Mount{Source: dir, Target: "/var/run/secrets/x"},
		kubelet.Mount{Source: dir, Target: "/readonly", ReadOnly: true},
	)
	if exit.Code != 0 {
		t.Error("exit code", exit.Code)
	}
	for _, want := range []string{"web-1\n", "volumefilepasswd\nvolumevolumevolume", "refused\nwritten\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	for _, path := range []string{"/nowhere", "/etc/spillway-new", "/readonly"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is seen outside", path)
		}
	}
}

func TestExit(t *testing.T) {
	box := newPod(t)
	if _, exit := run(t, box, "exit 7"); exit != (kubelet.Exit{Code: 7}) {
		t.Error(exit)
	}
	_, err := box.Start(kubelet.Program{Argv: []string{"/does/not/exist"}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	r, err := box.Start(kubelet.Program{Argv: []string{"sleep", "1000"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	<-r.Done()
	if r.Exit() != (kubelet.Exit{Code: 137, Signal: 9}) {
		t.Error(r.Exit())
	}
}

// Closing a pod ends its programs and all their children, and a closed pod
// starts nothing.
func TestClose(t *testing.T) {
	box := newPod(t)
	r, err := box.Start(kubelet.Program{Argv: []string{"sh", "-c", "sleep 1000 & sleep 1000"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	box.Close()
	<-r.Done()
	if _, err := box.Start(kubelet.Program{Argv: []string{"/bin/sh"}}); err == nil {
		t.Error("a closed pod started a program")
	}
	box.Close() // again
}

func TestDial(t *testing.T) {
	box := newPod(t)
	space := box.(*pod).space
	l, err := space.Listen(netip.AddrPortFrom(podAddr, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) { defer c.Close(); _, _ = io.WriteString(c, "hello") }(c)
		}
	}()
	c, err := box.Dial(t.Context(), netip.AddrPortFrom(podAddr, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); string(b) != "hello" {
		t.Error(string(b), err)
	}
}
