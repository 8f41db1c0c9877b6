package ui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func source(ready error) Source {
	return Source{
		Ready: func() error { return ready },
		Findings: func(context.Context) ([]Finding, error) {
			return []Finding{{Object: "Ingress shop/web", Reason: "Conflict"}}, nil
		},
		Tables: func(context.Context) ([]Table, error) { return []Table{{Name: "hosts", Kind: "derived", Rows: 1}}, nil },
		Rows: func(_ context.Context, name string) ([]Row, error) {
			if name != "hosts" {
				return nil, ErrNoTable
			}
			return []Row{{"a.example", "1"}, {"b.example", "2"}, {"b.test", "3"}}, nil
		},
		Why: func(context.Context, string, string) ([]Read, error) {
			return []Read{{"roots", "Ingress shop/web"}}, nil
		},
		Streams: func(context.Context) (any, error) { return []string{}, errors.New("stopping") },
		Metrics: prometheus.NewRegistry(),
	}
}

func TestRequests(t *testing.T) {
	for _, c := range []struct {
		path  string
		ready error
		code  int
		want  string
	}{
		{"/healthz", errors.New("not yet"), 200, "ok"},
		{"/readyz", errors.New("waiting for the hub"), 503, "waiting for the hub"},
		{"/readyz", nil, 200, "ok"},
		{"/metrics", nil, 200, ""},
		{"/v1/findings", nil, 200, `"Ingress shop/web"`},
		{"/v1/tables", nil, 200, `"hosts"`},
		{"/v1/tables/hosts?match=example&limit=1", nil, 200, `"a.example"`},
		{"/v1/tables/hosts?match=test", nil, 200, `"b.test"`},
		{"/v1/tables/none", nil, 404, "no such table"},
		{"/v1/why/hosts?key=a.example", nil, 200, `"roots"`},
		{"/v1/streams", nil, 503, "stopping"},
		{"/v2", nil, 404, ""},
	} {
		w := httptest.NewRecorder()
		Handler(source(c.ready)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %q", c.path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Handler(source(nil)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/findings", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestGuard(t *testing.T) {
	access := func(_ context.Context, token, path string) error {
		if token != "good" || path != "/v1/tables" {
			return errors.New("the hub says no")
		}
		return nil
	}
	h := guarded(Handler(source(nil)), access)
	for _, c := range []struct {
		path, auth string
		code       int
	}{
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/v1/tables", "", 401},
		{"/v1/tables", "Basic good", 401},
		{"/v1/tables", "Bearer bad", 403},
		{"/v1/tables", "Bearer good", 200},
		{"/v1/findings", "Bearer good", 403},
		{"/metrics", "", 401},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("%s with %q: %d, want %d", c.path, c.auth, w.Code, c.code)
		}
	}
}

func TestListenRefusesPlainHTTPOffLoopback(t *testing.T) {
	_, err := Listen(t.Context(), Config{Address: netip.MustParseAddrPort("0.0.0.0:0")})
	if err == nil || !strings.Contains(err.Error(), "--admin-cert") {
		t.Errorf("got %v", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	cfg := Config{Address: netip.MustParseAddrPort("127.0.0.1:0")}
	l, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Address = netip.MustParseAddrPort(l.Addr().String())
	if _, err := Listen(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--admin-address") {
		t.Errorf("port in use: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, cfg, source(nil)) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
