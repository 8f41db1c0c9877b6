// Package ui is the admin listener: health, readiness, metrics and read-only
// JSON of what is published. It never changes anything.
//
// On loopback it is plain HTTP. Elsewhere it wants TLS, and a token that the
// hub knows and allows: the caller says who may read, see Access.
package ui

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Source is what there is to see. Every function may be called from any
// goroutine and returns a value of its own.
type Source struct {
	Alive   func() error                                       // nil while what runs goes on; no function: it does
	Ready   func() error                                       // nil once the first publish is done
	Lists   map[string]List                                    // the kinds of objects, by the name that users know
	Tables  func(context.Context) ([]Table, error)             // in order of declaration
	Rows    func(context.Context, string, Query) (Page, error) // of one table; ErrNoTable
	Why     func(context.Context, string, string) ([]Read, error)
	Metrics prometheus.Gatherer
}

// List lists objects of a kind, in the order of their names.
type List func(context.Context, Query) (Page, error)

// Query says what of a list is wanted.
type Query struct {
	Match string // the names that contain it
	After string // the names behind it
	Limit int    // objects at most, at least 1
}

// Wants reports whether an object of this name is asked for, if there is room.
func (q Query) Wants(name string) bool {
	return (q.After == "" || name > q.After) && strings.Contains(name, q.Match)
}

// Page is a part of a list.
type Page struct {
	Items any    // a slice, not nil
	Next  string // the name that the next page is after; empty: this was the last
}

// ErrNoTable says that no table has this name.
var ErrNoTable = errors.New("no such table")

// Access decides who may read off loopback: 200, or the status and the error to
// answer with.
type Access func(*http.Request) (code int, err error)

// Config says where to listen and who may read.
type Config struct {
	Address netip.AddrPort
	Cert    func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil: plain HTTP, loopback only
	Access  Access                                               // needed off loopback
}

// maxRows bounds an answer; a request may ask for fewer with ?limit=.
const maxRows = 10_000

// atOnce is how many requests are answered at a time, so that the memory for them
// is bounded. Others wait.
const atOnce = 4

// Listen opens the listener, so that a port in use is known before anything starts.
func Listen(ctx context.Context, cfg Config) (net.Listener, error) {
	loopback := cfg.Address.Addr().IsLoopback()
	if !loopback && (cfg.Cert == nil || cfg.Access == nil) {
		return nil, fmt.Errorf("admin address %s is not loopback: give --admin-cert and --admin-key, or bind to 127.0.0.1", cfg.Address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Address.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("admin listener: %w (another spillway? choose another --admin-address)", err)
	case err != nil:
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	if cfg.Cert != nil {
		l = tls.NewListener(l, &tls.Config{GetCertificate: cfg.Cert, MinVersion: tls.VersionTLS12})
	}
	return l, nil
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, cfg Config, src Source) error {
	h := Handler(src)
	if cfg.Address.Addr().IsLoopback() {
		h = local(h)
	} else {
		h = guarded(h, cfg.Access)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin listener: %w", err)
	}
	return nil
}

// Handler serves src.
func Handler(src Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", check(src.Alive))
	mux.HandleFunc("GET /readyz", check(src.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(src.Metrics, promhttp.HandlerOpts{}))
	places := make(chan struct{}, atOnce)
	asked := func(path string, f func(r *http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-r.Context().Done():
				return
			}
			v, err := f(r)
			answer(w, r, v, err)
		})
	}
	for kind, list := range src.Lists {
		asked("/v1/"+kind, paged(func(r *http.Request, q Query) (Page, error) { return list(r.Context(), q) }))
	}
	asked("/v1/tables", func(r *http.Request) (any, error) { return src.Tables(r.Context()) })
	asked("/v1/tables/{table}", paged(func(r *http.Request, q Query) (Page, error) { return src.Rows(r.Context(), r.PathValue("table"), q) }))
	asked("/v1/why/{table}", func(r *http.Request) (any, error) {
		return src.Why(r.Context(), r.PathValue("table"), r.URL.Query().Get("key"))
	})
	return mux
}

// check answers ok, or why not.
func check(f func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if f != nil {
			if err := f(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	}
}

// errQuery is what is wrong with a request.
type errQuery struct{ error }

func paged(f func(*http.Request, Query) (Page, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		values := r.URL.Query()
		q := Query{Match: values.Get("match"), After: values.Get("after"), Limit: maxRows}
		if text := values.Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > maxRows {
				return nil, errQuery{fmt.Errorf("limit %q: use 1 to %d", text, maxRows)}
			}
			q.Limit = n
		}
		return f(r, q)
	}
}

func answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	if page, ok := v.(Page); ok {
		if v = page.Items; page.Next != "" {
			w.Header().Set("Link", "<"+next(r.URL, page.Next)+`>; rel="next"`) // RFC 8288
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b.Bytes()) // a reader that left is not our error
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrNoTable):
		return http.StatusNotFound
	case errors.As(err, new(errQuery)):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// next is where the page after a name is.
func next(u *url.URL, after string) string {
	values := u.Query()
	values.Set("after", after)
	return u.EscapedPath() + "?" + values.Encode()
}
