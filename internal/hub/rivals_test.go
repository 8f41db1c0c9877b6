package hub

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	routev1 "github.com/openshift/api/route/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// ours are objects of our own kinds, and a status that each could have.
var ours = map[string]struct {
	object model.Object
	path   string
	typed  func() runtime.Object
	fields map[string]any
}{
	"MemberCluster": {eu, euPath, func() runtime.Object { return &v1alpha1.MemberCluster{} }, map[string]any{"services": int64(3), "staleSince": nil}},
	"Edge": {
		model.Object{Kind: "Edge", Name: "fra"}, "/apis/spillway.dev/v1alpha1/edges/fra",
		func() runtime.Object { return &v1alpha1.Edge{} }, map[string]any{"addresses": []string{"192.0.2.1"}},
	},
	"GatewayClassConfig": {
		model.Object{Kind: "GatewayClassConfig", Name: "spillway"}, "/apis/spillway.dev/v1alpha1/gatewayclassconfigs/spillway",
		func() runtime.Object { return &v1alpha1.GatewayClassConfig{} }, nil,
	},
	"Placement": {
		model.Object{Kind: "Placement", Namespace: "shop", Name: "gold"}, "/apis/spillway.dev/v1alpha1/namespaces/shop/placements/gold",
		func() runtime.Object { return &v1alpha1.Placement{} }, map[string]any{"chosen": int64(1), "members": []any{map[string]any{"name": "eu-1", "chosen": true, "reason": "Chosen"}}},
	},
	"DNSZone": {
		model.Object{Kind: "DNSZone", Namespace: "shop", Name: "example"}, "/apis/spillway.dev/v1alpha1/namespaces/shop/dnszones/example",
		func() runtime.Object { return &v1alpha1.DNSZone{} }, nil,
	},
}

// seen hands an object to the writer as the shell that watches it does.
func seen(t *testing.T, f *fakeHub, w *Writer, o model.Object, path string, typed runtime.Object) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(f.get(path), typed); err != nil {
		t.Fatal(err)
	}
	w.Seen(o, typed.(metav1.Object))
}

func yes(types ...string) map[string]Condition {
	out := map[string]Condition{}
	for _, t := range types {
		out[t] = Condition{t, "True", "Fine", ""}
	}
	return out
}

// conditionsAt lists the conditions of an object, as type=status.
func conditionsAt(o map[string]any) string {
	list, _ := at(o, "status", "conditions").([]any)
	var out []string
	for _, c := range list {
		m := c.(map[string]any)
		out = append(out, m["type"].(string)+"="+m["status"].(string))
	}
	return strings.Join(out, " ")
}

// TestStatusIsPutRight: of every kind, when somebody else changes it. What others
// added stays, and what we know nothing of at the moment.
func TestStatusIsPutRight(t *testing.T) {
	for kind, c := range ours {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeHub()
				f.add(c.path, object("spillway.dev/v1alpha1", kind))
				w := steady(t, f)
				w.Open()
				w.Status(c.object, Status{Generation: 1, Conditions: yes("Accepted", "Connected"), Fields: c.fields})
				synctest.Wait()
				if s := conditionsAt(f.get(c.path)); s != "Accepted=True Connected=True" {
					t.Fatalf("conditions %s", s)
				}
				w.Status(c.object, Status{Generation: 1, Conditions: yes("Accepted"), Fields: c.fields}) // nothing known of Connected
				synctest.Wait()

				o := f.get(c.path)
				status := o["status"].(map[string]any)
				status["conditions"] = []any{
					map[string]any{"type": "Connected", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
					map[string]any{"type": "Accepted", "status": "False", "reason": "Vandal", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
					map[string]any{"type": "Others", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
				}
				status["staleSince"] = "2020-01-01T00:00:00Z"
				f.add(c.path, o)
				patches := f.sent()
				seen(t, f, w, c.object, c.path, c.typed())
				synctest.Wait()
				if s := conditionsAt(f.get(c.path)); s != "Connected=True Accepted=True Others=True" {
					t.Errorf("conditions %s", s)
				}
				if _, stays := at(f.get(c.path), "status").(map[string]any)["staleSince"]; stays && kind == "MemberCluster" {
					t.Error("a field that should not be there stays")
				}
				if n := f.sent() - patches; n > 2 {
					t.Errorf("%d patches", n)
				}
				// What says what it should is neither read nor written.
				gets, patches := f.read(), f.sent()
				seen(t, f, w, c.object, c.path, c.typed())
				synctest.Wait()
				if f.read() != gets || f.sent() != patches {
					t.Error("a status that is right is looked at")
				}
			})
		})
	}
}

