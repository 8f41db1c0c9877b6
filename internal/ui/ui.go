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
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Source is what there is to see. Every function may be called from any
// goroutine and returns a value of its own.
type Source struct {
	Alive    func() error                                 // nil while what runs goes on; no function: it does
	Ready    func() error                                 // nil once the first publish is done
	Findings func(context.Context) ([]Finding, error)     // sorted
	Tables   func(context.Context) ([]Table, error)       // in order of declaration
	Rows     func(context.Context, string) ([]Row, error) // of one table, sorted; ErrNoTable
	Why      func(context.Context, string, string) ([]Read, error)
	Streams  func(context.Context) (any, error) // of proxies
	Metrics  prometheus.Gatherer
}

// ErrNoTable says that no table has this name.
var ErrNoTable = errors.New("no such table")

// Finding is what is wrong with an object.
type Finding struct {
	Severity string `json:"severity"` // Error: a part of the object is not done. Warning: look at it
	Object   string `json:"object"`
	Field    string `json:"field,omitempty"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// Table is a table of the program.
type Table struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"` // input or derived
	Rows        int    `json:"rows"`
	Evaluations uint64 `json:"evaluations"`
}

// Row is a row of a table, as text.
type Row struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Read is a row that another row was computed from.
type Read struct {
	Table string `json:"table"`
	Key   string `json:"key"`
}

// Access decides who may read off loopback. It returns an error to show.
type Access func(ctx context.Context, token, path string) error

// Config says where to listen and who may read.
type Config struct {
	Address netip.AddrPort
	Cert    func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil: plain HTTP, loopback only
	Access  Access                                               // needed off loopback
}

// maxRows bounds an answer; a request may ask for fewer with ?limit=.
const maxRows = 10_000

// Listen opens the listener, so that a port in use is known before anything starts.
func Listen(ctx context.Context, cfg Config) (net.Listener, error) {
	loopback := cfg.Address.Addr().IsLoopback()
	if !loopback && (cfg.Cert == nil || cfg.Access == nil) {
		return nil, fmt.Errorf("admin address %s is not loopback: give --admin-cert and --admin-key, or bind to 127.0.0.1", cfg.Address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Address.String())
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w (another spillway? choose another --admin-address)", err)
	}
	if cfg.Cert != nil {
		l = tls.NewListener(l, &tls.Config{GetCertificate: cfg.Cert, MinVersion: tls.VersionTLS12})
	}
	return l, nil
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, cfg Config, src Source) error {
	h := Handler(src)
	if !cfg.Address.Addr().IsLoopback() {
		h = guarded(h, cfg.Access)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug)}
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
	mux.HandleFunc("GET /v1/findings", func(w http.ResponseWriter, r *http.Request) { answer(w)(src.Findings(r.Context())) })
	mux.HandleFunc("GET /v1/tables", func(w http.ResponseWriter, r *http.Request) { answer(w)(src.Tables(r.Context())) })
	mux.HandleFunc("GET /v1/streams", func(w http.ResponseWriter, r *http.Request) { answer(w)(src.Streams(r.Context())) })
	mux.HandleFunc("GET /v1/tables/{table}", func(w http.ResponseWriter, r *http.Request) {
		rows, err := src.Rows(r.Context(), r.PathValue("table"))
		answer(w)(page(rows, r), err)
	})
	mux.HandleFunc("GET /v1/why/{table}", func(w http.ResponseWriter, r *http.Request) {
		answer(w)(src.Why(r.Context(), r.PathValue("table"), r.URL.Query().Get("key")))
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

// page cuts rows to those whose key contains ?match=, at most ?limit=.
func page(rows []Row, r *http.Request) []Row {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit <= 0 || limit > maxRows {
		limit = maxRows
	}
	out := []Row{}
	for _, row := range rows {
		if len(out) == limit {
			break
		}
		if strings.Contains(row.Key, q.Get("match")) {
			out = append(out, row)
		}
	}
	return out
}

func answer(w http.ResponseWriter) func(any, error) {
	return func(v any, err error) {
		switch {
		case errors.Is(err, ErrNoTable):
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
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
}

// guarded lets those in whose token the hub allows. Health needs no token:
// kubelets ask without one.
func guarded(next http.Handler, access Access) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r)
			return
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			http.Error(w, "give a token of the hub: Authorization: Bearer …", http.StatusUnauthorized)
			return
		}
		if err := access(r.Context(), token, r.URL.Path); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
