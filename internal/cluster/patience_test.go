package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// script is a server without a network: it answers as its kind does, and counts.
type script struct {
	mu    sync.Mutex
	kind  string
	asked int
	turn  chan struct{} // closed when the kind changes, which ends watches
}

func newScript() *script { return &script{kind: "well", turn: make(chan struct{})} }

func (s *script) set(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind, s.asked = kind, 0
	close(s.turn)
	s.turn = make(chan struct{})
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	kind, turn := s.kind, s.turn
	s.asked++
	s.mu.Unlock()
	watch := r.URL.Query().Get("watch") != ""
	status := func(code int) *http.Response {
		return respond(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`,
			map[int]string{410: "Expired", 429: "TooManyRequests", 500: "InternalError", 401: "Unauthorized"}[code], code))
	}
	var code int
	if n, _ := fmt.Sscanf(kind, "answers %d", &code); n == 1 {
		return status(code), nil
	}
	switch {
	case kind == "garbage":
		return respond(200, "<html>busy</html>"), nil
	case r.URL.Path == "/readyz":
		return respond(200, "ok"), nil
	case strings.HasSuffix(r.URL.Path, "/kube-system"):
		return respond(200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`), nil
	case !watch && kind == "lists fail":
		return status(500), nil
	case !watch:
		return respond(200, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"7"},"items":[]}`, listKind(r), version(r))), nil
	case r.URL.Query().Get("sendInitialEvents") != "" && kind != "well": // it can't stream
		return status(400), nil
	case kind == "watches are answered 410":
		return status(410), nil
	case kind == "watches say 410":
		return respond(200, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`), nil
	case kind == "watches end":
		return respond(200, ""), nil
	case kind == "watches are garbage":
		return respond(200, "<html>"), nil
	}
	end := `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	resp := respond(200, "")
	resp.Body = &stream{Reader: strings.NewReader(fmt.Sprintf(end, strings.TrimSuffix(listKind(r), "List"), version(r))), ctx: r.Context(), turn: turn}
	return resp, nil
}

// stream is a watch that says something, and then nothing until it is ended.
type stream struct {
	io.Reader
	ctx  context.Context
	turn chan struct{}
}

func (o *stream) Read(p []byte) (int, error) {
	if n, err := o.Reader.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-o.ctx.Done():
		return 0, o.ctx.Err()
	case <-o.turn:
		return 0, io.EOF
	}
}

func (o *stream) Close() error { return nil }

func respond(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(bytes.NewReader([]byte(body)))}
}

var listKinds = map[string]string{
	"services": "ServiceList", "endpointslices": "EndpointSliceList", "ingresses": "IngressList", "ingressclasses": "IngressClassList",
	"gatewayclassconfigs": "GatewayClassConfigList", "edges": "EdgeList", "dnszones": "DNSZoneList", "memberclusters": "MemberClusterList", "secrets": "SecretList",
}

func listKind(r *http.Request) string {
	return listKinds[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
}

func version(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		return "v1"
	}
	return parts[1] + "/" + parts[2]
}

// mostAsked is how many requests a server may get in a minute that only fails.
const mostAsked = 120

// TestPatience: however a server fails, it is asked at most twice a second, the
// failure is told with a reason, and the end of it is found without a hand.
func TestPatience(t *testing.T) {
	for _, c := range []struct{ kind, reason, says string }{
		{"watches say 410", v1alpha1.ReasonFailing, "its watches end at once"},
		{"watches are answered 410", v1alpha1.ReasonFailing, "it answers 410"},
		{"watches end", v1alpha1.ReasonFailing, "its watches end at once"},
		{"watches are garbage", v1alpha1.ReasonFailing, "its watches end at once"},
		{"lists fail", v1alpha1.ReasonFailing, "it answers 500"},
		{"garbage", v1alpha1.ReasonFailing, "its "}, // of watches and of lists, in turn
		{"answers 410", v1alpha1.ReasonFailing, "it answers 410"},
		{"answers 429", v1alpha1.ReasonFailing, "it answers 429"},
		{"answers 500", v1alpha1.ReasonFailing, "it answers 500"},
		{"answers 400", v1alpha1.ReasonFailing, "it answers 400"},
		{"answers 401", v1alpha1.ReasonUnauthorized, "refuses the credentials"},
	} {
		t.Run(c.kind, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testPatience(t, c.kind, c.reason, c.says) }) })
	}
}

func testPatience(t *testing.T, kind, reason, says string) {
	m := newMember("eu-1", inputs(inc.New()), NewMailbox(), slog.New(slog.DiscardHandler), usual)
	l, err := m.link(&rest.Config{Host: "https://eu-1.example:6443"})
	if err != nil {
		t.Fatal(err)
	}
	server := newScript()
	l.api.client.Transport = bounded{next: server}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { l.run(ctx) })
	await(t, m, v1alpha1.ReasonConnected, 10*time.Second)

	server.set(kind)
	time.Sleep(time.Minute)
	asked(t, server, kind)
	contact, source := m.state()
	if contact.Reason != reason || !strings.Contains(contact.Message, says) || source.Connected || source.StaleSince == 0 {
		t.Errorf("%s: %+v, %+v", kind, contact, source)
	}
	server.set(kind)
	time.Sleep(time.Minute)
	asked(t, server, kind)

	server.set("well")
	await(t, m, v1alpha1.ReasonConnected, time.Minute)
	if _, source := m.state(); source != (model.Source{Connected: true}) {
		t.Errorf("%s: it is over: %+v", kind, source)
	}
	end()
	all.Wait()
}

func asked(t *testing.T, s *script, kind string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%s: %d requests in a minute", kind, s.asked)
	if s.asked > mostAsked {
		t.Errorf("%s: %d requests in a minute", kind, s.asked)
	}
}

// await waits for a reason, in the bubble's time.
func await(t *testing.T, m *member, reason string, most time.Duration) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		contact, _ := m.state()
		switch {
		case contact.Reason == reason:
			return
		case time.Since(begin) > most:
			t.Fatalf("%+v after %v, want %s", contact, most, reason)
		}
	}
}

// TestHubPatience: so it is with the hub.
func TestHubPatience(t *testing.T) {
	for _, c := range []struct{ kind, says string }{
		{"watches say 410", "its watches end at once"},
		{"watches end", "its watches end at once"},
		{"answers 410", "it answers 410"},
		{"answers 500", "it answers 500"},
		{"garbage", "its "},
	} {
		t.Run(c.kind, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testHubPatience(t, c.kind, c.says) }) })
	}
}

func testHubPatience(t *testing.T, kind, says string) {
	g := inc.New()
	in, mail, log := inputs(g), NewMailbox(), slog.New(slog.DiscardHandler)
	ctx, end := context.WithCancel(t.Context())
	tables := Declare(g)
	h, err := NewHub(HubOptions{
		Config: &rest.Config{Host: "https://hub.example:6443"}, Namespace: "spillway-system", Inputs: in, Tables: tables, Mailbox: mail,
		Members: NewMembers(ctx, in, tables, mail, log), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := newScript()
	h.api.client.Transport = bounded{next: server}
	var all sync.WaitGroup
	all.Go(func() { h.Run(ctx) })
	time.Sleep(10 * time.Second)
	if s := h.State(); !s.Connected || !s.Known {
		t.Fatalf("%+v", s)
	}
	server.set(kind)
	time.Sleep(time.Minute)
	asked(t, server, kind)
	if s := h.State(); s.Connected || !strings.Contains(s.Problem, says) {
		t.Errorf("%s: %+v", kind, s)
	}
	server.set(kind)
	time.Sleep(time.Minute)
	asked(t, server, kind)
	server.set("well")
	time.Sleep(time.Minute)
	if s := h.State(); !s.Connected {
		t.Errorf("%s: it is over: %+v", kind, s)
	}
	end()
	all.Wait()
}
