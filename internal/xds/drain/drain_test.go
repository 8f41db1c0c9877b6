package drain

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is an Envoy in front of a backend that answers when it is told to.
type one struct {
	proc   *envoytest.Process
	url    string
	came   chan struct{} // a request reached the backend
	finish chan struct{} // closed: it answers
}

const static = `{"admin": {"address": %s},
"static_resources": {
 "listeners": [{"name": "http-80", "address": %s, "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {
  "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
  "stat_prefix": "http-80",
  "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
  "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "pods", "timeout": "0s"}}]}]}
 }}]}]}],
 "clusters": [{"name": "pods", "type": "STATIC", "load_assignment": {"cluster_name": "pods", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": %s}}]}]}}]
}}`

func address(port int) string {
	return fmt.Sprintf(`{"socket_address": {"address": "127.0.0.1", "port_value": %d}}`, port)
}

func newOne(t *testing.T) *one { return newOneAt(t, envoytest.Loopback(t)) }

// newOneAt has its admin interface at an address, or at a socket.
func newOneAt(t *testing.T, admin string) *one {
	t.Helper()
	o := &one{came: make(chan struct{}, 10), finish: make(chan struct{})}
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			o.came <- struct{}{}
			<-o.finish
		}
		fmt.Fprint(w, "whole")
	}))
	t.Cleanup(pod.Close)
	var podPort int
	if _, err := fmt.Sscanf(pod.URL, "http://127.0.0.1:%d", &podPort); err != nil {
		t.Fatal(err)
	}
	port, adminAddress := envoytest.FreePort(t), fmt.Sprintf(`{"pipe": {"path": %q}}`, admin)
	if at, err := netip.ParseAddrPort(admin); err == nil {
		adminAddress = address(int(at.Port()))
	}
	o.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	o.proc = envoytest.Start(t, fmt.Appendf(nil, static, adminAddress, address(port), address(podPort)), admin)
	envoytest.Until(t, "Envoy to serve", func() bool {
		_, err := o.get(t, http.DefaultClient, "/")
		return err == nil
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return o
}

func (o *one) get(t *testing.T, c *http.Client, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && string(body) != "whole" {
		err = fmt.Errorf("%s: %q", resp.Status, body)
	}
	return resp, err
}

// A request in flight ends in peace, one on an old connection is answered and
// told to go, and only then is the proxy said to be drained.
func TestRequestsEnd(t *testing.T) {
	o := newOne(t)
	slow := make(chan error, 1)
	go func() {
		_, err := o.get(t, http.DefaultClient, "/slow")
		slow <- err
	}()
	<-o.came
	drained := make(chan error, 1)
	go func() {
		drained <- Run(t.Context(), Options{Admin: o.proc.Admin, Limit: time.Minute, Every: time.Millisecond})
	}()
	envoytest.Until(t, "connections to be closed behind an answer", func() bool {
		resp, err := o.get(t, http.DefaultClient, "/")
		if err != nil {
			t.Fatal(err)
		}
		return resp.Close
	})
	select {
	case err := <-drained:
		t.Fatal("drained while a request is in flight", err)
	default:
	}
	close(o.finish)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// The same over a unix socket, where the admin interface is by default.
func TestSocket(t *testing.T) {
	o := newOneAt(t, filepath.Join(t.TempDir(), "admin.sock"))
	if err := Run(t.Context(), Options{Admin: o.proc.Admin, Limit: time.Minute, Every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	resp, err := o.get(t, http.DefaultClient, "/")
	if err != nil || !resp.Close {
		t.Errorf("it is not drained: %v", err)
	}
}

func TestLimit(t *testing.T) {
	o := newOne(t)
	go func() { _, _ = o.get(t, http.DefaultClient, "/slow") }()
	<-o.came
	defer close(o.finish)
	err := Run(t.Context(), Options{Admin: o.proc.Admin, Limit: 50 * time.Millisecond, Every: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "requests did not end in 50ms") {
		t.Error(err)
	}
}

func TestNobodyThere(t *testing.T) {
	err := Run(context.Background(), Options{Admin: envoytest.Loopback(t), Limit: time.Minute, Every: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "--admin-path") {
		t.Error(err)
	}
}
