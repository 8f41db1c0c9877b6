package envoy

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/bootstrap"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// rig is a world with a real Envoy that follows it.
type rig struct {
	*feed
	stop        func() // ends the control plane
	proc        *envoytest.Process
	http, https int
	connections uint32            // that the proxy takes; 0: as many as usual
	args        []string          // of the proxy, beside the usual
	counting    bool              // the proxy has all of Envoy's statistics
	listening   map[string]string // listener to the version that Envoy acknowledged
}

// newRig starts an Envoy of edge fra over the real control-plane stream. The
// class has ports of its own.
func newRig(t testing.TB, timing model.Timing) *rig { return newRigOf(t, timing, usual) }

// newRigOf is a rig of a world of other sizes.
func newRigOf(t testing.TB, timing model.Timing, s sizes) *rig {
	t.Helper()
	return newRigWith(t, timing, static, s)
}

// delivery says how a rig's proxy comes by certificates.
type delivery bool

const (
	static   delivery = false
	onDemand delivery = true
)

func (d delivery) String() string {
	if d == onDemand {
		return "certificates on demand"
	}
	return "static certificates"
}

// aliasLimit is how many names under wildcards a proxy of a rig has certificates for.
const aliasLimit = 64

func newRigWith(t testing.TB, timing model.Timing, certificates delivery, s sizes) *rig {
	t.Helper()
	return newRigLimited(t, timing, certificates, s, 0)
}

// newRigLimited is a rig whose proxy takes as many connections.
func newRigLimited(t testing.TB, timing model.Timing, certificates delivery, s sizes, connections uint32) *rig {
	t.Helper()
	return newRigArgs(t, timing, certificates, s, connections)
}

// newRigCounting is a rig whose proxy has all of Envoy's statistics.
func newRigCounting(t testing.TB) *rig {
	t.Helper()
	r := unstarted(t, timingForTests, static, usual)
	r.counting = true
	r.start(t)
	return r
}

// newRigArgs is a rig whose proxy has arguments of its own.
func newRigArgs(t testing.TB, timing model.Timing, certificates delivery, s sizes, connections uint32, args ...string) *rig {
	t.Helper()
	r := unstarted(t, timing, certificates, s)
	r.connections, r.args = connections, args
	r.start(t)
	return r
}

func unstarted(t testing.TB, timing model.Timing, certificates delivery, s sizes) *rig {
	t.Helper()
	r := &rig{feed: newFeed(s, (*Tables).Types), listening: map[string]string{}, http: envoytest.FreePort(t), https: envoytest.FreePort(t)}
	r.store.Alias(xds.Aliases{Type: xds.Secret, Limit: aliasLimit, For: CertificateNames, Covers: CertificateCovers, Body: RenameSecret})
	r.commit(func(tx *inc.Tx) {
		r.class(tx, testClass, 1, uint16(r.http), uint16(r.https))
		r.edge(tx, "fra", testView)
	})
	r.commit(func(tx *inc.Tx) {
		row, _ := r.p.ClassInfo.Get(nil, testClass)
		row.Config.Timing, row.Config.OnDemand = timing, bool(certificates)
		r.specs.Set(tx, testClass, row)
	})
	return r
}

// deliver changes how the class's certificates come to proxies.
func (w *world) deliver(tx *inc.Tx, certificates delivery) {
	row, _ := w.p.ClassInfo.Get(nil, testClass)
	row.Config.OnDemand = bool(certificates)
	w.specs.Set(tx, testClass, row)
}

