package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// serveBackends answers on all addresses of realNetwork, and says on which.
func serveBackends() (*http.Server, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", fmt.Sprintf("0.0.0.0:%d", backendPort))
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		w.Header().Set("X-At", at.IP.String())
	})}
	go func() { _ = s.Serve(l) }()
	return s, nil
}

// prober sends requests through Envoy on one connection that is kept.
type prober struct {
	client *http.Client
	port   int
}

func newProber(port int) *prober {
	return &prober{port: port, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
}

// answer is what came back.
type answer struct {
	status int
	at     string // the backend's address
	mark   string // what the route adds
}

func (p *prober) ask(host, path string) (answer, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", p.port, path), nil)
	if err != nil {
		return answer{}, err
	}
	req.Host = host
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return answer{resp.StatusCode, resp.Header.Get("X-At"), resp.Header.Get(markHeader)}, err
}

// until waits until a host's first path is answered with a status.
func (p *prober) until(ctx context.Context, host string, status int) error {
	_, err := served(ctx, func() {}, func() (bool, error) {
		a, err := p.ask(host, "/v0")
		return err == nil && a.status == status, nil
	})
	return err
}

// serial is that of the certificate which a new handshake shows.
func serial(host string) (int64, error) {
	d := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} // whose it is, its serial tells
	c, err := d.DialContext(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", httpsPort))
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// probeEvery is the pause between two requests that found the old state.
const probeEvery = time.Millisecond

// served makes a change and asks until it is seen. It returns how long that took, so
// it rests between two looks, as no ticker does.
func served(ctx context.Context, change func(), seen func() (bool, error)) (time.Duration, error) {
	start := time.Now()
	change()
	for ctx.Err() == nil {
		ok, err := seen()
		if err != nil || ok {
			return time.Since(start), err
		}
		time.Sleep(probeEvery)
	}
	return 0, fmt.Errorf("the change is not served: %w", ctx.Err())
}
