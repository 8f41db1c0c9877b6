package envoy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/model"
)

// pod is a real backend on loopback.
type pod struct {
	name   string
	addr   netip.AddrPort
	seen   atomic.Int64 // requests
	mu     sync.Mutex
	conns  map[net.Conn]bool
	listen *net.TCPListener
	server *http.Server
	frozen chan struct{} // closed: nothing is written
	held   chan struct{} // each send lets one request that ?hold holds go on, the oldest first; closed: all
	broken atomic.Int64  // answer this status, if not 0
	heard  atomic.Pointer[func(*http.Request)]
}

// newPod starts a backend. It answers with its name, after ?sleep=250ms, with
// ?status=503, in ?chunks=3 parts with a sleep before each. Only one sleeps with
// ?at=NAME, one with ?hold=NAME waits until it is released, and one with
// ?reset=NAME resets its connection in place of an answer. NAME is that of a
// pod, "web@eu-1/0", or all of a member, "web@eu-1".
func newPod(t testing.TB, name string) *pod {
	t.Helper()
	return newPodAt(t, name, netip.MustParseAddr("127.0.0.1"))
}

// newPodAt starts a backend at an address of this machine.
func newPodAt(t testing.TB, name string, at netip.Addr) *pod { return newPodWith(t, name, at, nil) }

// newPodWith starts one that speaks TLS; nil: it does not.
func newPodWith(t testing.TB, name string, at netip.Addr, secure *tls.Config) *pod {
	t.Helper()
	p := &pod{name: name, conns: map[net.Conn]bool{}, frozen: make(chan struct{}), held: make(chan struct{})}
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // whose sockets take no filter
	l, err := plain.Listen(t.Context(), "tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	p.listen = l.(*net.TCPListener)
	p.addr = netip.MustParseAddrPort(l.Addr().String())
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.answer), Protocols: spokenByPods(), ReadHeaderTimeout: time.Minute,
		ConnState: func(c net.Conn, s http.ConnState) {
			p.mu.Lock()
			defer p.mu.Unlock()
			switch s {
			case http.StateClosed:
				delete(p.conns, c)
			case http.StateNew:
				p.conns[c] = true
			}
		},
	}
	go func() {
		if p.server.TLSConfig = secure; secure == nil {
			_ = p.server.Serve(l)
			return
		}
		p.server.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
		_ = p.server.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() { _ = p.server.Close() })
	return p
}

// spokenByPods is HTTP/1.1, and HTTP/2 with prior knowledge.
func spokenByPods() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

func (p *pod) endpoint() model.Endpoint {
	return model.Endpoint{Addr: p.addr.Addr(), Port: p.addr.Port()}
}

func (p *pod) answer(w http.ResponseWriter, r *http.Request) {
	nth := p.seen.Add(1)
	if heard := p.heard.Load(); heard != nil {
		(*heard)(r)
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		echo(w)
		return
	}
	q := r.URL.Query()
	if q.Get("read") != "no" {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Body", strconv.FormatInt(n, 10))
	}
	if slices.ContainsFunc(q["hold"], p.isOf) {
		select {
		case <-p.held:
		case <-r.Context().Done():
			return
		}
	}
	if p.isOf(q.Get("reset")) {
		cut(w)
		return
	}
	w.Header().Set("X-Answered-By", p.name)
	w.Header().Set("X-Nth", strconv.FormatInt(nth, 10))
	w.Header().Set("X-Host", r.Host)
	w.Header().Set("X-Proto", r.Proto)
	w.Header().Set("X-Path", r.RequestURI)
	w.Header().Set("Server", "pod")
	for k, v := range r.Header {
		w.Header().Set("Got-"+k, strings.Join(v, ","))
	}
	sleep, _ := time.ParseDuration(q.Get("sleep"))
	if only := q.Get("at"); only != "" && !p.isOf(only) {
		sleep = 0
	}
	chunks, _ := strconv.Atoi(q.Get("chunks"))
	if chunks > 0 {
		w.WriteHeader(http.StatusOK)
	}
	for range max(chunks, 1) {
		if !p.pause(r.Context(), sleep) {
			return
		}
		if chunks > 0 {
			fmt.Fprintln(w, "part")
			_ = http.NewResponseController(w).Flush()
		}
	}
	status, _ := strconv.Atoi(q.Get("status"))
	if n := p.broken.Load(); n != 0 {
		status = int(n)
	}
	if status != 0 && chunks == 0 {
		w.WriteHeader(status)
	}
}

// isOf tells whether a name is the pod's or its member's.
func (p *pod) isOf(name string) bool { return name == p.name || strings.HasPrefix(p.name, name+"/") }

// echo switches protocols and returns lines as they come.
func echo(w http.ResponseWriter) {
	c, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.Copy(c, rw)
}

// cut resets the connection of a request of HTTP/1.1.
func cut(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// pause waits, for ever if the pod is frozen.
func (p *pod) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-p.frozen:
		<-ctx.Done()
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return p.pause(ctx, 0)
	case <-ctx.Done():
		return false
	}
}

// open counts the connections to the pod.
func (p *pod) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// refuse makes the pod refuse connections and reset those it has.
func (p *pod) refuse(t testing.TB) {
	t.Helper()
	_ = p.listen.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// drop makes the kernel lose every packet to the pod, those of connections
// that are open included, as a cut path does.
func (p *pod) drop(t testing.TB) {
	t.Helper()
	close(p.frozen)
	raw, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	if err != nil {
		t.Fatal(err)
	}
	filter := unix.SockFilter{Code: raw[0].Op, Jt: raw[0].Jt, Jf: raw[0].Jf, K: raw[0].K}
	program := unix.SockFprog{Len: 1, Filter: &filter}
	attach := func(c syscall.Conn) {
		rc, err := c.SyscallConn()
		if err != nil {
			return
		}
		err2 := rc.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
		})
		if err != nil && err2 == nil {
			t.Errorf("drop: %v", err)
		}
	}
	attach(p.listen)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if sc, ok := c.(syscall.Conn); ok {
			attach(sc)
		}
	}
}
