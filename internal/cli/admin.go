package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// admin is how to reach a running serve.
type admin struct{ address, ca, token string }

func (a *admin) flags(f *pflag.FlagSet) {
	f.StringVar(&a.address, "admin-address", "127.0.0.1:18080", "`HOST:PORT` of the admin listener of spillway serve; https://HOST:PORT off loopback")
	f.StringVar(&a.ca, "admin-ca", "", "CA file of the admin listener's certificate")
	f.StringVar(&a.token, "admin-token-file", "", "file with a token of the hub, needed off loopback")
}

func (a *admin) validate() error {
	u, err := url.Parse(a.base())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("--admin-address %q: use HOST:PORT or https://HOST:PORT", a.address)
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return fmt.Errorf("--admin-address %q: use HOST:PORT or https://HOST:PORT: %w", a.address, err)
	}
	if u.Scheme == "http" && (a.ca != "" || a.token != "") {
		return errors.New("--admin-ca and --admin-token-file are for https: a token is never sent in plain text")
	}
	return nil
}

// base is the address with its scheme.
func (a *admin) base() string {
	if strings.Contains(a.address, "://") {
		return strings.TrimSuffix(a.address, "/")
	}
	return "http://" + a.address
}

// mostBytes is how much of an answer is read.
const mostBytes = 256 << 20

// fetch reads a page, and whether there are more behind it.
func (a *admin) fetch(ctx context.Context, path string) (body []byte, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base()+path, http.NoBody)
	if err != nil {
		return nil, false, fmt.Errorf("--admin-address %q: %w", a.address, err)
	}
	client, err := a.client()
	if err != nil {
		return nil, false, err
	}
	defer client.CloseIdleConnections()
	if a.token != "" {
		token, err := os.ReadFile(a.token)
		if err != nil {
			return nil, false, fmt.Errorf("token of the hub: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, false, fmt.Errorf("no spillway serve at %s (start it, or name its --admin-address): %w", a.address, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, mostBytes))
	if err != nil {
		return nil, false, fmt.Errorf("the answer of %s ended early: %w", a.address, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return body, resp.Header.Get("Link") != "", nil
}

func (a *admin) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: nil} // it is on this machine, or near
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, fmt.Errorf("CA of the admin listener: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, errors.New("CA of the admin listener: no certificate in " + a.ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}, nil
}
