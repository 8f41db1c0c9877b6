// Command oldhub is a real kube-apiserver of an older Kubernetes with a database
// in one process, for tests: `oldhub hub --data-dir DIR` behaves as `spillway hub`
// does, as far as tests look. It is a module of its own, with one go.mod for each
// minor version, since one program has one version of Kubernetes.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const readyWithin = 2 * time.Minute

func main() {
	if len(os.Args) != 4 || os.Args[1] != "hub" || os.Args[2] != "--data-dir" {
		fmt.Fprintln(os.Stderr, "usage: oldhub hub --data-dir DIR")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	storage, err := database(dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	token, err := secrets(dir)
	if err != nil {
		return err
	}
	cmd := app.NewAPIServerCommand()
	cmd.SetArgs([]string{
		"--etcd-servers=" + storage, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--cert-dir=" + dir,
		"--token-auth-file=" + filepath.Join(dir, "tokens.csv"), "--authorization-mode=RBAC", "--endpoint-reconciler-type=none",
		"--service-account-key-file=" + filepath.Join(dir, "accounts.key"), "--service-account-signing-key-file=" + filepath.Join(dir, "accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--disable-admission-plugins=ServiceAccount,ResourceQuota",
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.Execute() }()
	ready := make(chan error, 1)
	go func() { ready <- awaitReady(ctx, dir, port, token) }()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("the API server ended: %w", err)
		case err := <-ready:
			if err != nil {
				return err
			}
			fmt.Println("ready: kubeconfig", filepath.Join(dir, "admin.kubeconfig"))
		case <-ctx.Done():
			return nil // the process takes all with it
		}
	}
}

// database starts etcd on unix sockets and returns its URL.
func database(dir string) (string, error) {
	run, err := os.MkdirTemp("", "oldhub-") // a socket's path is short
	if err != nil {
		return "", err
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = filepath.Join(dir, "etcd"), "error", true
	client, peer := url.URL{Scheme: "unix", Path: filepath.Join(run, "etcd.sock")}, url.URL{Scheme: "unix", Path: filepath.Join(run, "peer.sock")}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", err
	}
	select {
	case <-e.Server.ReadyNotify():
		return client.String(), nil
	case <-time.After(readyWithin):
		return "", errors.New("the database is not ready")
	}
}

// secrets writes the key of service accounts and the administrator's token.
func secrets(dir string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	token := hex.EncodeToString(raw[:])
	return token, errors.Join(
		os.WriteFile(filepath.Join(dir, "accounts.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600))
}

// awaitReady waits until the API server says that it is, and writes the kubeconfig.
func awaitReady(ctx context.Context, dir string, port int, token string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	server := "https://127.0.0.1:" + strconv.Itoa(port)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ca, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
		if err == nil {
			err = ask(ctx, server+"/readyz", ca, token)
		}
		if err == nil {
			text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "u", "user": {"token": %q}}]}`,
				server, base64.StdEncoding.EncodeToString(ca), token)
			return os.WriteFile(filepath.Join(dir, "admin.kubeconfig"), []byte(text), 0o600)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w", err)
		}
	}
}

func ask(ctx context.Context, where string, ca []byte, token string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}
