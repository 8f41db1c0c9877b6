package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/pki"
)

// LogServer is where a kubelet serves the logs of its containers.
type LogServer struct {
	Listener net.Listener
	Clients  *x509.CertPool // who may read: the API server
}

const (
	lookEvery = 250 * time.Millisecond // so exact is sinceTime
	mostMarks = 2048                   // of a log; what is older counts as long ago
	certLife  = 30 * 24 * time.Hour
)

// marks say when a log was how long: containers write their logs themselves, so no
// line has a time.
type marks struct {
	mu sync.Mutex
	of map[string][]mark // by file, oldest first
}

type mark struct {
	at   time.Time
	size int64
}

// look notes which logs of a folder are longer now.
func (m *marks) look(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		had := m.of[e.Name()]
		if n := len(had); n == 0 && st.Size() == 0 || n > 0 && had[n-1].size == st.Size() {
			continue
		}
		had = append(had, mark{now, st.Size()})
		m.of[e.Name()] = had[max(0, len(had)-mostMarks):]
	}
	return nil
}

// since is the length that a log had at a time, or a little before.
func (m *marks) since(file string, t time.Time) (size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.of[file] {
		if k.at.After(t) {
			break
		}
		size = k.size
	}
	return size
}

// serveLogs serves /containerLogs/NAMESPACE/POD/CONTAINER until ctx ends.
func (k *Kubelet) serveLogs(ctx context.Context) error {
	pair, err := pki.Self(pki.Leaf("kubelet", certLife, x509.ExtKeyUsageServerAuth))
	if err != nil {
		return err
	}
	m := &marks{of: map[string][]mark{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) { k.serveLog(w, r, m) })
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientCAs: k.Logs.Clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
	}
	k.wg.Go(func() {
		if err := server.ServeTLS(k.Logs.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			k.Log.Error("logs are not served any more", "member", k.Member, "error", err)
		}
	})
	k.wg.Go(func() {
		defer server.Close()
		for sleep(ctx, lookEvery) {
			if err := m.look(k.LogDir, time.Now()); err != nil {
				k.Log.Warn("logs not looked at", "member", k.Member, "error", err)
			}
		}
	})
	return nil
}

func (k *Kubelet) serveLog(w http.ResponseWriter, r *http.Request, m *marks) {
	from, err := m.start(logName(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")), r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotImplemented)
		return
	}
	f, err := os.Open(filepath.Join(k.LogDir, logName(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))))
	if err != nil {
		http.Error(w, "no such log", http.StatusNotFound)
		return
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.Copy(w, f)
}

// start is where in a log to begin, for what is asked.
func (m *marks) start(file string, asked map[string][]string, now time.Time) (int64, error) {
	var from int64
	for name, value := range asked {
		switch name {
		case "sinceTime":
			t, err := time.Parse(time.RFC3339, value[0])
			if err != nil {
				return 0, err
			}
			from = m.since(file, t)
		case "sinceSeconds":
			n, err := strconv.Atoi(value[0])
			if err != nil {
				return 0, err
			}
			from = m.since(file, now.Add(-time.Duration(n)*time.Second))
		default:
			return 0, fmt.Errorf("the lab's kubelet knows sinceTime and sinceSeconds of logs, and not %s", name)
		}
	}
	return from, nil
}

// logName is the file of a container's log. Names have neither "_" nor "/".
func logName(namespace, pod, container string) string {
	return filepath.Base(fmt.Sprintf("%s_%s_%s.log", namespace, pod, container))
}
