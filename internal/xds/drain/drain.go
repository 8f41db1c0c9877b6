// Package drain takes an Envoy out of work so that no request is lost when it
// ends: what Kubernetes calls a preStop hook. It asks the proxy's own admin
// interface and needs nothing else.
package drain

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options say which proxy, and how long to wait.
type Options struct {
	Admin string // Envoy's admin interface: host:port, or the absolute path of its socket
	// Notice is the least time before the end: whoever sends clients to the
	// proxy must see that its health check fails, or that it left.
	Notice time.Duration
	Limit  time.Duration // the longest wait for requests to end
	Every  time.Duration // between two looks
}

// Run has the proxy fail its health checks and close connections behind their
// next answer (HTTP/1.1 "Connection: close", HTTP/2 GOAWAY). It returns when
// the notice is over and no request is left. An error says that it could not be
// asked, or that Limit passed first.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("requests did not end in %s", o.Limit))
	defer cancel()
	admin := adminAt(o.Admin)
	defer admin.client.CloseIdleConnections()
	if _, err := admin.ask(ctx, http.MethodPost, "/healthcheck/fail"); err != nil {
		return err
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	enough := time.After(o.Notice)
	for {
		select {
		case <-enough:
			enough = nil
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("drain: %w", context.Cause(ctx))
		}
		if enough != nil {
			continue
		}
		left, err := admin.requests(ctx)
		if err != nil || left == 0 {
			return err
		}
	}
}

// admin is an admin interface.
type admin struct {
	host   string
	client *http.Client
}

func adminAt(at string) admin {
	if !filepath.IsAbs(at) {
		return admin{at, &http.Client{Transport: &http.Transport{}}}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", at)
	}
	return admin{"admin", &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// requests counts those that clients wait for.
func (a admin) requests(ctx context.Context) (int, error) {
	body, err := a.ask(ctx, http.MethodGet, "/stats?type=Gauges&filter=%5Ehttp%5C..*downstream_rq_active%24")
	if err != nil {
		return 0, err
	}
	total := 0
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if strings.HasPrefix(name, "http.admin.") {
			continue // we are one of them
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return 0, fmt.Errorf("drain: what Envoy says of its requests: %q", lines.Text())
		}
		total += n
	}
	return total, nil
}

func (a admin) ask(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+a.host+path, nil)
	if err != nil {
		return "", fmt.Errorf("drain: %w", err)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("drain: is this the admin interface of an Envoy (--admin-path, --admin-port)? %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return "", fmt.Errorf("drain: %w", err)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("drain: %s %s of the admin interface: %s", method, path, resp.Status)
	}
	return string(body), nil
}
