package example

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab/echo"
)

const (
	giveUp = 10 * time.Second // of one question: far beyond what any part of the fleet waits
	poll   = 50 * time.Millisecond
)

// Question is what a program in a place is given to ask.
type Question struct {
	Address string            // of the Gateway
	Roots   []byte            // PEM: who signs certificates of servers
	Clients map[string][]byte // PEM: certificate and key
	Most    time.Duration     // until all must hold; 0 asks once
	All     []Expectation
}

// Serve reads a Question, and returns when all of it holds at a time. The error is of
// what does not.
func Serve(ctx context.Context, in io.Reader) error {
	var q Question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return err
	}
	a, err := newAsker(q)
	if err != nil || q.Most == 0 {
		return errors.Join(err, a.round(ctx))
	}
	return eventually.Patience{Most: q.Most, Poll: poll}.Await(ctx, "all to hold", a.round)
}

// asker is a client.
type asker struct {
	Question
	roots   *x509.CertPool
	clients map[string]tls.Certificate
}

func newAsker(q Question) (*asker, error) {
	a := &asker{q, x509.NewCertPool(), map[string]tls.Certificate{}}
	a.roots.AppendCertsFromPEM(q.Roots)
	for name, text := range q.Clients {
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", name, err)
		}
		a.clients[name] = pair
	}
	return a, nil
}

// round asks all, and is nil if all holds.
func (a *asker) round(ctx context.Context) (err error) {
	for _, e := range a.All {
		if wrong := a.check(ctx, e); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", e, wrong))
		}
	}
	return err
}

// reply is what came.
type reply struct {
	status string // of HTTP and GRPC
	header http.Header
	body   []byte
}

var ways = map[string]func(*asker, context.Context, Expectation) (reply, error){
	HTTP: (*asker).http, GRPC: (*asker).grpc, TCP: (*asker).stream, UDP: (*asker).stream, TLS: (*asker).stream,
}

func (a *asker) check(ctx context.Context, e Expectation) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	r, err := ways[e.Protocol](a, ctx, e)
	switch {
	case e.Closed && ended(err):
		return nil
	case err != nil:
		return err
	}
	if err := e.judge(r); err != nil || !e.Again {
		return err
	}
	return a.again(ctx, e, r)
}

// times is how often a client comes back: two pods would pass for one in one of some
// thousand tries.
const times = 12

// again is nil if who shows what an answer has is answered by the same pod.
func (a *asker) again(ctx context.Context, e Expectation, first reply) error {
	pod, err := podOf(first.body)
	if err != nil {
		return err
	}
	for _, c := range (&http.Response{Header: first.header}).Cookies() {
		e.Send = append(e.Send, Header{Name: "Cookie", Value: c.Name + "=" + c.Value})
	}
	for _, h := range e.Answers {
		if h.Value == "" && !h.Absent && !strings.EqualFold(h.Name, "Set-Cookie") {
			e.Send = append(e.Send, Header{Name: h.Name, Value: first.header.Get(h.Name)})
		}
	}
	for range times {
		r, err := a.http(ctx, e)
		if err != nil {
			return err
		}
		now, err := podOf(r.body)
		if err != nil {
			return err
		}
		if now.Pod != pod.Pod || now.Member != pod.Member {
			return fmt.Errorf("the pod is %s of %s, and then %s of %s", pod.Pod, pod.Member, now.Pod, now.Member)
		}
	}
	return nil
}

// podOf is what a pod of the lab says of itself; of a stream it may come after headers.
func podOf(body []byte) (pod echo.Answer, err error) {
	text := body[max(0, bytes.IndexByte(body, '{')):]
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&pod); err != nil || pod.Pod == "" {
		return pod, fmt.Errorf("the answer is of no pod: %.200q", body)
	}
	return pod, nil
}

// ended is whether a connection was made and ended without an answer.
func ended(err error) bool {
	var dial *net.OpError
	var certificate *tls.CertificateVerificationError
	var slow net.Error
	switch {
	case err == nil, errors.As(err, &certificate):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	}
	return !errors.As(err, &slow) || !slow.Timeout()
}

// judge is nil if a reply is as expected.
func (e Expectation) judge(r reply) error {
	if e.Closed || r.status != e.Status {
		return fmt.Errorf("the answer is %s: %.200s", r.status, r.body)
	}
	errs := []error{has("the answer", r.header, e.Answers)}
	if e.From != "" {
		errs = append(errs, e.judgePod(r.body))
	}
	return errors.Join(errs...)
}

