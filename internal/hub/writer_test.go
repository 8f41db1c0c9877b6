package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	webPath   = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web"
	euPath    = "/apis/spillway.dev/v1alpha1/memberclusters/eu-1"
	eventsDir = "/apis/events.k8s.io/v1/namespaces/shop/events/"
)

var (
	web = model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}
	eu  = model.Object{Kind: "MemberCluster", Name: "eu-1"}
)

func object(apiVersion, kind string) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind}
}

// run starts a writer that tries again at once.
func run(t *testing.T, f *fakeHub) *Writer {
	t.Helper()
	w, err := NewWriter(f.config(), "test", budget(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*line{w.state, w.talk} {
		l.queue.ShutDown()
		l.queue = newQueue(time.Millisecond, time.Second)
	}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		end()
		all.Wait()
	})
	return w
}

func at(o map[string]any, path ...string) any {
	var v any = o
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// TestAddresses: sorted, IPs and names apart, written once, nothing before Open.
func TestAddresses(t *testing.T) {
	f := newFakeHub()
	f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
	w := run(t, f)
	w.Addresses(web, []string{"lb.example", "192.0.2.2", "192.0.2.1"})
	if f.patches != nil {
		t.Fatal("written before Open")
	}
	w.Open()
	eventually.True(t, "addresses", func() bool {
		return fmt.Sprint(at(f.get(webPath), "status", "loadBalancer", "ingress")) == "[map[ip:192.0.2.1] map[ip:192.0.2.2] map[hostname:lb.example]]"
	})
	w.Addresses(web, []string{"192.0.2.1", "192.0.2.2", "lb.example"}) // the same
	w.Addresses(web, nil)
	eventually.True(t, "none", func() bool { return fmt.Sprint(at(f.get(webPath), "status", "loadBalancer", "ingress")) == "[]" })
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.patches); n > 2 {
		t.Errorf("%d patches: %v", n, f.patches)
	}
}

// TestRetries: failures, conflicts and objects that are gone.
func TestRetries(t *testing.T) {
	f := newFakeHub()
	f.add(euPath, object("spillway.dev/v1alpha1", "MemberCluster"))
	f.fail = []int{500, 503, 409, 500}
	w := run(t, f)
	w.Open()
	gone := model.Object{Kind: "Ingress", Namespace: "shop", Name: "gone"}
	w.Addresses(gone, []string{"192.0.2.1"})
	w.Addresses(model.Object{Member: "eu-1", Kind: "Service", Namespace: "a", Name: "b"}, nil)
	w.Status(eu, Status{Generation: 3, Conditions: map[string]Condition{"Connected": {"Connected", "True", "Connected", ""}}})
	eventually.True(t, "written in the end", func() bool { return at(f.get(euPath), "status", "observedGeneration") != nil })
}

// TestStatus: times change with the status only, other conditions stay, an
// edit in between is not overwritten.
func TestStatus(t *testing.T) {
	f := newFakeHub()
	o := object("spillway.dev/v1alpha1", "MemberCluster")
	const old = "2020-01-01T00:00:00Z"
	o["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Other", "status": "True", "reason": "X", "message": "", "lastTransitionTime": old},
		map[string]any{"type": "Healthy", "status": "True", "reason": "Healthy", "message": "", "lastTransitionTime": old},
		map[string]any{"type": "Connected", "status": "True", "reason": "Connected", "message": "", "lastTransitionTime": old},
	}, "staleSince": old}
	f.add(euPath, o)
	meddled := false
	f.meddle = func(path string) {
		if !meddled {
			meddled = true
			edited := merge(f.objects[path], map[string]any{"spec": map[string]any{"drain": true}}).(map[string]any)
			f.put(path, edited)
		}
	}
	w := run(t, f)
	w.Open()
	want := Status{
		Generation: 7,
		Conditions: map[string]Condition{
			"Connected": {"Connected", "False", "Unreachable", "no answer"},
			"Healthy":   {"Healthy", "True", "Healthy", "2 places"},
			"Synced":    {"Synced", "False", "Stale", ""},
		},
		Fields: map[string]any{"staleSince": nil, "services": int64(3), "endpoints": int64(0)},
	}
	w.Status(eu, want)
	eventually.True(t, "status", func() bool {
		return at(f.get(euPath), "status", "observedGeneration") != nil && at(f.get(euPath), "status", "staleSince") == nil
	})
	got := f.get(euPath)
	if at(got, "spec", "drain") != true {
		t.Error("the edit in between is lost")
	}
	var status struct {
		Conditions []struct{ Type, Status, Reason, Message, LastTransitionTime string }
		Services   int
		Endpoints  *int
		StaleSince *string
	}
	data, _ := json.Marshal(got["status"])
	if err := json.Unmarshal(data, &status); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range status.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s %q kept=%v", c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime == old))
	}
	wantLines := []string{
		`Other True X "" kept=true`, `Healthy True Healthy "2 places" kept=true`,
		`Connected False Unreachable "no answer" kept=false`, `Synced False Stale "" kept=false`,
	}
	if !slices.Equal(lines, wantLines) {
		t.Errorf("conditions\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(wantLines, "\n"))
	}
	if status.Services != 3 || status.Endpoints == nil || status.StaleSince != nil {
		t.Errorf("fields %+v", status)
	}
	// A second look finds nothing to write.
	if !want.says(unstructuredOf(got)) {
		t.Error("it is written twice")
	}
}

