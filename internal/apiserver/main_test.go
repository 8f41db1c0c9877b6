package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// asServer makes the test binary run Command with its arguments: an API server
// in a process can't be stopped cleanly, so each gets a process of its own.
const asServer = "SPILLWAY_TEST_HUB"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		rest.SetDefaultWarningHandler(rest.NoWarnings{})
		code := m.Run()
		stopShared()
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := Command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// server is a running `spillway hub`.
type server struct {
	cmd        *exec.Cmd
	kubeconfig string
	config     *rest.Config
	client     *kubernetes.Clientset
	dynamic    *dynamic.DynamicClient
	started    time.Duration // until it said that it was ready
	exited     chan struct{} // closed when it has ended
	log        *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func hubCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// launch starts a server and waits until it is ready.
func launch(dir string, args ...string) (*server, error) {
	begin := time.Now()
	s := &server{cmd: hubCommand(append([]string{"--data-dir", dir}, args...)...), exited: make(chan struct{}), log: &syncBuffer{}}
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	s.started = time.Since(begin)
	go func() { s.cmd.Wait(); close(s.exited) }()
	if err != nil {
		<-s.exited
		return nil, fmt.Errorf("not ready: %w\n%s", err, s.log)
	}
	_, s.kubeconfig, _ = strings.Cut(strings.TrimSpace(line), "kubeconfig ")
	return s, s.connect()
}

func (s *server) connect() (err error) {
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig); err != nil {
		return err
	}
	s.config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	s.dynamic, err = dynamic.NewForConfig(s.config)
	return err
}

// stop ends the server with sig and waits for it.
func (s *server) stop(sig syscall.Signal) error {
	s.cmd.Process.Signal(sig)
	select {
	case <-s.exited:
		return nil
	case <-time.After(time.Minute):
		s.cmd.Process.Kill()
		return errors.New("the server did not end within a minute")
	}
}

// The shared server serves all tests that only add objects under names of
// their own.
var shared struct {
	once sync.Once
	dir  string
	*server
	err error
}

func sharedServer(t *testing.T) *server {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "spillway-hub-"); shared.err != nil {
			return
		}
		shared.server, shared.err = launch(filepath.Join(shared.dir, "data"), "--workloads")
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func stopShared() {
	if shared.server != nil {
		shared.stop(syscall.SIGKILL)
		if log := shared.log.String(); log != "" {
			fmt.Fprintf(os.Stderr, "the shared server logged:\n%s", log)
		}
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
}