// TestWhoIsBehindIsSilent: while another serve has read a newer version of an
// object than we have, what it says stays.
func TestWhoIsBehindIsSilent(t *testing.T) {
	o := object("spillway.dev/v1alpha1", "Edge")
	o["metadata"] = map[string]any{"generation": int64(5)}
	o["status"] = map[string]any{"observedGeneration": int64(5)}
	for generation, silent := range map[int64]bool{4: true, 5: false, 6: false, 0: false} {
		if (Status{Generation: generation, Conditions: yes("Accepted")}).says(unstructuredOf(o)) != silent {
			t.Errorf("generation %d: silent %t, want %t", generation, !silent, silent)
		}
	}
	o["status"] = map[string]any{"observedGeneration": int64(99)} // nobody can have read that
	if (Status{Generation: 4}).says(unstructuredOf(o)) {
		t.Error("nonsense stays")
	}
}

// TestRivals: two who want different things of one object each write it, later
// each time, and say so once; when one of them ends, the other one's word stays.
func TestRivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHub()
		const path = "/apis/spillway.dev/v1alpha1/edges/fra"
		fra := model.Object{Kind: "Edge", Name: "fra"}
		f.add(path, object("spillway.dev/v1alpha1", "Edge"))
		var log bytes.Buffer
		a, b := steady(t, f), steady(t, f)
		a.log = slog.New(slog.NewTextHandler(&log, nil))
		a.Open()
		b.Open()
		want := func(status string) Status {
			return Status{Generation: 1, Conditions: map[string]Condition{"Connected": {"Connected", status, "Fine", ""}}}
		}
		a.Status(fra, want("True"))
		b.Status(fra, want("False"))
		watch := func(writers ...*Writer) { // as both would for an hour
			last := ""
			for range 3600 {
				time.Sleep(time.Second)
				synctest.Wait()
				if now := at(f.get(path), "metadata", "resourceVersion").(string); now != last {
					last = now
					for _, w := range writers {
						seen(t, f, w, fra, path, &v1alpha1.Edge{})
					}
				}
			}
		}
		watch(a, b)
		synctest.Wait()
		patches := f.sent()
		// 9 steps to five minutes, then 12 an hour, of each.
		if patches < 10 || patches > 2*(10+12) {
			t.Errorf("%d patches in an hour", patches)
		}
		if n := strings.Count(log.String(), "somebody else"); n < 1 || n > 6 {
			t.Errorf("told %d times in an hour:\n%s", n, &log)
		}
		b.forget(conditions, fra)
		watch(a)
		synctest.Wait()
		if s := conditionsAt(f.get(path)); s != "Connected=True" {
			t.Errorf("in the end %s", s)
		}
		if n := f.sent() - patches; n > 1 {
			t.Errorf("%d patches by one alone", n)
		}
	})
}