// TestEvents: one per finding that appears; a restart says nothing again, one
// that comes back is counted, many are summed up.
func TestEvents(t *testing.T) {
	f := newFakeHub()
	f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
	a := model.Finding{Object: web, Severity: model.Error, Field: "spec.rules[0].host", Reason: "Invalid", Message: "bad host"}
	b := model.Finding{Object: web, Severity: model.Warning, Reason: "Conflict", Message: strings.Repeat("long ", 1000)}
	w := run(t, f)
	w.Open()
	w.Findings(web, model.Findings{a, b})
	eventually.True(t, "two events", func() bool { return len(f.below(eventsDir)) == 2 })
	for _, p := range f.below(eventsDir) {
		e := f.get(p)
		if at(e, "regarding", "uid") != "uid-"+webPath || len(at(e, "note").(string)) > 1024 || at(e, "type") != "Warning" {
			t.Errorf("event %v", e)
		}
	}
	again := run(t, f)
	again.Open()
	again.Findings(web, model.Findings{a, b})
	again.Findings(web, model.Findings{a, b})

	settle := func(now model.Findings) {
		w.Findings(web, now)
		eventually.True(t, "settled", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			n := w.news[web]
			for finding, times := range n.told {
				if (times > 0) != slices.Contains(now, finding) {
					return false
				}
			}
			return !slices.ContainsFunc(now, func(f model.Finding) bool { return n.told[f] <= 0 })
		})
	}
	settle(model.Findings{b})
	settle(model.Findings{a, b})
	eventually.True(t, "counted", func() bool {
		return slices.ContainsFunc(f.below(eventsDir), func(p string) bool { return at(f.get(p), "series", "count") == float64(2) })
	})
	var many model.Findings
	for i := range 40 {
		many = append(many, model.Finding{Object: web, Field: model.Field("spec.rules").Index(i), Reason: "Invalid", Message: "bad"})
	}
	settle(many)
	eventually.True(t, "summed up", func() bool { return len(f.below(eventsDir)) == 2+perObject+1 })
}

// TestWhatIsOverIsNotTold: a first list finds much that its end mends. Of that
// nothing is asked of the hub, and nothing remembered.
func TestWhatIsOverIsNotTold(t *testing.T) {
	f := newFakeHub()
	f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
	w := run(t, f)
	w.Findings(web, model.Findings{{Object: web, Reason: "ServiceNotFound"}})
	w.Findings(web, nil)
	w.Open()
	eventually.True(t, "done with it", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.news) == 0
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gets != 0 {
		t.Errorf("the object was read %d times", f.gets)
	}
}

// TestFinalizer: added while the object lives, removed when asked.
func TestFinalizer(t *testing.T) {
	f := newFakeHub()
	o := object("spillway.dev/v1alpha1", "MemberCluster")
	o["metadata"] = map[string]any{"name": "eu-1", "finalizers": []any{"other"}}
	f.add(euPath, o)
	w := run(t, f)
	w.Open()
	w.Guard("eu-1")
	eventually.True(t, "guarded", func() bool {
		return fmt.Sprint(at(f.get(euPath), "metadata", "finalizers")) == "[other spillway.dev/member]"
	})
	w.Release("eu-1")
	eventually.True(t, "released", func() bool { return fmt.Sprint(at(f.get(euPath), "metadata", "finalizers")) == "[other]" })
}

func TestClip(t *testing.T) {
	if s := clip("äöü", 5); s != "ä…" || clip("abc", 3) != "abc" {
		t.Errorf("%q", s)
	}
	if s := clip63(strings.Repeat("a", 62) + "--b"); len(s) != 62 {
		t.Errorf("%q", s)
	}
}

// TestGenerationOfTheHub: who knows no generation, since the object could not be
// read, says something about the one that is there.
func TestGenerationOfTheHub(t *testing.T) {
	f := newFakeHub()
	f.add(euPath, object("spillway.dev/v1alpha1", "MemberCluster"))
	f.put(euPath, merge(f.objects[euPath], map[string]any{"metadata": map[string]any{"generation": int64(4)}}).(map[string]any))
	w := run(t, f)
	w.Open()
	w.Status(eu, Status{Conditions: map[string]Condition{"Accepted": {"Accepted", "False", "Invalid", "bad"}}})
	eventually.True(t, "status", func() bool { return at(f.get(euPath), "status", "observedGeneration") == float64(4) })
}
