package xds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Endpoint is where a Server listens, with the way its clients prove who they
// are.
type Endpoint struct {
	net.Listener
	listen func() (net.Listener, error) // again, at the same address
	creds  credentials.TransportCredentials
	files  *keyFiles // nil: clients have no certificates
	path   string    // of a unix socket, removed on Close
	closed sync.Once
}

// Close stops listening and removes the socket. It may be called again.
func (e *Endpoint) Close() (err error) {
	e.closed.Do(func() {
		if err = e.Listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil // see Refuse
		}
		if e.path == "" {
			return
		}
		if rm := os.Remove(e.path); !errors.Is(rm, os.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	})
	return err
}

// ListenTLS listens on a TCP address for clients with a certificate of the
// client CA. The files are PEM and are read again, at the next handshake,
// when they changed.
func ListenTLS(address, certFile, keyFile, clientCAFile string) (*Endpoint, error) {
	files := &keyFiles{cert: certFile, key: keyFile, ca: clientCAFile}
	if _, err := files.config(); err != nil {
		return nil, err
	}
	l, again, err := listenTCP(address)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return files.config()
		},
	}
	return &Endpoint{Listener: l, listen: again, creds: credentials.NewTLS(cfg), files: files}, nil
}

// listenTCP listens, and says how to do so again at the same port.
func listenTCP(address string) (l net.Listener, again func() (net.Listener, error), err error) {
	listen := func(at string) (net.Listener, error) {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at)
		if err != nil {
			return nil, fmt.Errorf("xds: listen: %w", err)
		}
		return l, nil
	}
	if l, err = listen(address); err != nil {
		return nil, nil, err
	}
	at := l.Addr().String()
	return l, func() (net.Listener, error) { return listen(at) }, nil
}

// Refuse stops listening until ready is closed, or ctx is done; then it listens
// again. Nothing takes a connection meanwhile, not even the kernel: a balancer in
// front of several replicas takes another one, and a client that finds nobody here
// tries again sooner than one whose connection is taken and not answered.
func (e *Endpoint) Refuse(ctx context.Context, ready <-chan struct{}) error {
	if err := e.Listener.Close(); err != nil {
		return fmt.Errorf("xds: stop listening: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	l, err := e.listen()
	if err == nil {
		e.Listener = l
	}
	return err
}

// lookAtCAs is how often it is looked whether the client CAs are others: open
// streams end within a second after the file changed.
const lookAtCAs = 500 * time.Millisecond

// watchCAs calls changed when the client CAs are others than before, until ctx is
// done.
func (e *Endpoint) watchCAs(ctx context.Context, changed func()) {
	if e.files == nil {
		return
	}
	tick := time.NewTicker(lookAtCAs)
	defer tick.Stop()
	for was := e.clientCAs(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := e.clientCAs(); now != was {
			was = now
			changed()
		}
	}
}

// clientCAs are those that clients' certificates must be of now; nil if clients
// have none.
func (e *Endpoint) clientCAs() *x509.CertPool {
	if e.files == nil {
		return nil
	}
	cfg, err := e.files.config()
	if err != nil {
		return nil
	}
	return cfg.ClientCAs
}

// ListenUnix listens on a unix socket of mode 0600: who may open it may speak
// for any edge. A socket left by a dead process is replaced, one in use is not.
func ListenUnix(path string) (*Endpoint, error) {
	l, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	return &Endpoint{Listener: l, listen: func() (net.Listener, error) { return listenUnix(path) }, creds: insecure.NewCredentials(), path: path}, nil
}

func listenUnix(path string) (net.Listener, error) {
	if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("xds: listen: %s is in use by another process", path)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("xds: listen: %s exists and is not a socket", path)
	}
	// Made where nobody else may look, then moved: it never has another mode.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".xds-")
	if err != nil {
		return nil, fmt.Errorf("xds: listen: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("xds: listen: %w", err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(filepath.Join(dir, "s"), 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(dir, "s"), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("xds: listen: %w", err), l.Close())
	}
	return l, nil
}

// ListenPlaintext listens on a loopback TCP address without any proof of
// identity: every local user may speak for any edge and read its secrets. It
// refuses other addresses. The caller warns its user.
func ListenPlaintext(address string) (*Endpoint, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("xds: listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("xds: listen: plaintext is for loopback only, not %q: use a certificate or a unix socket", address)
	}
	l, again, err := listenTCP(address)
	if err != nil {
		return nil, err
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("xds: listen: %q is not loopback", address), l.Close())
	}
	return &Endpoint{Listener: l, listen: again, creds: insecure.NewCredentials()}, nil
}

// keyFiles is a TLS configuration kept in files.
type keyFiles struct {
	cert, key, ca string

	mu    sync.Mutex
	stamp [3]fileStamp
	built *tls.Config
}

type fileStamp struct {
	mod  time.Time
	size int64
}

// config returns the files' present configuration. When they can't be read,
// or are half written, it stays with the last good one.
func (f *keyFiles) config() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var stamp [3]fileStamp
	for i, name := range []string{f.cert, f.key, f.ca} {
		st, err := os.Stat(name)
		if err != nil {
			if f.built != nil {
				return f.built, nil
			}
			return nil, fmt.Errorf("xds: certificate: %w", err)
		}
		stamp[i] = fileStamp{st.ModTime(), st.Size()}
	}
	if f.built != nil && stamp == f.stamp {
		return f.built, nil
	}
	cfg, err := f.load()
	if err != nil {
		if f.built != nil {
			return f.built, nil
		}
		return nil, err
	}
	if f.built != nil && f.built.ClientCAs.Equal(cfg.ClientCAs) {
		cfg.ClientCAs = f.built.ClientCAs // nobody need be verified again
	}
	f.built, f.stamp = cfg, stamp
	return cfg, nil
}

func (f *keyFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("xds: certificate %s, key %s: %w", f.cert, f.key, err)
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("xds: client CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("xds: client CA %s holds no PEM certificate", f.ca)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{pair},
		ClientCAs:    pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
