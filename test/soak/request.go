package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// giveUp ends a request; far beyond what any part of the fleet waits.
const giveUp = 30 * time.Second

// front is an edge as clients reach it. Whatever the host of a URL is, the
// connection goes to the edge's address.
type front struct {
	edge  string
	keep  *http.Client // keeps connections; HTTP/2 where TLS allows it
	fresh *http.Client // a connection for each request, HTTP/1.1
}

func newFront(edge string, address netip.Addr, httpPort, httpsPort int, roots *x509.CertPool) *front {
	dialer := &net.Dialer{Timeout: giveUp}
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		port := httpPort
		if strings.HasSuffix(to, ":443") {
			port = httpsPort
		}
		return dialer.DialContext(ctx, network, netip.AddrPortFrom(address, uint16(port)).String())
	}
	client := func(keep bool) *http.Client {
		return &http.Client{
			Timeout:       giveUp,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: keep, DisableKeepAlives: !keep,
				MaxIdleConnsPerHost: inFlight, IdleConnTimeout: giveUp, DisableCompression: true,
			},
		}
	}
	return &front{edge, client(true), client(false)}
}

func (f *front) close() {
	f.keep.CloseIdleConnections()
	f.fresh.CloseIdleConnections()
}

// request is one request of a client.
type request struct {
	edge   *front
	target *target
	unsafe bool // a POST
	fresh  bool // on a connection of its own
}

func (r request) method() string {
	if r.unsafe {
		return http.MethodPost
	}
	return http.MethodGet
}

func (r request) String() string {
	text := r.method() + " " + r.target.String()
	if r.fresh {
		text += " on a fresh connection"
	}
	return text
}

// reply is what a client saw.
type reply struct {
	answer string // in one word or, where there is no answer, what happened
	again  int    // how often the client began again by itself
	serial int64  // of the certificate; 0 without one
}

// send sends it, and waits for the answer.
func (r request) send(ctx context.Context) reply {
	var t trace
	var body io.Reader
	if r.unsafe {
		body = strings.NewReader("order")
	}
	req, err := http.NewRequestWithContext(t.into(ctx), r.method(), r.target.String(), body)
	if err != nil {
		return reply{answer: err.Error()}
	}
	client := r.edge.keep
	if r.fresh {
		client = r.edge.fresh
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{answer: t.reason(err), again: t.again()}
	}
	defer resp.Body.Close()
	out := reply{again: t.again()}
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		out.serial = resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		out.answer = "answer cut off: " + err.Error()
	case resp.StatusCode != http.StatusOK:
		out.answer = strconv.Itoa(resp.StatusCode)
	default:
		out.answer = servedBy(text)
	}
	return out
}

// servedBy names the workload of the pod that answered: a Deployment's pods are
// named after it, with two more words.
func servedBy(text []byte) string {
	var a struct{ Pod string }
	if err := json.Unmarshal(text, &a); err != nil || a.Pod == "" {
		return fmt.Sprintf("200, but not of a pod: %.80q", text)
	}
	name, _, _ := strings.Cut(a.Pod, "-")
	return served(name)
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

func (t *trace) again() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.connections-1)
}

// reason is why there is no answer. An edge that has no certificate for a name
// ends the connection in the handshake; that one is wrong is something else.
func (t *trace) reason(err error) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wrong *tls.CertificateVerificationError
	if t.handshake != nil && !errors.As(t.handshake, &wrong) && t.connections == 0 {
		return closed
	}
	if t.last.Reused {
		return fmt.Sprintf("%v, on a connection unused for %s", err, t.last.IdleTime.Round(time.Millisecond))
	}
	return err.Error()
}
