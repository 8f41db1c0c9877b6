// Package drain takes an Envoy out of work so that no request is lost when it
// ends: what Kubernetes calls a preStop hook. It asks the proxy's own admin
// interface and needs nothing else.
package drain

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Options say which proxy, and how long to wait.
type Options struct {
	Admin string // host:port of Envoy's admin interface
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
	if _, err := ask(ctx, http.MethodPost, o.Admin, "/healthcheck/fail"); err != nil {
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
		left, err := requests(ctx, o.Admin)
		if err != nil || left == 0 {
			return err
		}
	}
}

// requests counts those that clients wait for.
func requests(ctx context.Context, admin string) (int, error) {
	body, err := ask(ctx, http.MethodGet, admin, "/stats?type=Gauges&filter=%5Ehttp%5C..*downstream_rq_active%24")
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

func ask(ctx context.Context, method, admin, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+admin+path, nil)
	if err != nil {
		return "", fmt.Errorf("drain: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("drain: is this the admin interface of an Envoy (--admin-address)? %w", err)
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