// TestAddressesUnderFire: the same of status.loadBalancer.
func TestAddressesUnderFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHub()
		f.add(webPath, object("networking.k8s.io/v1", "Ingress"))
		w := steady(t, f)
		w.Open()
		w.Addresses(web, []string{"192.0.2.1"})
		synctest.Wait()
		if f.read() != 0 {
			t.Error("the first write reads the object")
		}
		patches := f.sent()
		for range 600 { // a rival who writes at once what it wants, for ten minutes
			f.add(webPath, merge(f.get(webPath), itsAddress).(map[string]any))
			w.Addresses(web, []string{"192.0.2.1"}) // the table says that it is not so
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := f.sent() - patches; n < 5 || n > 12 {
			t.Errorf("%d patches in ten minutes", n)
		}
		time.Sleep(againLast)
		synctest.Wait()
		if s := at(f.get(webPath), "status", "loadBalancer", "ingress"); len(s.([]any)) != 1 || s.([]any)[0].(map[string]any)["ip"] != "192.0.2.1" {
			t.Errorf("in the end %v", s)
		}
		time.Sleep(3 * calm)
		synctest.Wait()
		w.Addresses(web, nil) // the next record sweeps
		synctest.Wait()
		if n := len(w.records); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// TestMadeAgainUnseen: an object that is deleted and made again between two commits is the
// same to those, so nobody says once more what its status should be. It is written all the
// same, whether the one before had been written or was gone by then.
func TestMadeAgainUnseen(t *testing.T) {
	admitted := &model.Admission{Admitted: true, Host: "web.example"}
	for kind, c := range map[string]struct {
		path, version string
		object        model.Object
		typed         func() runtime.Object
		say           func(*Writer, model.Object)
		field         []string
	}{
		"Ingress": {
			webPath, "networking.k8s.io/v1", web, func() runtime.Object { return &networkingv1.Ingress{} },
			func(w *Writer, o model.Object) { w.Addresses(o, []string{"192.0.2.1"}) }, []string{"status", "loadBalancer", "ingress"},
		},
		"HTTPRoute": {
			routePath, "gateway.networking.k8s.io/v1", theRoute, func() runtime.Object { return &gatewayv1.HTTPRoute{} },
			func(w *Writer, o model.Object) {
				w.Parents(o, []model.ParentStatus{parentStatus("web", statedOf("Accepted", "True"))})
			}, []string{"status", "parents"},
		},
		"Route": {
			"/apis/route.openshift.io/v1/namespaces/shop/routes/web", "route.openshift.io/v1", model.Object{Kind: "Route", Namespace: "shop", Name: "web"}, func() runtime.Object { return &routev1.Route{} },
			func(w *Writer, o model.Object) { w.Admission(o, admitted) }, []string{"status", "ingress"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeHub()
				w := steady(t, f)
				w.Open()
				c.say(w, c.object)
				synctest.Wait()
				for n := range 3 {
					f.add(c.path, merge(object(c.version, kind), map[string]any{"metadata": map[string]any{"uid": fmt.Sprint(n)}}).(map[string]any))
					seen(t, f, w, c.object, c.path, c.typed())
					synctest.Wait()
					if at(f.get(c.path), c.field...) == nil {
						t.Fatalf("object %d has no status", n)
					}
				}
				gets := f.gets
				seen(t, f, w, c.object, c.path, c.typed())
				if synctest.Wait(); f.gets != gets {
					t.Error("what is written already is read again")
				}
			})
		})
	}
}

// TestMadeAgain: an object that is deleted and made again is nobody's change of what the
// one before said: its status is written at once, however often that happens.
func TestMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHub()
		w := steady(t, f)
		w.Open()
		for n := range 10 {
			for _, path := range []string{webPath, euPath} {
				o := object("spillway.dev/v1alpha1", "MemberCluster")
				if path == webPath {
					o = object("networking.k8s.io/v1", "Ingress")
				}
				f.add(path, merge(o, map[string]any{"metadata": map[string]any{"uid": fmt.Sprint(n)}}).(map[string]any))
			}
			w.Addresses(web, []string{"192.0.2.1"})
			w.Status(eu, Status{Generation: 1, Conditions: yes("Accepted")})
			seen(t, f, w, eu, euPath, &v1alpha1.MemberCluster{})
			synctest.Wait()
			if got := at(f.get(webPath), "status", "loadBalancer", "ingress"); got == nil {
				t.Fatalf("Ingress %d: it is not written at once", n)
			}
			if got := conditionsAt(f.get(euPath)); got != "Accepted=True" {
				t.Fatalf("MemberCluster %d: it is not written at once: %q", n, got)
			}
		}
	})
}