// judgePod is about what a pod of the lab says: who it is, and what it got.
func (e Expectation) judgePod(body []byte) error {
	pod, err := podOf(body)
	if err != nil {
		return err
	}
	service, _, _ := strings.Cut(pod.Pod, "-")
	var shown string
	if pod.TLS != nil {
		shown = pod.TLS.Client
	}
	errs := []error{has("the pod", pod.Headers, e.Gets)}
	for _, w := range []struct{ what, got, want string }{
		{"Service", service, e.From}, {"member", pod.Member, e.In}, {"path", pod.Path, e.Path}, {"host", pod.Host, e.PodHost}, {"certificate", shown, e.Shown},
	} {
		if w.want != "" && w.got != w.want {
			errs = append(errs, fmt.Errorf("the pod's %s is %q", w.what, w.got))
		}
	}
	return errors.Join(errs...)
}

// has is nil if headers are as they should be.
func has(who string, got http.Header, want []Header) error {
	var errs []error
	for _, h := range want {
		values, there := got[http.CanonicalHeaderKey(h.Name)]
		value := strings.Join(values, ", ")
		if there == h.Absent || h.Value != "" && list(h.Value) != list(value) {
			errs = append(errs, fmt.Errorf("%s has %s: %q", who, h.Name, value))
		}
	}
	return errors.Join(errs...)
}

// list is a value as one, where blanks after commas mean nothing.
func list(value string) string { return strings.ReplaceAll(value, ", ", ",") }

// dial connects to a port of the Gateway.
func (a *asker) dial(ctx context.Context, network, port string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(a.Address, port))
}

func (a *asker) tls(e Expectation, host string) (*tls.Config, error) {
	conf := &tls.Config{RootCAs: a.roots, ServerName: host}
	if e.As == "" {
		return conf, nil
	}
	pair, ok := a.clients[e.As]
	if !ok {
		return nil, fmt.Errorf("there is no certificate %q", e.As)
	}
	// Shown whatever authorities the server names.
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return conf, nil
}

// http sends a request on a connection of its own.
func (a *asker) http(ctx context.Context, e Expectation) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, e.Method, e.URL, http.NoBody)
	if err != nil {
		return reply{}, err
	}
	for _, h := range e.Send {
		req.Header.Add(h.Name, h.Value)
	}
	conf, err := a.tls(e, req.URL.Hostname())
	if err != nil {
		return reply{}, err
	}
	resp, err := (&http.Transport{
		TLSClientConfig: conf, DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(to)
			return a.dial(ctx, network, port)
		},
	}).RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return reply{fmt.Sprint(resp.StatusCode), resp.Header, body}, err
}

// hello is a line, and a request of HTTP.
const hello = "GET / HTTP/1.1\r\nHost: example\r\nConnection: close\r\n\r\n"

// stream sends something over TCP, TLS or UDP, and reads what a pod says of it.
func (a *asker) stream(ctx context.Context, e Expectation) (reply, error) {
	c, err := a.dial(ctx, map[string]string{TCP: "tcp", TLS: "tcp", UDP: "udp"}[e.Protocol], e.Port)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = c.Close() }()
	until := time.Now().Add(giveUp)
	if e.Protocol == UDP { // lost ones are not sent again
		until = time.Now().Add(giveUp / 10)
	}
	if err := c.SetDeadline(until); err != nil {
		return reply{}, err
	}
	if e.Protocol == TLS {
		conf, err := a.tls(e, e.Host)
		if err != nil {
			return reply{}, err
		}
		c = tls.Client(c, conf)
	}
	if _, err := io.WriteString(c, hello); err != nil {
		return reply{}, err
	}
	return answer(c)
}

// answer reads until there is a pod's.
func answer(c net.Conn) (r reply, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		r.body = append(r.body, buf[:n]...)
		if bytes.HasSuffix(bytes.TrimRight(r.body, "\r\n0"), []byte("}")) {
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
}

// target is where a URL of gRPC leads.
func target(raw string) (host, port, method string, secure bool, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", "", "", false, err
	}
	secure, port = u.Scheme == "https", u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[secure]
	}
	return u.Hostname(), port, u.Path, secure, nil
}
