package hub

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/work"
)

func ingressOf(namespace string, i int) (model.Object, string) {
	name := fmt.Sprintf("web-%d", i)
	return model.Object{Kind: "Ingress", Namespace: namespace, Name: name},
		"/apis/networking.k8s.io/v1/namespaces/" + namespace + "/ingresses/" + name
}

// steady starts a writer as it is, in a bubble with a clock of its own.
func steady(t *testing.T, f *fakeHub) *Writer {
	t.Helper()
	w, err := NewWriter(f.config(), "test", budget(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
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

// TestFindingsHoldNoStatus: 300 findings of one tenant are told at the pace of
// events. The status of another tenant is written at once, and its event is
// among the next.
func TestFindingsHoldNoStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHub()
		f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
		w := steady(t, f)
		for i := range 300 {
			o, path := ingressOf("noisy", i)
			f.add(path, object("networking.k8s.io/v1", "Ingress"))
			w.Findings(o, model.Findings{{Object: o, Reason: "Invalid", Message: "bad"}})
		}
		w.Addresses(web, []string{"192.0.2.1"})
		w.Findings(web, model.Findings{{Object: web, Reason: "Invalid", Message: "bad"}})
		w.Open()
		synctest.Wait()
		if at(f.get(webPath), "status", "loadBalancer", "ingress") == nil {
			t.Error("the status waits for events")
		}
		if told := len(f.below("/apis/events.k8s.io/v1/namespaces/noisy/events/")); told > eventBurst {
			t.Errorf("%d events at once", told)
		}
		if told := f.below(eventsDir); len(told) != 1 {
			t.Errorf("%d events of another tenant, not one at once: %v", len(told), told)
		}
		// By now who tells events waits for the next that may be told.
		f.add(euPath, object("spillway.dev/v1alpha1", "MemberCluster"))
		w.Guard("eu-1")
		w.Status(eu, Status{Generation: 1, Conditions: yes("Accepted")})
		time.Sleep(5 * retryFirst) // the two may meet, then one of them is written again
		if at(f.get(euPath), "metadata", "finalizers") == nil || conditionsAt(f.get(euPath)) == "" {
			t.Error("status or finalizer wait for events")
		}
		if told := len(f.below("/apis/events.k8s.io/v1/namespaces/noisy/events/")); told > eventBurst+2*eventQPS {
			t.Errorf("%d events after a second: nothing waits any more", told)
		}
		time.Sleep(time.Minute)
		if told := len(f.below("/apis/events.k8s.io/v1/namespaces/noisy/events/")); told != 300 {
			t.Errorf("%d events in the end", told)
		}
	})
}

// budget is what a hub may be asked while it fails.
func budget() flowcontrol.RateLimiter { return flowcontrol.NewTokenBucketRateLimiter(1.5, 16) }

// TestFailingServer: an API server that does nothing but fail is asked twice a
// second at most, however much waits and however it fails, and all is written
// when it works again.
func TestFailingServer(t *testing.T) {
	for how, breaks := range map[string]failure{
		"500":                  answers(500, ""),
		"503 with Retry-After": answers(503, "", "Retry-After", "1"),
		"429 with Retry-After": answers(429, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`, "Retry-After", "1", "Content-Type", "application/json"),
		"garbage":              answers(200, "<html>busy</html>"),
		"JSON of nothing":      answers(200, "{}", "Content-Type", "application/json"),
		"cut connections":      func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"refused connections":  func() (*http.Response, error) { return nil, syscall.ECONNREFUSED },
		"reset connections":    func() (*http.Response, error) { return nil, syscall.ECONNRESET },
	} {
		t.Run(how, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testFailingServer(t, breaks) }) })
	}
}

func testFailingServer(t *testing.T, breaks failure) {
	f := newFakeHub()
	f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
	f.add(euPath, object("spillway.dev/v1alpha1", "MemberCluster"))
	asked := 0
	f.broken, f.breaks = func(*http.Request) bool { asked++; return true }, breaks
	w := steady(t, f)
	w.Open()
	w.Guard("eu-1") // begins with a GET, which the library would try again in more cases
	for i := range 500 {
		o, path := ingressOf("noisy", i)
		f.add(path, object("networking.k8s.io/v1", "Ingress"))
		w.Addresses(o, []string{"192.0.2.1"})
		w.Findings(o, model.Findings{{Object: o, Reason: "Invalid", Message: "bad"}})
	}
	time.Sleep(10 * time.Second)
	f.mu.Lock()
	start := asked
	f.mu.Unlock()
	// The first failures of each line, those under way then, and the burst of the budget.
	if most := 2*work.Patience + stateWorkers + talkWorkers + 16 + 2*10; start > most {
		t.Errorf("%d requests in the first 10 s, at most %d should be", start, most)
	}
	const minutes = 5
	time.Sleep(minutes * time.Minute)
	f.mu.Lock()
	if n := asked - start; n > minutes*60*2 || n < minutes*60/2 {
		t.Errorf("%d requests in %d minutes", n, minutes)
	}
	f.broken = nil
	f.mu.Unlock()
	w.Addresses(web, []string{"192.0.2.1"})
	time.Sleep(5 * time.Second)
	if at(f.get(webPath), "status", "loadBalancer", "ingress") == nil {
		t.Error("not written 5 s after the server works again")
	}
	time.Sleep(5 * time.Minute)
	if n := w.Waiting(); n != 0 {
		t.Errorf("%d are still waiting", n)
	}
}

// TestFailingNamespace: where the objects of one namespace can't be written, as
// by a webhook that is down, others are written as if nothing was.
func TestFailingNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHub()
		f.broken = func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/namespaces/noisy/") }
		w := steady(t, f)
		w.Open()
		for i := range 1000 {
			o, path := ingressOf("noisy", i)
			f.add(path, object("networking.k8s.io/v1", "Ingress"))
			w.Addresses(o, []string{"192.0.2.1"})
		}
		time.Sleep(time.Minute)
		var paths []string
		for i := range 50 {
			o, path := ingressOf("shop", i)
			f.add(path, object("networking.k8s.io/v1", "Ingress"))
			w.Addresses(o, []string{"192.0.2.1"})
			paths = append(paths, path)
		}
		time.Sleep(10 * time.Second)
		for _, path := range paths {
			if at(f.get(path), "status", "loadBalancer", "ingress") == nil {
				t.Fatalf("%s waits for another namespace", path)
			}
		}
	})
}

// TestWhatIsOverIsForgotten: nothing is kept for ever of objects that come, are
// wrong and go.
func TestWhatIsOverIsForgotten(t *testing.T) {
	w := newWriter(nil, nil, "test", budget(), slog.New(slog.DiscardHandler))
	defer w.state.queue.ShutDown()
	defer w.talk.queue.ShutDown()
	defer w.world.queue.ShutDown()
	const objects = 3 * maxOver
	for i := range objects {
		o, _ := ingressOf("noisy", i)
		f := model.Finding{Object: o, Reason: "Invalid"}
		w.Findings(o, model.Findings{f})
		w.mark(w.news[o], model.Findings{f})
		w.Findings(o, nil)
	}
	if n := len(w.news); n > maxOver+1 {
		t.Errorf("%d of %d objects that are gone are remembered", n, objects)
	}
}
