package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// shellOf is where the documented commands of the lab run: a folder of its own
// with the repository's examples, and ports that nobody has.
type shellOf struct {
	t     *testing.T
	dir   string
	ports *strings.Replacer
	env   []string
}

func newShell(t *testing.T, bin string) *shellOf {
	s := &shellOf{t: t, dir: t.TempDir()}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(examples, filepath.Join(s.dir, "examples")), os.Mkdir(filepath.Join(s.dir, "bin"), 0o755),
		os.Symlink(bin, filepath.Join(s.dir, "bin", "spillway"))); err != nil {
		t.Fatal(err)
	}
	s.ports = strings.NewReplacer("127.0.0.1:18000", envoytest.Loopback(t), "127.0.0.1:1053", envoytest.Loopback(t), "127.0.0.1:18080", envoytest.Loopback(t))
	s.env = append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"))
	return s
}

func (s *shellOf) port(usual string) string {
	_, port, _ := net.SplitHostPort(s.ports.Replace("127.0.0.1:" + usual))
	return port
}

func (s *shellOf) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+s.ports.Replace(line))
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// start runs a command until the test ends; ended has how it ended.
func (s *shellOf) start(line string) (ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.command(ctx, line)
	log, err := os.Create(filepath.Join(s.dir, strings.ReplaceAll(line[:min(len(line), 20)], " ", "-")+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	gone := make(chan struct{})
	go func() { done <- cmd.Wait(); close(gone) }()
	s.t.Cleanup(func() {
		cancel()
		<-gone
		if text, _ := os.ReadFile(log.Name()); s.t.Failed() {
			s.t.Logf("%s:\n%s", line, text)
		}
		log.Close()
	})
	return done
}

// until runs a command again and again until what it writes is as wanted.
func (s *shellOf) until(line string, ended <-chan error, right func(out string) bool) {
	s.t.Helper()
	if err := (eventually.Patience{Most: hang, Poll: 200 * time.Millisecond}).Await(s.t.Context(), line, func(ctx context.Context) error {
		out, err := s.command(ctx, line).CombinedOutput()
		if err == nil && right(string(out)) {
			return nil
		}
		select {
		case end := <-ended:
			return eventually.Never(fmt.Errorf("ended while waiting for %s: %s", line, fmt.Sprint(end)))
		default:
			return fmt.Errorf("%s\n%s", fmt.Sprint(err), out)
		}
	}); err != nil {
		s.t.Fatal(err)
	}
}

// TestDocumentedLab runs what docs/lab.md shows under "Run something in it": the
// commands as they are written, but for the ports.
func TestDocumentedLab(t *testing.T) {
	bin := binary(t)
	for _, tool := range []string{"kubectl", "curl"} {
		switch _, err := exec.LookPath(tool); {
		case err == nil:
		case os.Getenv("CI") == "true":
			t.Fatalf("%v: the documented commands need it", err)
		default:
			t.Skipf("%v: the documented commands need it", err)
		}
	}
	text, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Run something in it\n")
	section, _, _ = strings.Cut(section, "**Images.**")
	var lines []string
	for _, block := range fence.FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			lines = append(lines, comment.ReplaceAllString(strings.TrimSpace(line), ""))
		}
	}
	s := newShell(t, bin)
	lab := s.start(fmt.Sprintf("spillway lab up --loopback 127.%d --xds-port %s --dns-port %s", 60+os.Getpid()%40, s.port("18000"), s.port("1053")))
	s.until("spillway lab status", lab, func(out string) bool { return strings.Contains(out, "edge us") && strings.Contains(out, "runs") })
	s.until("cat .lab/hub-objects.yaml", lab, func(out string) bool { return strings.Contains(out, "MemberCluster") })
	serve := lab
	ran := map[string]int{}
	for _, line := range lines {
		ran[strings.Fields(line)[0]+" "+strings.Fields(line)[1]]++
		switch {
		case strings.HasPrefix(line, "kubectl"):
			for _, member := range []string{"eu-1", "eu-2", "us-1"} { // "to eu-2 and us-1, too"
				s.until(strings.Replace(line, "eu-1", member, 1), lab, func(string) bool { return true })
			}
		case strings.HasPrefix(line, "spillway serve"):
			serve = s.start(line + " --admin-address 127.0.0.1:18080")
		case strings.HasPrefix(line, "spillway get edges"):
			s.until(line+" --admin-address 127.0.0.1:18080 -o json", serve, func(out string) bool { return strings.Count(out, `"synced": 1`) == 2 })
		case strings.Contains(line, "exec fra"):
			s.until(line, serve, func(out string) bool {
				return strings.Contains(out, `"member":"eu-`) || strings.Contains(out, `"member": "eu-`)
			})
		case strings.Contains(line, "exec nyc"):
			s.until(line, serve, func(out string) bool {
				return strings.Contains(out, `"member":"us-1"`) || strings.Contains(out, `"member": "us-1"`)
			})
		default:
			t.Errorf("nobody knows what %q should do", line)
		}
	}
	if ran["kubectl --kubeconfig"] != 2 || ran["spillway serve"] != 1 || ran["spillway get"] != 1 || ran["spillway lab"] != 2 {
		t.Errorf("ran %v: is all of the page read?", ran)
	}
	missing := s.command(t.Context(), "spillway lab exec fra -- no-such-command")
	if out, err := missing.CombinedOutput(); missing.ProcessState.ExitCode() != 127 {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.command(t.Context(), "spillway lab down").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := <-lab; err != nil {
		t.Errorf("lab up, after lab down: %v", err)
	}
}
