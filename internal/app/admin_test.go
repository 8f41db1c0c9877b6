package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/ui"
)

// looked is a server with n hosts, whose loop runs, and what looks at its tables
// touched.
type looked struct {
	*big
	admin http.Handler
	looks []int // rows touched in each
}

func look(t *testing.T, n int) *looked {
	l := &looked{big: newBig(n)}
	l.metrics, l.cfg = prometheus.NewRegistry(), Config{}
	l.loop = newLoop(l.graph, l.mail, slog.New(slog.DiscardHandler))
	l.loop.due = l.turns(func(inc.Stats) {}).due
	l.loop.publish = func(inc.Stats) {}
	l.settle(l.turns(func(inc.Stats) {}))
	l.loop.touched = func(rows int) { l.looks = append(l.looks, rows) }
	ctx, cancel := context.WithCancel(t.Context())
	go l.loop.run(ctx)
	t.Cleanup(func() { cancel(); <-l.loop.done })
	l.admin = ui.Handler(l.server.shown())
	return l
}

// change commits where the loop runs.
func (l *looked) change(t *testing.T, write func(*inc.Tx)) {
	t.Helper()
	if err := l.loop.look(t.Context(), func() { l.commit(write) }); err != nil {
		t.Fatal(err)
	}
}

// get answers a request; into may be nil.
func (l *looked) get(t *testing.T, path string, into any) *httptest.ResponseRecorder {
	t.Helper()
	l.looks = nil
	w := httptest.NewRecorder()
	l.admin.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %v %.300s", path, w.Code, err, w.Body)
		}
	}
	return w
}

