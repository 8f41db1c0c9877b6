package hub

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

const globalDir = "/apis/spillway.dev/v1alpha1/namespaces/shop/globalingresses/"

// globalRig is a writer of GlobalIngresses in a time of its own.
type globalRig struct {
	t *testing.T
	f *fakeHub
	w *Writer
}

// inGlobalTime runs a test with a writer that is open.
func inGlobalTime(t *testing.T, test func(*globalRig)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHub()
		w, err := NewWriter(f.config(), "test", budget(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { w.Run(ctx) })
		w.Open()
		test(&globalRig{t, f, w})
		end()
		all.Wait()
	})
}

func root(n int) (model.Object, string) {
	name := fmt.Sprint("web-", n)
	return model.Object{Kind: "Ingress", Namespace: "shop", Name: name}, globalDir + "ingress." + name
}

// want is a row that says that some sites serve a root.
func wantOf(of model.Object, urgent bool, serving ...bool) leaf.GlobalRow {
	says := model.Global{Root: of, Created: 7, Hosts: model.TextsOf([]string{"shop.example"})}
	for i, is := range serving {
		says.Sites = append(says.Sites, model.GlobalSite{Name: fmt.Sprint("e", i), Addresses: model.TextsOf([]string{fmt.Sprint("192.0.2.", i)}), Serving: is, Reason: "Serving", Located: true, Latitude: 50.25})
	}
	return leaf.GlobalRow{Wanted: true, Want: says, Urgent: urgent}
}

func (r *globalRig) ask(of model.Object, row leaf.GlobalRow) {
	name, _ := model.GlobalOf(of)
	r.w.Global(name, row)
}

// seen is an object as a watch gives it.
func (r *globalRig) seen(path string) (model.GlobalSeen, bool) {
	have := r.f.get(path)
	if have == nil {
		return model.GlobalSeen{}, false
	}
	var o v1alpha1.GlobalIngress
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have, &o); err != nil {
		r.t.Fatal(err)
	}
	_, seen := ingest.GlobalIngress(&o)
	return seen, true
}

func (r *globalRig) writes() string {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return fmt.Sprint(len(r.f.posts), len(r.f.puts), len(r.f.deletes))
}

func (r *globalRig) expect(when, writes string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.writes(); got != writes {
		r.t.Errorf("%s: %s made, replaced and deleted, not %s", when, got, writes)
	}
}

// TestGlobalIngress: it is made once its root is there, says what it should, and is
// written once for all that changes within five seconds.
func TestGlobalIngress(t *testing.T) {
	inGlobalTime(t, func(r *globalRig) {
		of, path := root(0)
		r.ask(of, wantOf(of, true, true))
		r.expect("its root is gone", "0 0 0")
		r.f.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web-0", object("networking.k8s.io/v1", "Ingress"))
		r.ask(of, wantOf(of, true, true))
		time.Sleep(time.Second)
		r.expect("it is new", "1 0 0")
		seen, _ := r.seen(path)
		if !seen.Ours || !seen.Exact || !seen.Says.Equal(wantOf(of, true, true).Want) || seen.RootUID != "uid-/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web-0" {
			t.Errorf("%+v", seen)
		}
		r.ask(of, wantOf(of, true, true))
		time.Sleep(time.Minute)
		r.expect("it says so", "1 0 0")

		for n := range 40 { // 20 seconds
			r.ask(of, wantOf(of, false, n%2 == 0, true))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		r.f.mu.Lock()
		n := len(r.f.puts)
		r.f.mu.Unlock()
		if n < 1 || n > 5 {
			t.Errorf("%d writes in 20 seconds", n)
		}
		if seen, _ := r.seen(path); !seen.Says.Equal(wantOf(of, false, false, true).Want) {
			t.Errorf("at last: %+v", seen.Says)
		}
	})
}

// TestGlobalIngressKeeps: what consumers wrote stays, and so does what others added; a
// spec that somebody changed is put right.
func TestGlobalIngressKeeps(t *testing.T) {
	inGlobalTime(t, func(r *globalRig) {
		of, path := root(0)
		r.f.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web-0", object("networking.k8s.io/v1", "Ingress"))
		r.ask(of, wantOf(of, true, true))
		time.Sleep(10 * time.Second)
		o := r.f.get(path)
		o["status"] = map[string]any{"consumers": []any{map[string]any{"name": "example.org/dns"}}}
		o["spec"].(map[string]any)["serving"] = 9
		u := unstructuredOf(o)
		u.SetFinalizers([]string{"example.org/dns"})
		u.SetAnnotations(map[string]string{"a": "b"})
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}})
		r.f.add(path, o)
		r.ask(of, wantOf(of, false, true)) // as the watch has it wanted
		time.Sleep(10 * time.Second)
		r.expect("it is put right", "1 1 0")
		have := unstructuredOf(r.f.get(path))
		if seen, _ := r.seen(path); !seen.Exact || !seen.Says.Equal(wantOf(of, false, true).Want) {
			t.Errorf("%+v", seen)
		}
		if s := fmt.Sprint(have.GetFinalizers(), have.GetAnnotations()["a"], len(have.GetOwnerReferences()), at(have.Object, "status", "consumers")); s != "[example.org/dns]b2 [map[name:example.org/dns]]" {
			t.Error(s)
		}
	})
}

