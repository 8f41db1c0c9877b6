package user

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// GiveUp ends a request; far beyond what any part of the fleet waits.
	GiveUp = 30 * time.Second
	// idle is how many connections are kept: one for each request that a load
	// has under way.
	idle = 512
)

// Edge is an edge as clients reach it. Whatever the host of a URL is, the
// connection goes to the edge's address.
type Edge struct {
	Name  string
	keep  *http.Client // keeps connections; HTTP/2 where TLS allows it
	fresh *http.Client // a connection for each request, HTTP/1.1
	joint joint        // connections that carry requests for several hosts
}

// NewEdge is an edge whose certificates roots has signed. Close it.
func NewEdge(name string, address netip.Addr, httpPort, httpsPort int, roots *x509.CertPool) *Edge {
	dialer := &net.Dialer{Timeout: GiveUp}
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		port := httpPort
		if strings.HasSuffix(to, ":443") {
			port = httpsPort
		}
		return dialer.DialContext(ctx, network, netip.AddrPortFrom(address, uint16(port)).String())
	}
	client := func(keep bool) *http.Client {
		return &http.Client{
			Timeout:       GiveUp,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: keep, DisableKeepAlives: !keep,
				MaxIdleConnsPerHost: idle, IdleConnTimeout: GiveUp, DisableCompression: true,
			},
		}
	}
	return &Edge{Name: name, keep: client(true), fresh: client(false)}
}

// Close closes the connections that nothing is asked on.
func (e *Edge) Close() {
	e.keep.CloseIdleConnections()
	e.fresh.CloseIdleConnections()
	e.joint.close()
}

// Request is one request of a client.
type Request struct {
	Edge   *Edge
	URL    string // its port is that of its scheme
	Unsafe bool   // to retry: a POST, else a GET
	Fresh  bool   // on a connection of its own
	On     string // a host: on the connection of HTTP/2 that was opened for it; with Fresh, on another one for it
}

func (r Request) method() string {
	if r.Unsafe {
		return http.MethodPost
	}
	return http.MethodGet
}

func (r Request) String() string {
	text := r.method() + " " + r.URL
	switch {
	case r.On != "" && r.Fresh:
		text += " on a fresh connection for " + r.On
	case r.On != "":
		text += " on the connection for " + r.On
	case r.Fresh:
		text += " on a fresh connection"
	}
	return text
}

// Reply is what a client saw.
type Reply struct {
	Sent, Done time.Time
	Status     int    // 0: there was no answer
	Location   string // of a redirect, which is not followed
	Header     http.Header
	Body       []byte // its first MiB
	Err        error  // why there was none or, with a status, why it was cut off
	Refused    bool   // there was none since the edge ended the TLS handshake: it has no certificate for the name
	Again      int    // how often the HTTP client began again by itself, on a fresh connection
	Serial     int64  // of the certificate; 0 without one
	Conn       httptrace.GotConnInfo
}

// Send sends it, and waits for the answer.
func (r Request) Send(ctx context.Context) Reply {
	out := Reply{Sent: time.Now()}
	var t trace
	r.send(t.into(ctx), &out)
	out.Done = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Again, out.Conn = max(out.Again, t.connections-1), t.last
	var wrong *tls.CertificateVerificationError // which is something else
	out.Refused = out.Status == 0 && t.handshake != nil && t.connections == 0 && !errors.As(t.handshake, &wrong)
	return out
}

func (r Request) send(ctx context.Context, out *Reply) {
	var body io.Reader
	if r.Unsafe {
		body = strings.NewReader("order")
	}
	req, err := http.NewRequestWithContext(ctx, r.method(), r.URL, body)
	if err != nil {
		out.Err = err
		return
	}
	do := r.Edge.keep.Do
	switch {
	case r.On != "":
		jointly, cancel := context.WithTimeout(ctx, GiveUp)
		defer cancel()
		req = req.WithContext(jointly)
		do = func(req *http.Request) (*http.Response, error) { return r.jointly(req, out) }
	case r.Fresh:
		do = r.Edge.fresh.Do
	}
	resp, err := do(req)
	if err != nil {
		out.Err = err
		return
	}
	defer resp.Body.Close()
	out.Status, out.Location, out.Header = resp.StatusCode, resp.Header.Get("Location"), resp.Header
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		out.Serial = resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	out.Body, out.Err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}

// trace sees the connections of one request.
type trace struct {
	mu          sync.Mutex
	connections int
	last        httptrace.GotConnInfo
	handshake   error
}

func (t *trace) into(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.connections++
			t.last = info
		},
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.handshake = err
		},
	})
}
