package lab

import (
	"bufio"
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
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/eventually"
)

const patience = 60 * time.Second

// TestMain lets the test binary play every program of a lab: spillway with
// the hidden commands and `bootstrap envoy`, Envoy, and an owner of labs.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-test.") {
		goleak.VerifyTestMain(m)
		return
	}
	root := &cobra.Command{Use: "spillway", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands()...)
	root.AddCommand(
		play("bootstrap", func([]string) error { _, err := fmt.Println("{}"); return err }),
		play("play-get", func(args []string) error { return get(args[0], os.Stdout) }),
		play("play-owner", func(args []string) error { return owner(args[0], args[1]) }),
	)
	if os.Args[1] == "-c" { // as Envoy
		root = play("spillway", func([]string) error { return fakeEnvoy() })
	}
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(name string, run func([]string) error) *cobra.Command {
	return &cobra.Command{Use: name, DisableFlagParsing: true, SilenceErrors: true, SilenceUsage: true, RunE: func(_ *cobra.Command, args []string) error { return run(args) }}
}

// fakeEnvoy answers with its host name, which is the edge's, and the client's
// address.
func fakeEnvoy() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", name, r.RemoteAddr) })
	failed := make(chan error)
	for _, at := range []string{":8080", ":8443", "127.0.0.1:9901"} {
		go func() { failed <- http.ListenAndServe(at, h) }()
	}
	return <-failed
}

func get(url string, out io.Writer) error {
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(out, resp.Body)
	return err
}

