package xds

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds.sock")
	e, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
	if _, err := ListenUnix(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a socket in use was taken: %v", err)
	}
	// A dead process leaves its socket behind: the next one replaces it.
	if err := e.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(path); err == nil {
		t.Error("a file was replaced by a socket")
	}
}

func TestPlaintextIsForLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "10.0.0.1:0", "example.com:0", "nonsense"} {
		if e, err := ListenPlaintext(address); err == nil {
			_ = e.Close()
			t.Errorf("%s was accepted", address)
		}
	}
	e, err := ListenPlaintext("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefuse: before there is anything to say nobody can connect, so that a
// balancer takes another replica; then the same port serves. Who waited in the
// socket is closed at once.
func TestRefuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds.sock")
	for network, listen := range map[string]func() (*Endpoint, error){
		"tcp":  func() (*Endpoint, error) { return ListenPlaintext("127.0.0.1:0") },
		"unix": func() (*Endpoint, error) { return ListenUnix(path) },
	} {
		t.Run(network, func(t *testing.T) {
			e, err := listen()
			if err != nil {
				t.Fatal(err)
			}
			address := e.Addr().String()
			if network == "unix" {
				address = path
			}
			waits, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = waits.Close() }()
			ready, served := make(chan struct{}), make(chan func())
			s := NewServer(Config{Store: NewStore(), ViewOf: func(string) (string, bool) { return "v", true }})
			s.cfg.Store.Publish("v", []Change{makeAssignment(t, "a", 1)})
			go func() {
				if err := e.Refuse(t.Context(), ready); err != nil {
					t.Error(err)
				}
				served <- run(t, s, e)
			}()
			if n, err := waits.Read(make([]byte, 1)); err == nil {
				t.Errorf("read %d bytes before there is anything to say", n)
			}
			for range 3 {
				if c, err := net.Dial(network, address); err == nil {
					_ = c.Close()
					t.Error("a connection is taken")
				}
			}
			close(ready)
			stop := <-served
			defer stop()
			target := address
			if network == "unix" {
				target = "unix://" + address
			}
			c := openClient(t, dial(t, target, insecure.NewCredentials()), "fra", "n")
			c.subscribe(ClusterLoadAssignment, "a")
			c.receive()
		})
	}
}

// TestRefusedPortIsTaken: somebody else may have the port by then, and that is
// said; and an end before that is none of an error.
func TestRefusedPortIsTaken(t *testing.T) {
	e, err := ListenPlaintext("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Refuse(over, nil); err != nil {
		t.Error(err)
	}
	other, err := net.Listen("tcp", e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := e.listen(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestCertificateReload: a renewed certificate serves the next handshake, a
// half-written one is not used.
func TestCertificateReload(t *testing.T) {
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	e, err := ListenTLS("127.0.0.1:0", cert, key, ca.File)
	if err != nil {
		t.Fatal(err)
	}
	_, stop := serve(t, Config{Store: NewStore(), ViewOf: func(string) (string, bool) { return "", false }}, e)
	defer stop()
	serial := func() string {
		c, err := tls.Dial("tcp", e.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	good, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, good[:len(good)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != first {
		t.Errorf("serial %s after a broken write, want %s", got, first)
	}
	ca.Leaf(t, "server", envoytest.IP("127.0.0.1"))
	later := time.Now().Add(time.Second) // file systems may not tell two writes apart
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got == first {
		t.Error("the renewed certificate is not used")
	}
}

func TestListenErrors(t *testing.T) {
	ca := envoytest.NewCA(t)
	cert, key := ca.Leaf(t, "server")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	for what, f := range map[string]func() (*Endpoint, error){
		"missing certificate": func() (*Endpoint, error) { return ListenTLS("127.0.0.1:0", cert+"x", key, ca.File) },
		"key of another":      func() (*Endpoint, error) { return ListenTLS("127.0.0.1:0", ca.File, key, ca.File) },
		"CA without one":      func() (*Endpoint, error) { return ListenTLS("127.0.0.1:0", cert, key, key) },
		"port in use":         func() (*Endpoint, error) { return ListenTLS(busy.Addr().String(), cert, key, ca.File) },
	} {
		if e, err := f(); err == nil {
			_ = e.Close()
			t.Errorf("%s: no error", what)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than a line: %v", what, err)
		}
	}
}