// TestGlobalIngressOfOthers: one without our mark is neither written nor deleted.
func TestGlobalIngressOfOthers(t *testing.T) {
	inGlobalTime(t, func(r *globalRig) {
		of, path := root(0)
		r.f.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web-0", object("networking.k8s.io/v1", "Ingress"))
		r.f.add(path, object("spillway.dev/v1alpha1", "GlobalIngress"))
		r.ask(of, wantOf(of, true, true))
		time.Sleep(10 * time.Second)
		r.ask(of, leaf.GlobalRow{Delete: "uid-" + path})
		time.Sleep(10 * time.Second)
		r.expect("it is another's", "0 0 0")
	})
}

// TestGlobalIngressGoes: it is deleted, waits for who holds it, and Spillway's own
// finalizers are taken from it when that is asked for.
func TestGlobalIngressGoes(t *testing.T) {
	inGlobalTime(t, func(r *globalRig) {
		of, path := root(0)
		r.f.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web-0", object("networking.k8s.io/v1", "Ingress"))
		r.ask(of, wantOf(of, true, true))
		time.Sleep(10 * time.Second)
		u := unstructuredOf(r.f.get(path))
		u.SetFinalizers([]string{"spillway.dev/lb", "example.org/dns"})
		r.f.add(path, u.Object)
		r.ask(of, leaf.GlobalRow{Delete: "another"})
		time.Sleep(10 * time.Second)
		r.expect("another one was meant", "1 0 0")
		r.ask(of, leaf.GlobalRow{Delete: "uid-" + path, Urgent: true})
		time.Sleep(10 * time.Second)
		r.expect("it is deleted", "1 0 1")
		r.ask(of, wantOf(of, true, true))
		time.Sleep(10 * time.Second)
		r.expect("it is leaving", "1 0 1")
		r.ask(of, leaf.GlobalRow{Release: model.TextsOf([]string{"spillway.dev/lb", "example.org/dns"})})
		time.Sleep(10 * time.Second)
		r.expect("it is let go of", "1 1 1")
		if held := unstructuredOf(r.f.get(path)).GetFinalizers(); fmt.Sprint(held) != "[example.org/dns]" {
			t.Errorf("held by %v", held)
		}
	})
}

// TestGlobalIngressPace: ten a second are written after the first ones; what is urgent
// goes before all that waits.
func TestGlobalIngressPace(t *testing.T) {
	inGlobalTime(t, func(r *globalRig) {
		const calm = 200
		for n := range calm + 2 {
			r.f.add(fmt.Sprint("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web-", n), object("networking.k8s.io/v1", "Ingress"))
		}
		for n := range calm {
			of, _ := root(n)
			r.ask(of, wantOf(of, false, true))
		}
		time.Sleep(5 * time.Second)
		made := func() int {
			r.f.mu.Lock()
			defer r.f.mu.Unlock()
			return len(r.f.posts)
		}
		if n := made(); n > globalBurst+5*globalQPS+globalWorkers || n < globalBurst {
			t.Errorf("%d writes in 5 seconds", n)
		}
		of, path := root(calm)
		r.ask(of, wantOf(of, true, true))
		time.Sleep(time.Second)
		if _, there := r.seen(path); !there {
			t.Errorf("what is urgent waits behind %d others", calm-made())
		}
		time.Sleep(30 * time.Second)
		if n := made(); n != calm+1 {
			t.Errorf("%d writes in all", n)
		}
	})
}