// owner starts a lab, says so and waits for ever.
func owner(dir, loopback string) error {
	if _, err := Start(context.Background(), bare(dir, loopback), nil); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// bare is a lab without API servers and with a fake Envoy.
func bare(dir, loopback string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{
		Dir: dir, Binary: self, Envoy: self, Loopback: loopback, XDSPort: 18000, DNSPort: 1053,
		Edges: []EdgeSpec{{Name: "eu", Place: "fra"}, {Name: "us", Place: "nyc"}},
	}
}

// A program that is no Envoy is told at the start, not called ready.
func TestEnvoyEndsAtStart(t *testing.T) {
	spec := bare(t.TempDir(), somewhere())
	spec.Envoy = "/bin/true"
	l, err := Start(t.Context(), spec, nil)
	if l != nil {
		_ = l.Close()
	}
	var no *Unsupported
	if errors.As(err, &no) && os.Getenv("CI") != "true" {
		t.Skip(no)
	}
	if err == nil || !strings.Contains(err.Error(), "ended at start") {
		t.Error(err)
	}
}

// somewhere is a part of the loopback that other labs do not use, most likely.
func somewhere() string { return fmt.Sprintf("127.%d", 100+taken.Add(1)%150) }

// taken counts from somewhere: another process may run these tests, and no two
// labs of this one get the same place.
var taken = func() *atomic.Int32 {
	n := new(atomic.Int32)
	n.Store(rand.Int32N(150))
	return n
}()

// startOrSkip starts a lab; where that is not possible the test is skipped by
// name, and fails in CI.
func startOrSkip(t *testing.T, spec Spec) *Lab {
	t.Helper()
	l, err := Start(t.Context(), spec, nil)
	var no *Unsupported
	if errors.As(err, &no) && os.Getenv("CI") != "true" {
		t.Skip(no)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// inPlace runs this binary as a client and returns what it wrote.
func inPlace(t *testing.T, l *Lab, place string, argv ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	code, err := l.Exec(t.Context(), place, nil, &out, &out, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), code
}

func fetch(url string) (string, error) {
	var out bytes.Buffer
	err := get(url, &out)
	return out.String(), err
}

func TestPlacesAndEdges(t *testing.T) {
	l := startOrSkip(t, bare(t.TempDir(), somewhere()))
	self := program(t)
	url := func(edge string) string { return "http://" + l.EdgeAddress(edge).String() + ":8080/" }
	for _, edge := range []string{"eu", "us"} {
		eventually.Nil(t, "edge "+edge+" on the host", func(context.Context) error {
			got, err := fetch(url(edge))
			if err == nil && !strings.HasPrefix(got, edge+" ") {
				t.Errorf("edge %s answers %q", edge, got)
			}
			return err
		})
		eventually.Nil(t, "admin of "+edge+" on the host", func(context.Context) error { // it listens after the edge
			got, err := fetch("http://" + l.AdminAddress(edge))
			if err == nil && !strings.HasPrefix(got, edge+" ") {
				t.Errorf("admin of %s answers %q", edge, got)
			}
			return err
		})
		// In a client place, the same address; Envoy sees the place's own.
		if got, code := inPlace(t, l, "nyc", self, "play-get", url(edge)); code != 0 || !strings.HasPrefix(got, edge+" 10.250.2.2:") {
			t.Errorf("edge %s from nyc: %q, exit %d", edge, got, code)
		}
	}
	st, err := l.Status(t.Context())
	if err != nil || len(st.Edges) != 2 || len(st.Places) != 4 || !st.Edges[0].Process.Running || st.Edges[0].Process.Restarts != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	// A dead edge refuses, everywhere, until it is healed.
	if err := l.KillEdge(t.Context(), "eu"); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(url("eu")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if got, code := inPlace(t, l, "nyc", self, "play-get", url("eu")); code != 1 || !strings.Contains(got, "refused") {
		t.Errorf("%q, exit %d", got, code)
	}
	if err := l.Heal(t.Context(), "eu"); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "healed edge", func(context.Context) error { _, err := fetch(url("eu")); return err })
	for name, err := range map[string]error{
		"no edge":           l.KillEdge(t.Context(), "none"),
		"no member":         l.Cut(t.Context(), "none", PartData, ModeDrop),
		"members []":        l.KillMember(t.Context(), "none"),
		"no member \"hub\"": l.Pause(t.Context(), "hub"),
		"use drop":          l.Cut(t.Context(), "none", PartData, "slow"),
		"has no hub":        l.KillHub(t.Context()),
		"nothing is":        l.Heal(t.Context(), "none"),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExec(t *testing.T) {
	l := startOrSkip(t, bare(t.TempDir(), somewhere()))
	var out, errs bytes.Buffer
	code, err := l.Exec(t.Context(), "fra", strings.NewReader("from stdin\n"), &out, &errs, "sh", "-c", "cat; hostname; pwd; echo oops >&2; exit 7")
	dir, _ := os.Getwd()
	if err != nil || code != 7 || out.String() != "from stdin\nfra\n"+dir+"\n" || errs.String() != "oops\n" {
		t.Errorf("%q, %q, %d, %v", &out, &errs, code, err)
	}
	if got, code := inPlace(t, l, "fra", "sh", "-c", "kill -TERM $$"); code != 143 {
		t.Errorf("killed by a signal: %q, exit %d", got, code)
	}
	// What is left in the background does not hold up the caller.
	if got, code := inPlace(t, l, "fra", "sh", "-c", "sleep 1000 & echo started"); code != 0 || got != "started\n" {
		t.Errorf("%q, exit %d", got, code)
	}
	if _, err := l.Exec(t.Context(), "none", nil, nil, nil, "true"); err == nil || !strings.Contains(err.Error(), `no place "none"`) {
		t.Error(err)
	}
	if _, err := l.Exec(t.Context(), "fra", nil, nil, nil, "no-such-program-anywhere"); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, write := io.Pipe()
	go func() {
		_, _ = bufio.NewReader(started).ReadString('\n')
		cancel()
		_, _ = io.Copy(io.Discard, started)
	}()
	if _, err := l.Exec(ctx, "fra", nil, write, nil, "sh", "-c", "echo here; exec sleep 1000"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	write.Close()
}

// A second lab in the same folder or at the same addresses says what to do.
func TestConflicts(t *testing.T) {
	spec := bare(t.TempDir(), somewhere())
	startOrSkip(t, spec)
	for want, second := range map[string]Spec{
		"use another --dir":        bare(spec.Dir, somewhere()),
		"Give this one --loopback": bare(t.TempDir(), spec.Loopback),
	} {
		if _, err := Start(t.Context(), second, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	again, err := Open(t.Context(), spec.Dir)
	if err != nil || again.EdgeAddress("us").String() != spec.Loopback+".10.2" {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil { // from another process, as `lab down` does
		t.Error(err)
	}
	if _, err := Open(t.Context(), spec.Dir); err == nil || !strings.Contains(err.Error(), "no lab runs") {
		t.Error(err)
	}
	left, _ := os.ReadDir(spec.Dir)
	for _, e := range left {
		if name := e.Name(); name != "lock" && name != "logs" && name != "members" && name != "pki" {
			t.Errorf("%s is left behind", name)
		}
	}
}

func TestMissingProgram(t *testing.T) {
	spec := bare(t.TempDir(), somewhere())
	spec.Binary = "/does/not/exist"
	if _, err := Start(t.Context(), spec, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("long-name/", 12))
	l := startOrSkip(t, bare(long, somewhere()))
	if _, err := l.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

// When whoever started a lab is killed, all of it ends.
func TestParentKilled(t *testing.T) {
	loopback := somewhere()
	startOrSkip(t, bare(t.TempDir(), somewhere())) // skips where it must
	cmd := exec.Command(program(t), "play-owner", t.TempDir(), loopback)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	at := loopback + ".10.1:8080"
	if !forwarded(at) {
		t.Fatal("nobody listens at", at)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually.Nil(t, "the lab's ports close", func(context.Context) error {
		if forwarded(at) {
			return errors.New("still open")
		}
		return nil
	})
}

// forwarded reports whether a forwarder listens. It resets a connection at once
// where it leads to nobody, which Dial may see before it returns.
func forwarded(at string) bool {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return errors.Is(err, syscall.ECONNRESET)
	}
	_ = c.Close()
	return true
}

// Who asked for the end of a lab is told of it by the end of its process, and not by the
// garbage collector's, which is before the folder is clean.
func TestTheEndIsThatOfTheProcess(t *testing.T) {
	stopped := make(chan struct{})
	s := &supervisor{spec: Spec{Dir: t.TempDir()}, stop: func() { close(stopped) }}
	ctl, err := s.serveControl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dialControl(s.spec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := ask(conn, request{Op: "down"}); err != nil {
		t.Fatal(err)
	}
	<-stopped
	ctl.close()
	for range 10 {
		runtime.GC()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%v, want that nothing comes", err)
		}
	}
	for _, c := range s.asked {
		c.Close()
	}
}
