package envoy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// A connection on which a client says nothing ends, and no other: not one that is
// idle between two requests, nor one that was switched to another protocol. Here
// that is soon: it takes as long as the real one, but for the number.
func TestSilence(t *testing.T) {
	s := usual
	s.silence = 500 * time.Millisecond
	r := newRigOf(t, timingForTests, s).serving(t, newPod(t, "web@eu-1/0"), "")
	kept, socket, slow := r.dial(t), r.dial(t), r.dial(t)
	get := "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"
	says(t, kept, get, "200")
	says(t, socket, "GET /chat HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "101")
	fmt.Fprint(slow, "G") // that is not enough to know what it is
	secret, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.https))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{r.dial(t), r.dial(t), slow, secret} {
		if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q, %v; want the end", got, err)
		}
	}
	// Others were opened before and are as idle for longer.
	says(t, kept, get, "200")
	says(t, socket, "over and back", "over and back")
}

// The first bytes of every protocol that is spoken are let through, in whatever
// pieces they come.
func TestFirstBytes(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n":                                    "HTTP/1.1 200",
		"\r\nGET / HTTP/1.1\r\nHost: shop.example\r\n\r\n":                                "HTTP/1.1 200",
		"OPTIONS / HTTP/1.1\r\nHost: shop.example\r\n\r\n":                                "HTTP/1.1 200",
		"GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n":                                    "HTTP/1.1 426",
		"GET /" + strings.Repeat("a", 50_000) + " HTTP/1.1\r\nHost: shop.example\r\n\r\n": "HTTP/1.1 200",
		"GET /" + strings.Repeat("a", 70_000) + " HTTP/1.1\r\nHost: shop.example\r\n\r\n": "HTTP/1.1 431",
		"what is this?\r\n\r\n":                                                           "HTTP/1.1 400",
	} {
		for _, piece := range []int{1, 1 << 20} {
			if len(sent) > 1000 {
				piece = max(piece, 9_000)
			}
			c := r.dial(t)
			for rest := sent; rest != ""; {
				n := min(piece, len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					break // refused by now
				}
				rest = rest[n:]
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("%.40q in pieces of %d: %q, %v; want %q", sent, piece, got, err, want)
			}
			_ = c.Close()
		}
	}
}

// One client that opens more connections than there may be: those that were there
// are served as ever, with endpoints that were never asked before, and others again
// as soon as the silent ones have ended. Envoy may open few files.
func TestManyConnections(t *testing.T) {
	s := usual
	s.silence = time.Second
	const most = 20
	r := newRigLimited(t, timingForTests, static, s, most).serving(t, newPod(t, "web@eu-1/0"), "")
	files := bootstrap.FilesFor(most)
	if err := unix.Prlimit(r.proc.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}, nil); err != nil {
		t.Fatal(err)
	}
	get := "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n"
	kept := r.dial(t)
	says(t, kept, get, "200")
	for range files + 50 {
		r.dial(t)
	}
	says(t, kept, get, "200")
	envoytest.Until(t, "room for others", func() bool { return r.ask(t, shopRequest).status == 200 })
	says(t, kept, get, "200")
	if log := r.proc.Log.String(); strings.Contains(log, "Too many open files") {
		t.Error(log)
	}
}

// One who speaks TLS where there is none is told so at once.
func TestTLSOnTheHTTPPort(t *testing.T) {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	err := tls.Client(r.dial(t), &tls.Config{ServerName: "shop.example"}).HandshakeContext(t.Context())
	if no := (tls.RecordHeaderError{}); !errors.As(err, &no) || string(no.RecordHeader[:4]) != "HTTP" {
		t.Error(err)
	}
}

// says sends something and reads until what comes back has the answer.
func says(t *testing.T, c net.Conn, text, answer string) {
	t.Helper()
	fmt.Fprint(c, text)
	var got strings.Builder
	for b := make([]byte, 4096); !strings.Contains(got.String(), answer); {
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("%q after %q", err, got.String())
		}
		got.Write(b[:n])
	}
}
