package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/model"
)

// frail is a hub without a network, which has no objects but those that are
// written, and fails as it is told.
type frail struct {
	mu      sync.Mutex
	fails   func() (*http.Response, error) // nil: it works
	asked   int
	written map[string]bool // names
	turn    chan struct{}   // closed when it fails or works again, which ends watches
}

func (f *frail) set(fails func() (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = fails
	close(f.turn)
	f.turn = make(chan struct{})
}

// count tells how often it was asked since it was last counted.
func (f *frail) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.asked
	f.asked = 0
	return n
}

func (f *frail) wrote(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written[name]
}

func (f *frail) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.fails != nil {
		return f.fails()
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	version := parts[1]
	if parts[0] == "apis" {
		version = parts[1] + "/" + parts[2]
	}
	plural := path.Base(r.URL.Path)
	if plural == "customresourcedefinitions" {
		version = metav1.SchemeGroupVersion.String() // metadata is asked for
	}
	kind := map[string]string{
		"secrets": "Secret", "customresourcedefinitions": "PartialObjectMetadata", "ingresses": "Ingress", "ingressclasses": "IngressClass", "gatewayclassconfigs": "GatewayClassConfig",
		"edges": "Edge", "dnszones": "DNSZone", "placements": "Placement", "globalingresses": "GlobalIngress", "routes": "Route", "memberclusters": "MemberCluster", "namespaces": "Namespace", "configmaps": "ConfigMap",
		"gatewayclasses": "GatewayClass", "gateways": "Gateway", "httproutes": "HTTPRoute", "grpcroutes": "GRPCRoute", "tlsroutes": "TLSRoute", "tcproutes": "TCPRoute", "udproutes": "UDPRoute", "referencegrants": "ReferenceGrant",
		"backendtlspolicies": "BackendTLSPolicy", "listenersets": "ListenerSet", "clustertrustbundles": "ClusterTrustBundle", "serviceimports": "ServiceImport",
	}[plural]
	switch {
	case r.Method == http.MethodPost:
		var o struct{ Regarding struct{ Name string } }
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			return nil, err
		}
		f.written["event of "+o.Regarding.Name] = true
		return answer(201, `{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{}}`)()
	case r.Method == http.MethodPatch:
		f.written[path.Base(path.Dir(r.URL.Path))] = true
	case r.URL.Query().Get("watch") != "":
		end := fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`, kind, version)
		w, err := answer(200, "")()
		w.Body = &held{Reader: strings.NewReader(end), ctx: r.Context(), turn: f.turn}
		return w, err
	case kind != "":
		return answer(200, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"9"},"items":[]}`, kind+"List", version))()
	case plural == "kube-system":
		return answer(200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`)()
	}
	return answer(200, fmt.Sprintf(`{"kind":"Ingress","apiVersion":"networking.k8s.io/v1","metadata":{"name":%q}}`, plural))()
}

// held is a watch that says something, and then nothing until it is ended.
type held struct {
	io.Reader
	ctx  context.Context
	turn chan struct{}
}

func (h *held) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-h.ctx.Done():
		return 0, h.ctx.Err()
	case <-h.turn:
		return 0, io.EOF
	}
}

func (h *held) Close() error { return nil }

func answer(code int, body string, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		w := &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
		for i := 0; i < len(header); i += 2 {
			w.Header.Set(header[i], header[i+1])
		}
		return w, nil
	}
}

// What a hub that begins to fail is asked beyond two requests a second: each
// watch and what goes before it, what the writer's lines try until they believe
// it, and the burst of the budget.
const firstBurst = 50

// TestFailingHub: what reads the hub and what writes to it ask together twice a
// second at most, however it fails, and both go on soon after it works again.
func TestFailingHub(t *testing.T) {
	defer func(h []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = h }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // one of them measures time across the bubbles of tests
	for how, fails := range map[string]func() (*http.Response, error){
		"500":                  answer(500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`),
		"429 with Retry-After": answer(429, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`, "Retry-After", "1"),
		"410":                  answer(410, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`),
		"garbage":              answer(200, "<html>busy</html>"),
		"cut connections":      func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	} {
		t.Run(how, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testFailingHub(t, fails) }) })
	}
}

func testFailingHub(t *testing.T, fails func() (*http.Response, error)) {
	f := &frail{written: map[string]bool{}, turn: make(chan struct{})}
	s := reaching(t, f)
	s.writer.Open()
	time.Sleep(10 * time.Second)
	if state := s.source.State(); !state.Connected || !state.Known {
		t.Fatalf("%+v", state)
	}

	f.count()
	f.set(fails)
	said := 0
	say := func(n int) {
		for range n {
			said++
			o := model.Object{Kind: "Ingress", Namespace: "noisy", Name: fmt.Sprint("web-", said)}
			s.writer.Addresses(o, []string{"192.0.2.1"})
			s.writer.Findings(o, model.Findings{{Object: o, Reason: "Invalid", Message: "bad"}})
		}
	}
	say(500)
	for minute := range 5 {
		time.Sleep(time.Minute)
		n, most := f.count(), 2*60
		if minute == 0 {
			most += firstBurst
		}
		t.Logf("minute %d: %d requests", minute, n)
		if n > most || n < 60 {
			t.Errorf("minute %d: %d requests, want 60 to %d", minute, n, most)
		}
		say(10)
	}
	if s.source.State().Connected {
		t.Error("it is watched")
	}

	f.set(nil)
	web := model.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}
	s.writer.Addresses(web, []string{"192.0.2.1"})
	s.writer.Findings(web, model.Findings{{Object: web, Reason: "Invalid", Message: "bad"}})
	works := time.Now()
	await := func(what string, most time.Duration, so func() bool) {
		for !so() {
			if time.Since(works) > most {
				t.Fatalf("not %s %v after it works again: %+v", what, most, s.source.State())
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%s after %v", what, time.Since(works))
	}
	await("written", 15*time.Second, func() bool { return f.wrote("shop") })
	await("told", 15*time.Second, func() bool { return f.wrote("event of shop") })
	await("watched", 30*time.Second, func() bool { return s.source.State().Connected })
	await("all written", 2*time.Minute, func() bool { return s.writer.Waiting() == 0 && f.wrote(fmt.Sprint("web-", said)) })
}

// reaching is a server of which the hub's sources and writer run.
func reaching(t *testing.T, f *frail) *server {
	s := &server{cfg: Config{Namespace: "spillway-system"}, log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(), now: time.Now}
	s.mail = cluster.NewMailbox()
	s.declare()
	ctx, end := context.WithCancel(t.Context())
	s.members = cluster.NewMembers(ctx, &s.prog.In, s.caches, s.mail, s.log)
	config := &rest.Config{Host: "https://hub.example:6443"}
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return f })
	if err := s.reach(config); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { s.source.Run(ctx) })
	all.Go(func() { s.writer.Run(ctx) })
	t.Cleanup(func() {
		end()
		s.members.Wait()
		all.Wait()
	})
	return s
}
