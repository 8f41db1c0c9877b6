package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func source(ready error) Source {
	return Source{
		Ready: func() error { return ready },
		Lists: map[string]List{
			"findings": func(context.Context, Query) (Page, error) {
				return Page{Items: []Finding{{Object: "Ingress shop/web", Reason: "Conflict"}}}, nil
			},
			"streams": func(context.Context, Query) (Page, error) { return Page{}, errors.New("stopping") },
		},
		Tables: func(context.Context) ([]Table, error) { return []Table{{Name: "hosts", Kind: "derived", Rows: 1}}, nil },
		Rows: func(_ context.Context, name string, q Query) (Page, error) {
			if name != "hosts" {
				return Page{}, ErrNoTable
			}
			page := Page{Items: []Row{{Key: fmt.Sprintf("%+v", q)}}}
			if q.Limit == 1 {
				page.Next = "b.example"
			}
			return page, nil
		},
		Why: func(context.Context, string, string) ([]Read, error) {
			return []Read{{"roots", "Ingress shop/web"}}, nil
		},
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
		{"/v1/tables/hosts", nil, 200, `{Match: After: Limit:10000}`},
		{"/v1/tables/hosts?match=example&limit=1&after=a.example", nil, 200, `{Match:example After:a.example Limit:1}`},
		{"/v1/tables/hosts?limit=0", nil, 400, "use 1 to 10000"},
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
	Handler(source(nil)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/tables/hosts?limit=1&match=a%26b", nil))
	if got, want := w.Header().Get("Link"), `</v1/tables/hosts?after=b.example&limit=1&match=a%26b>; rel="next"`; got != want {
		t.Errorf("the next page is %s, want %s", got, want)
	}
	w = httptest.NewRecorder()
	Handler(source(nil)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/findings", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
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

// TestRequestsAtOnce: the memory for answers is bounded, and a request that waits
// ends with its client.
func TestRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, now, most := source(nil), atomic.Int32{}, atomic.Int32{}
		src.Tables = func(context.Context) ([]Table, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return []Table{}, nil
		}
		h := Handler(src)
		var served atomic.Int32
		for range 3 * atOnce {
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/tables", nil))
				if w.Body.Len() > 0 {
					served.Add(1)
				}
			}()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		w := httptest.NewRecorder()
		time.Sleep(time.Millisecond)
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/tables", nil))
		if w.Body.Len() > 0 {
			t.Error("who has left is answered")
		}
		time.Sleep(10 * time.Second)
		if most.Load() != atOnce || served.Load() != 3*atOnce {
			t.Errorf("%d at once, %d served", most.Load(), served.Load())
		}
	})
}