func (r *rig) start(t testing.TB) {
	t.Helper()
	l, err := xds.ListenPlaintext("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.stop = r.serve(t, l, xds.Config{Limits: xds.Limits{Drain: 5 * time.Second}, ReportTypes: []xds.TypeURL{xds.Listener, xds.TypeURL(RouteType), xds.TypeURL(AssignmentType)}})
	t.Cleanup(r.stop)
	admin := envoytest.Loopback(t)
	boot, err := bootstrap.Render(bootstrap.Options{Edge: "fra", NodeID: "test", XDSAddress: l.Addr().String(), AdminAddress: admin, MaxConnections: r.connections})
	if err != nil {
		t.Fatal(err)
	}
	if r.counting {
		var all map[string]any
		if err := json.Unmarshal(boot, &all); err != nil {
			t.Fatal(err)
		}
		delete(all, "stats_config")
		if boot, err = json.Marshal(all); err != nil {
			t.Fatal(err)
		}
	}
	r.proc = envoytest.Start(t, boot, admin, append([]string{"--drain-time-s", "4"}, r.args...)...)
	envoytest.Until(t, "Envoy to listen", func() bool { return r.listens(r.http) })
}

func (r *rig) listens(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// settled waits until Envoy holds what the world holds: every resource
// acknowledged, and no route to a cluster that warms.
func (r *rig) settled(t testing.TB) {
	t.Helper()
	envoytest.Until(t, "Envoy to hold the view", func() bool {
		_, verdicts := r.reports.Take()
		for _, v := range verdicts {
			if v.Error != "" {
				t.Errorf("Envoy refuses %s %s: %s", v.Type, v.Name, v.Error)
			}
			if v.Type == xds.Listener {
				r.listening[v.Name] = v.Version
			}
		}
		for _, key := range r.t.Listeners.Keys() {
			if res, _ := r.t.Listeners.Get(nil, key); r.listening[res.Name] != res.Version {
				return false
			}
		}
		dump := r.proc.Get(t, "/config_dump?include_eds")
		if strings.Contains(dump, `"dynamic_warming_clusters"`) || strings.Contains(dump, `"warming_state"`) || strings.Contains(dump, `"dynamic_warming_secrets"`) {
			return false
		}
		for _, typ := range r.t.Types() {
			if typ.URL == AssignmentType || typ.URL == ListenerType {
				continue // the dump has no versions of them, or that before an update in place
			}
			for _, key := range typ.Table.Keys() {
				res, _ := typ.Table.Get(nil, key)
				sign := `"version_info": "` + res.Version + `"`
				if typ.URL == ListenerType {
					if !r.hasChains(t, decode(t, res).(*listenerv3.Listener)) {
						return false
					}
					continue
				}
				if typ.URL == SecretType && isDemanded(key.Name) {
					continue // nobody may have asked for it
				}
				if typ.URL == ScopeType { // the dump has one version for all of them
					sign = `"route_configuration_name": "` + res.Name + `"`
				}
				if !strings.Contains(dump, sign) {
					return false
				}
			}
		}
		return true
	})
}

// hasChains tells whether Envoy's active listener has these chains. (Where only
// chains change, its dump keeps the version that the listener had before.)
func (r *rig) hasChains(t testing.TB, want *listenerv3.Listener) bool {
	t.Helper()
	type state struct {
		Listener struct {
			FilterChains []struct{ Name string } `json:"filter_chains"`
		}
	}
	var dump struct {
		Configs []struct {
			Name   string
			Active state  `json:"active_state"`
			Next   *state `json:"warming_state"`
		}
	}
	if err := json.Unmarshal([]byte(r.proc.Get(t, "/config_dump?resource=dynamic_listeners")), &dump); err != nil {
		t.Fatal(err)
	}
	for _, l := range dump.Configs {
		if l.Name == want.Name && l.Next == nil {
			return slices.EqualFunc(l.Active.Listener.FilterChains, want.FilterChains, func(a struct{ Name string }, b *listenerv3.FilterChain) bool {
				return a.Name == b.Name
			})
		}
	}
	return false
}

// reply is what a client saw.
type reply struct {
	status int
	by     string // the backend that answered, as "service@member/number"
	body   string
	header http.Header
	took   time.Duration
	err    error
}

// request is one request of a client.
type request struct {
	at                 string // an address of the loopback; empty: 127.0.0.1
	method, host, path string
	tls                bool
	sni                string
	body               io.Reader
	header             http.Header
	timeout            time.Duration
	client             *http.Client // nil: a connection of its own
}

// overHTTP2 is the request in HTTP/2, by prior knowledge where there is no TLS.
func (q request) overHTTP2(t testing.TB) request {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{ServerName: q.sni, InsecureSkipVerify: true}, Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP2(q.tls)
	transport.Protocols.SetUnencryptedHTTP2(!q.tls)
	t.Cleanup(transport.CloseIdleConnections)
	q.client = &http.Client{Transport: transport, CheckRedirect: stay}
	return q
}

// stay takes a redirect for the answer that it is.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ask sends one request through Envoy.
func (r *rig) ask(t testing.TB, q request) reply {
	t.Helper()
	if q.method == "" {
		q.method = http.MethodGet
	}
	if q.timeout == 0 {
		q.timeout = 30 * time.Second
	}
	url, port := "http", r.http
	if q.tls {
		url, port = "https", r.https
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.timeout)
	defer cancel()
	path := "/"
	if strings.HasPrefix(q.path, "//") { // else it is sent as it is, below
		path = q.path
	}
	req, err := http.NewRequestWithContext(ctx, q.method, fmt.Sprintf("%s://%s:%d%s", url, cmp.Or(q.at, "127.0.0.1"), port, path), q.body)
	if err != nil {
		t.Fatal(err)
	}
	if path != q.path {
		req.URL.Opaque = q.path
	}
	req.Host = q.host
	for k, v := range q.header {
		req.Header[k] = v
	}
	client := q.client
	if client == nil {
		client = &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{ServerName: q.sni, InsecureSkipVerify: true},
		}, CheckRedirect: stay}
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err, took: time.Since(began)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header.Get("X-Answered-By"), string(body), resp.Header, time.Since(began), err}
}