// TestLooksTouchFewRows: however large tables are, a look touches few rows of
// them, and between two looks the loop does what it has to.
func TestLooksTouchFewRows(t *testing.T) {
	const n = 3000
	l := look(t, n)
	for _, path := range []string{
		"/v1/members", "/v1/edges", "/v1/fronts", "/v1/hosts", "/v1/plans", "/v1/findings", "/v1/tables",
		"/v1/tables/slices", "/v1/tables/hosts?match=h00007&limit=1", "/v1/tables/slices%20by%20model.MemberService",
		"/v1/why/hosts?key=" + url.QueryEscape("spillway h02999.apps.example"),
	} {
		if w := l.get(t, path, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		for _, rows := range l.looks {
			if rows > turnRows {
				t.Errorf("%s touched %d rows in a turn", path, rows)
			}
		}
	}
	l.get(t, "/v1/hosts", nil)
	if got := len(l.looks); got < 2*n/turnRows {
		t.Errorf("%d hosts and their edges in %d looks", n, got)
	}
}

// TestAnEndpointChangeBetweenLooks: what comes in while somebody reads a large
// table is committed before the reading is done.
func TestAnEndpointChangeBetweenLooks(t *testing.T) {
	l := look(t, 3000)
	committed := make(chan struct{})
	l.loop.publish = func(inc.Stats) { close(committed) }
	err := walk(t.Context(), l.loop, l.prog.In.Slices, func(id model.SliceID, _ model.Slice) {
		if id.Service == serviceOf(0) && id.Member == memberNames[0] {
			l.mail.Put(urgent, id, func(tx *inc.Tx) { l.slice(tx, 0, 0, 1) })
			<-committed
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPages(t *testing.T) {
	l := look(t, 50)
	var all []ui.Host
	pages := 0
	for path := "/v1/hosts?match=h000&limit=7"; path != ""; pages++ {
		var part []ui.Host
		w := l.get(t, path, &part)
		all = append(all, part...)
		path = ""
		if link, ok := strings.CutSuffix(w.Header().Get("Link"), `>; rel="next"`); ok {
			path = strings.TrimPrefix(link, "<")
		}
	}
	for i, h := range all {
		if want := fmt.Sprintf("h%05d.apps.example", i); h.Host != want {
			t.Errorf("%d is %s, want %s", i, h.Host, want)
		}
	}
	if len(all) != 50 || pages != 8 {
		t.Errorf("%d hosts on %d pages", len(all), pages)
	}
	for path, code := range map[string]int{"/v1/hosts?limit=0": 400, "/v1/hosts?limit=many": 400, "/v1/hosts?limit=10001": 400, "/v1/tables/none": 404, "/v1/why/none?key=a": 404} {
		if w := l.get(t, path, nil); w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestObjects(t *testing.T) {
	l := look(t, 2)
	l.change(t, func(tx *inc.Tx) {
		in := &l.prog.In
		in.Acks.Set(tx, model.HostKey{Class: "spillway", Host: "h00000.apps.example"}, model.EdgesOf("fra"))
		in.Streams.Set(tx, "fra", model.Streams{Connected: 2, Synced: 1})
		in.Reports.Set(tx, model.ReportID{Edge: "fra", Proxy: "p", Member: "eu-1"}, model.Report{Canaries: 3})
		in.Sources.Set(tx, "us-1", model.Source{StaleSince: 100})
		in.Rules.Set(tx, model.RulesID{Root: model.Object{Kind: "Ingress", Namespace: "shop", Name: "svc-00000"}, Host: "h00000.apps.example"}, model.Rules{
			{Matches: []model.Match{{Kind: model.PathExact, Path: "/old"}}, Action: model.Action{Reply: &model.Reply{Status: 404}}},
			{Matches: []model.Match{model.Everything}, Action: model.Action{Backends: []model.WeightedBackend{{Backend: backendOf(0), Weight: 1}}}},
		})
	})
	var members []ui.Member
	l.get(t, "/v1/members", &members)
	if m := members[0]; len(members) != 2 || m.Name != "eu-1" || m.Services != 2 || m.Endpoints != 10 || len(m.Paths) != 1 || m.Paths[0].Health != "True" || m.Created.Unix() != 0 {
		t.Errorf("members: %+v", members)
	}
	if m := members[1]; m.StaleSince == nil || m.StaleSince.Unix() != 100 {
		t.Errorf("us-1: %+v", m)
	}
	var edges []ui.Edge
	l.get(t, "/v1/edges?match=fra", &edges)
	if e := edges[0]; len(edges) != 1 || e.Proxies != 2 || e.Synced != 1 || !reflect.DeepEqual(e.Fronts, []string{"spillway"}) || len(e.Ports) != 2 || !e.Ports[1].TLS || len(e.Conditions) == 0 {
		t.Errorf("edges: %+v", edges)
	}
	var fronts []ui.Front
	l.get(t, "/v1/fronts", &fronts)
	if f := fronts[0]; len(fronts) != 1 || f.Object.String() != "IngressClass spillway" || !f.Default || f.Config != "c" || len(f.Edges) != 2 || !f.Edges[0].Served {
		t.Errorf("fronts: %+v", fronts)
	}
	var hosts []ui.Host
	l.get(t, "/v1/hosts", &hosts)
	h := hosts[0]
	if len(hosts) != 2 || h.Objects[0].String() != "Ingress shop/svc-00000" || !reflect.DeepEqual(h.Edges, []string{"fra"}) || len(h.Routes) != 2 {
		t.Fatalf("hosts: %+v", hosts)
	}
	if a, b := h.Routes[0], h.Routes[1]; a.PathType != "Exact" || a.Path != "/old" || a.Answer != "answer 404" || b.Backends[0].Backend != "shop/svc-00000/http" {
		t.Errorf("routes: %+v", h.Routes)
	}
	var plans []ui.Plan
	l.get(t, "/v1/plans?match=svc-00000", &plans)
	if p := plans[0]; len(plans) != 2 || p.From.String() != "eu/eu-a" || p.Room != "best" || len(p.Shares) != 2 || p.Shares[0].Member != "eu-1" || p.Shares[0].Weight != 5 || p.Shares[1].Tier != 1 {
		t.Errorf("plans: %+v", plans)
	}
}

// TestFindingsOfAnObjectStayTogether: a page ends between two objects.
func TestFindingsOfAnObjectStayTogether(t *testing.T) {
	l := look(t, 0)
	l.change(t, func(tx *inc.Tx) {
		for i := range 3 {
			o := model.Object{Kind: "Ingress", Namespace: "shop", Name: fmt.Sprint(i)}
			var list model.Findings
			for j := range 3 {
				list = append(list, model.ErrorOf(o, "", model.ReasonInvalid, "number %d", j))
			}
			l.prog.In.Problems.Set(tx, o, list)
		}
	})
	var found []ui.Finding
	w := l.get(t, "/v1/findings?limit=4", &found)
	if len(found) != 3 || found[0].Ref != (ui.Object{Kind: "Ingress", Namespace: "shop", Name: "0"}) || w.Header().Get("Link") == "" {
		t.Errorf("%+v %v", found, w.Header())
	}
	l.get(t, "/v1/findings?match=shop/2", &found)
	if len(found) != 3 || found[2].Object != "Ingress shop/2" || found[2].Message != "number 2" || found[2].Severity != "Error" {
		t.Errorf("%+v", found)
	}
}

// TestEmptyListsAreLists: for programs, nothing is [] and never null.
func TestEmptyListsAreLists(t *testing.T) {
	l := look(t, 0)
	for _, kind := range []string{"members", "edges", "fronts", "hosts", "plans", "keys", "findings", "tables/hosts", "why/hosts"} {
		if w := l.get(t, "/v1/"+kind+"?match=nothing-has-this-name", nil); strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
	for kind := range l.objects() {
		if kind == "streams" {
			continue
		}
		if body := l.get(t, "/v1/"+kind, nil).Body.String(); strings.Contains(body, "null") {
			t.Errorf("%s: %s", kind, body)
		}
	}
}

// TestLookEndsWithItsRequest: nobody waits for a reader that has left.
func TestLookEndsWithItsRequest(t *testing.T) {
	l := look(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.hostsShown(ctx, ui.Query{Limit: 1})
	for err == nil { // the loop was faster
		_, err = l.hostsShown(ctx, ui.Query{Limit: 1})
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// BenchmarkLook is how long the loop stands still for a look at a large table.
func BenchmarkLook(b *testing.B) {
	big := newBig(1000)
	at := uint32(0)
	for b.Loop() {
		rows := make([]picked[model.SliceID, model.Slice], 0, turnRows)
		at = big.prog.In.Slices.Scan(at, turnRows, func(k model.SliceID, v model.Slice) {
			rows = append(rows, picked[model.SliceID, model.Slice]{key: k, val: v})
		})
	}
}
