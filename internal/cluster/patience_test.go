package cluster

import (
	"bytes"
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// script is a server without a network: it has one object of each kind that has
// rows, answers as its kind does, and counts.
type script struct {
	mu    sync.Mutex
	kind  string
	asked int
	turn  chan struct{}            // closed when the kind changes, which ends watches
	anew  map[string]metav1.Object // read in place of those scripted
}

// scripted are the objects of a script, by plural.
var scripted = map[string]metav1.Object{"services": service("web"), "endpointslices": slice("web", "10.1.0.1"), "ingresses": ingress("web", "web"), "gateways": gateway("web"), definitionsPlural: definition("v1.7.0")}

// items is what a list of r has, as JSON.
func (s *script) items(r *http.Request) string {
	s.mu.Lock()
	o := s.anew[path.Base(r.URL.Path)]
	s.mu.Unlock()
	if o == nil {
		o = scripted[path.Base(r.URL.Path)]
	}
	if o == nil {
		return ""
	}
	o.SetResourceVersion("7")
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,%s`, strings.TrimSuffix(listKind(r), "List"), version(r), data[1:])
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
			map[int]string{403: "Forbidden", 404: "NotFound", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 401: "Unauthorized"}[code], code))
	}
	var code int
	if n, _ := fmt.Sscanf(kind, "answers %d", &code); n == 1 {
		return status(code), nil
	}
	switch {
	case kind == "no gateways" && strings.HasPrefix(r.URL.Path, "/apis/"+model.GatewayGroup+"/"):
		return status(404), nil
	case kind == "refuses definitions" && strings.HasPrefix(r.URL.Path, "/apis/"+definitionsAPI.Group+"/"):
		return status(403), nil
	case kind == "garbage":
		return respond(200, "<html>busy</html>"), nil
	case kind == "empty objects":
		return respond(200, "{}"), nil
	case kind == "status in JSON":
		return respond(200, `{"status":"ok"}`), nil
	case r.URL.Path == "/readyz":
		return respond(200, "ok"), nil
	case strings.HasSuffix(r.URL.Path, "/kube-system"):
		return respond(200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`), nil
	case !watch && kind == "lists fail":
		return status(500), nil
	case !watch:
		return respond(200, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"9"},"items":[%s]}`, listKind(r), version(r), s.items(r))), nil
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
	text := fmt.Sprintf(end, strings.TrimSuffix(listKind(r), "List"), version(r))
	if o := s.items(r); o != "" && r.URL.Query().Get("sendInitialEvents") != "" {
		text = fmt.Sprintf(`{"type":"ADDED","object":%s}`, o) + text
	}
	resp := respond(200, "")
	resp.Body = &stream{Reader: strings.NewReader(text), ctx: r.Context(), turn: turn}
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
	definitionsPlural: "PartialObjectMetadataList",
	"services":        "ServiceList", "endpointslices": "EndpointSliceList", "ingresses": "IngressList", "ingressclasses": "IngressClassList",
	"gatewayclassconfigs": "GatewayClassConfigList", "edges": "EdgeList", "dnszones": "DNSZoneList", "placements": "PlacementList", "globalingresses": "GlobalIngressList", "memberclusters": "MemberClusterList", "secrets": "SecretList",
	"gatewayclasses": "GatewayClassList", "gateways": "GatewayList", "httproutes": "HTTPRouteList", "grpcroutes": "GRPCRouteList", "tlsroutes": "TLSRouteList", "tcproutes": "TCPRouteList", "udproutes": "UDPRouteList", "referencegrants": "ReferenceGrantList", "listenersets": "ListenerSetList", "namespaces": "NamespaceList", "configmaps": "ConfigMapList", "clustertrustbundles": "ClusterTrustBundleList", "backendtlspolicies": "BackendTLSPolicyList", "routes": "RouteList", "serviceimports": "ServiceImportList", "serviceexports": "ServiceExportList",
}

func listKind(r *http.Request) string {
	return listKinds[path.Base(r.URL.Path)]
}

func version(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api":
		return "v1"
	case parts[1] == definitionsAPI.Group: // metadata is asked for
		return metav1.SchemeGroupVersion.String()
	}
	return parts[1] + "/" + parts[2]
}

// A server that only fails may get so many requests in a minute. The hub, of
// which more is watched, gets in the first one beside them what each watch asks
// before it is known to fail.
const (
	mostAsked = 120
	atFirst   = 5 // of each watch: what has a definition is listed, too
)

// followed is how long after a failure of the hub all of its kinds are watched at most,
// however many these are: until one has a turn and its watch held, and, where watches
// failed that had opened, until those of the others held.
const followed = 15 * time.Second

// kept are rows that a failure must not touch: what came is committed every
// second, and every change of a row is counted.
type kept struct {
	g       *inc.Graph
	in      *fleet.Inputs
	mail    *Mailbox
	changes int
}

func keep(g *inc.Graph) *kept {
	k := &kept{g: g, in: inputs(g), mail: NewMailbox()}
	count(k, k.in.Services)
	count(k, k.in.Slices)
	count(k, k.in.Roots)
	count(k, k.in.Problems)
	return k
}

func count[K inc.Key[K], V inc.Value[V]](k *kept, t *inc.Table[K, V]) {
	t.Watch(func(changes []inc.Change[K, V]) { k.changes += len(changes) })
}

func (k *kept) take() {
	k.g.Commit(func(tx *inc.Tx) {
		for k.mail.Len() > 0 {
			for _, w := range k.mail.Take() {
				w(tx)
			}
		}
	})
}

// listed fails unless the objects of the script are rows, services, slices and roots.
func (k *kept) listed(t *testing.T, services, slices, roots int) {
	t.Helper()
	k.take()
	if a, b, c := k.in.Services.Len(), k.in.Slices.Len(), k.in.Roots.Len(); a != services || b != slices || c != roots {
		t.Fatalf("%d Services, %d slices, %d roots, want %d, %d, %d", a, b, c, services, slices, roots)
	}
	k.changes = 0
}

// minute is one in which no row may change.
func (k *kept) minute(t *testing.T, kind string) {
	t.Helper()
	for range 60 {
		time.Sleep(time.Second)
		k.take()
	}
	if k.changes > 0 {
		t.Errorf("%s: %d changes of rows, of which %d Services, %d slices and %d roots are left", kind, k.changes, k.in.Services.Len(), k.in.Slices.Len(), k.in.Roots.Len())
	}
}

// TestPatience: however a server fails, it is asked at most twice a second, the
// failure is told with a reason, the end of it is found without a hand, and no
// row goes.
func TestPatience(t *testing.T) {
	for _, c := range []struct{ kind, reason, says string }{
		{"watches say 410", v1alpha1.ReasonFailing, "its watches end at once"},
		{"watches are answered 410", v1alpha1.ReasonFailing, "it answers 410"},
		{"watches end", v1alpha1.ReasonFailing, "its watches end at once"},
		{"watches are garbage", v1alpha1.ReasonFailing, "its watches end at once"},
		{"lists fail", v1alpha1.ReasonFailing, "it answers 500"},
		{"garbage", v1alpha1.ReasonFailing, "its "}, // of watches and of lists, in turn
		{"empty objects", v1alpha1.ReasonFailing, "its "},
		{"status in JSON", v1alpha1.ReasonFailing, "its "},
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
	rows := keep(inc.New())
	m := newMember("eu-1", rows.in, rows.mail, slog.New(slog.DiscardHandler), usual)
	l, err := linkOf(m)
	if err != nil {
		t.Fatal(err)
	}
	server := newScript()
	l.api.client.Transport = bounded{next: server}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { l.run(ctx) })
	await(t, m, v1alpha1.ReasonConnected, 10*time.Second)
	rows.listed(t, 1, 1, 0)

	server.set(kind)
	rows.minute(t, kind)
	asked(t, server, kind, mostAsked)
	contact, source := m.state()
	if contact.Reason != reason || !strings.Contains(contact.Message, says) || source.Connected || source.StaleSince == 0 {
		t.Errorf("%s: %+v, %+v", kind, contact, source)
	}
	server.set(kind)
	rows.minute(t, kind)
	asked(t, server, kind, mostAsked)

	server.set("well")
	await(t, m, v1alpha1.ReasonConnected, time.Minute)
	rows.minute(t, "it is over: "+kind)
	if _, source := m.state(); source != (model.Source{Connected: true}) {
		t.Errorf("%s: it is over: %+v", kind, source)
	}
	end()
	all.Wait()
}

func asked(t *testing.T, s *script, kind string, most int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%s: %d requests in a minute", kind, s.asked)
	if s.asked > most {
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
		{"watches are garbage", "its watches end at once"},
		{"lists fail", "it answers 500"},
		{"answers 410", "it answers 410"},
		{"answers 429", "it answers 429"},
		{"answers 500", "it answers 500"},
		{"answers 400", "it answers 400"},
		{"answers 401", "refuses our credentials"},
		{"garbage", "its "},
		{"empty objects", "its "},
		{"status in JSON", "its "},
	} {
		t.Run(c.kind, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testHubPatience(t, c.kind, c.says) }) })
	}
}

// hubOver is a hub that runs over a script, and its rows.
type hubOver struct {
	*Hub
	rows   *kept
	server *script
	stop   func()
}

func overScript(t *testing.T, kind string, log *slog.Logger) hubOver {
	t.Helper()
	g := inc.New()
	rows, tables, server := keep(g), Declare(g), newScript()
	ctx, end := context.WithCancel(t.Context())
	h, err := NewHub(HubOptions{
		Config: &rest.Config{Host: "https://hub.example:6443"}, Namespace: "spillway-system", Inputs: rows.in, Tables: tables, Mailbox: rows.mail,
		Members: NewMembers(ctx, rows.in, tables, rows.mail, slog.New(slog.DiscardHandler)), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	server.set(kind)
	h.api.client.Transport = bounded{next: server}
	var all sync.WaitGroup
	all.Go(func() { h.Run(ctx) })
	return hubOver{h, rows, server, func() { end(); all.Wait() }}
}

func testHubPatience(t *testing.T, kind, says string) {
	h := overScript(t, "well", slog.New(slog.DiscardHandler))
	rows, server := h.rows, h.server
	time.Sleep(10 * time.Second)
	if s := h.State(); !s.Connected || !s.Known {
		t.Fatalf("%+v", s)
	}
	rows.listed(t, 0, 0, 1)
	server.set(kind)
	rows.minute(t, kind)
	asked(t, server, kind, mostAsked+atFirst*len(h.sources))
	server.set(kind)
	rows.minute(t, kind)
	asked(t, server, kind, mostAsked)
	// Three failures of a watch are no news, and all watches share what may be asked.
	if s := h.State(); s.Connected || !strings.Contains(s.Problem, says) {
		t.Errorf("%s: %+v", kind, s)
	}
	server.set("well")
	begin := time.Now()
	for !h.State().Connected && time.Since(begin) < followed {
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%s: all kinds were watched %v after it was over", kind, time.Since(begin))
	if s := h.State(); !s.Connected {
		t.Errorf("%s: not followed after %v: %+v", kind, followed, s)
	}
	rows.minute(t, "it is over: "+kind)
	if s := h.State(); !s.Connected || s.Frozen != "" {
		t.Errorf("%s: it is over: %+v", kind, s)
	}
	h.stop()
}
