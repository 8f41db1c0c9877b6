// Package envoytest runs a real Envoy, and makes certificates, in tests. It is
// imported by tests only.
package envoytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/files"
)

// Binary returns the path of Envoy: $SPILLWAY_ENVOY, .tools/envoy at the
// repository's root, or envoy on PATH. Without one the test is skipped, and
// fails when CI=true.
func Binary(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("SPILLWAY_ENVOY"); p != "" {
		return p
	}
	if p, ok := inRepository(); ok {
		return p
	}
	if p, err := exec.LookPath("envoy"); err == nil {
		return p
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no Envoy: set SPILLWAY_ENVOY")
	}
	t.Skip("no Envoy: set SPILLWAY_ENVOY")
	return ""
}

func inRepository() (string, bool) {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			p := filepath.Join(dir, ".tools", "envoy")
			_, e := os.Stat(p)
			return p, e == nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return "", false
}

// Process is a running Envoy.
type Process struct {
	Admin string // host:port, or path of the socket, of its admin interface
	Log   *Buffer
	PID   int
	stop  func()
	done  chan struct{}
	err   error
}

// Start runs Envoy with a bootstrap and stops it when the test ends. admin is
// the address of its admin interface in that bootstrap, or its path.
func Start(t testing.TB, bootstrap []byte, admin string, args ...string) *Process {
	t.Helper()
	binary := Binary(t)
	path := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-c", path, "--use-dynamic-base-id", "-l", "warning"}, args...)
	if !slices.Contains(args, "--concurrency") {
		args = append(args, "--concurrency", "1")
	}
	p := &Process{Admin: admin, Log: &Buffer{}, done: make(chan struct{})}
	cmd := exec.CommandContext(context.Background(), binary, args...) // t.Context ends before Cleanup looks
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.PID, p.stop = cmd.Process.Pid, sync.OnceFunc(func() {
		select {
		case <-p.done:
			t.Errorf("Envoy ended by itself: %v\n%s", p.err, p.Log.String())
		default:
			_ = cmd.Process.Kill()
			<-p.done
		}
	})
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.stop)
	return p
}

// Stop ends it at once, before the test does.
func (p *Process) Stop() { p.stop() }

// Stats returns the counters and gauges whose names have a prefix.
func (p *Process) Stats(t testing.TB, prefix string) string {
	t.Helper()
	return p.Get(t, "/stats?filter=^"+strings.ReplaceAll(prefix, ".", "\\."))
}

// Get returns a page of the admin interface, empty while it does not listen.
func (p *Process) Get(t testing.TB, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	host := p.Admin
	if filepath.IsAbs(p.Admin) {
		ctx, host = context.WithValue(ctx, socketPath{}, p.Admin), "admin"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// socketPath is the key of the path of a socket to ask, in a request's context.
type socketPath struct{}

var client = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if path, ok := ctx.Value(socketPath{}).(string); ok {
			network, address = "unix", path
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	},
}}

// FreePort returns a TCP port that nobody uses now, on any address, and that no
// other caller gets before the test ends, in no process: a file is locked for it
// until then. It is below the ports that a kernel gives
// to outgoing connections, and not among those that a lab takes.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, ports, tries = 26_000, 6_000, 100
	for range tries {
		if port := first + rand.IntN(ports); reserve(t, port) {
			return port
		}
	}
	t.Fatalf("no free port in %d tries", tries)
	return 0
}

func reserve(t testing.TB, port int) bool {
	t.Helper()
	held, err := files.Lock(filepath.Join(reserved(t), strconv.Itoa(port)))
	switch {
	case errors.Is(err, files.ErrHeld):
		return false
	case err != nil:
		t.Fatal(err)
	}
	probe, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		_ = held.Close()
		return false
	}
	_ = probe.Close()
	t.Cleanup(func() { _ = held.Close() })
	return true
}

// reserved is the folder of what is locked, one for all tests of a user. The files
// stay: one that is removed while another process opens it would be locked twice.
func reserved(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("spillway-test-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Loopback returns a free 127.0.0.1 address.
func Loopback(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}

// Until asks until it is so.
var Until = eventually.True

// Buffer collects output from several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
