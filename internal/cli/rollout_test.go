package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/app"
)

// edited is an edit of a route of the namespace shop.
func edited(name, reason, token string, returnable bool) v1alpha1.PlacementEdit {
	return v1alpha1.PlacementEdit{
		Kind: "HTTPRoute", Namespace: "shop", Name: name, Token: token, Reason: reason, Wave: 1, Waves: 3, Having: 1, Members: 4, Returnable: returnable,
		Message: map[string]string{v1alpha1.ReasonStopped: "member eu-1: it lost Accepted: no", v1alpha1.ReasonInWave: "all is well so far"}[reason],
	}
}

func placement(t *testing.T, namespace, name string, edits ...v1alpha1.PlacementEdit) *unstructured.Unstructured {
	p := &v1alpha1.Placement{Status: v1alpha1.PlacementStatus{Edits: edits}}
	p.Namespace, p.Name = namespace, name
	return objectOf(t, "Placement", p)
}

func webRoute(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}}
	u.SetNamespace("shop")
	u.SetName(name)
	u.SetUID("u-1")
	u.SetResourceVersion("7")
	return u
}

// rolling is a hub with routes web and api, and Placements in the namespaces of the routes
// and of their Gateway. heeds is what serve does with a word, by the edit that is left;
// nil: nothing.
func rolling(t *testing.T, web v1alpha1.PlacementEdit, heeds func(word string) []v1alpha1.PlacementEdit) *fake.FakeDynamicClient {
	routes := ofGateways("HTTPRoute", "httproutes").resource
	hub := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{placements: "PlacementList", routes: "HTTPRouteList"},
		webRoute("web"), webRoute("api"), webRoute("still"), placement(t, "infra", "gateways", web), placement(t, "shop", "routes", edited("api", v1alpha1.ReasonInWave, "ffff0000", false)))
	hub.PrependReactor("patch", "httproutes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.PatchAction)
		var o struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(p.GetPatch(), &o); err != nil {
			return true, nil, err
		}
		if o.Metadata.UID != "u-1" || o.Metadata.ResourceVersion != "7" {
			return true, nil, apierrors.NewConflict(routes.GroupResource(), p.GetName(), errors.New("it was modified"))
		}
		if heeds == nil {
			return true, webRoute("web"), nil
		}
		return true, webRoute("web"), hub.Tracker().Update(placements, placement(t, "infra", "gateways", heeds(o.Metadata.Annotations[v1alpha1.AnnotationRollout])...), "infra")
	})
	return hub
}

// said runs commands on a hub.
func said(t *testing.T, r *rolls, hub *fake.FakeDynamicClient, do func(*rolls) error) (out, errs string, err error) {
	t.Helper()
	var o, e strings.Builder
	r.hub, r.out, r.errs, r.every = hub, &o, &e, 5*time.Millisecond
	if r.format == "" {
		r.format = "table"
	}
	err = do(r)
	return o.String(), e.String(), err
}

func route(name string) *target {
	return &target{ofGateways("HTTPRoute", "httproutes"), name}
}

// TestRolloutStatus: edits of a namespace, of all and of one object, for people and for
// machines, and to who may not list all Placements.
func TestRolloutStatus(t *testing.T) {
	stopped := edited("web", v1alpha1.ReasonStopped, "1f0c9a2b", true)
	status := func(r *rolls) error { return r.status(t.Context()) }
	const all = `
OBJECT               EDIT       STATE     WAVE     MEMBERS   PLACEMENT        MESSAGE
HTTPRoute shop/web   1f0c9a2b   Stopped   1 of 3   1 of 4    infra/gateways   member eu-1: it lost Accepted: no
HTTPRoute shop/api   ffff0000   InWave    1 of 3   1 of 4    shop/routes      all is well so far

of HTTPRoute shop/web:
  edit it anew
  spillway rollout resume HTTPRoute web -n shop
  spillway rollout back HTTPRoute web -n shop
`
	for _, c := range []struct {
		name      string
		rolls     rolls
		web       v1alpha1.PlacementEdit
		forbidden bool
		out, errs string
		fails     string
	}{
		{"all", rolls{}, stopped, false, all, "", ""},
		{"a namespace", rolls{namespace: "shop"}, stopped, false, all, "", ""},
		{"another one", rolls{namespace: "infra"}, stopped, false, "\nnone\n", "", ""},
		{"one object", rolls{namespace: "shop", of: route("api")}, stopped, false, "\nOBJECT               EDIT       STATE    WAVE     MEMBERS   PLACEMENT     MESSAGE\nHTTPRoute shop/api   ffff0000   InWave   1 of 3   1 of 4    shop/routes   all is well so far\n", "", ""},
		{"one that is back", rolls{namespace: "shop", of: route("web")}, edited("web", v1alpha1.ReasonBack, "1f0c9a2b", true), false, "\nof HTTPRoute shop/web:\n  edit it anew\n  spillway rollout resume HTTPRoute web -n shop\n", "", ""},
		{"what was before is not known", rolls{namespace: "shop", of: route("web")}, edited("web", v1alpha1.ReasonStopped, "1f0c9a2b", false), false, "  edit it anew\n  spillway rollout resume HTTPRoute web -n shop\n", "", ""},
		{"none of one object", rolls{namespace: "shop", of: route("still")}, stopped, false, "\nnone\n", "", ""},
		{"no object", rolls{namespace: "shop", of: route("gone")}, stopped, false, "\n", "", "there is no HTTPRoute shop/gone on the hub"},
		{"one namespace may be read", rolls{namespace: "shop"}, stopped, true, "HTTPRoute shop/api", "only Placements of namespace shop are looked at", ""},
		{"all may not be read", rolls{}, stopped, true, "", "", "forbidden"},
		{"JSON", rolls{namespace: "shop", of: route("web"), format: "json"}, stopped, false, `"token": "1f0c9a2b",`, "", ""},
		{"JSON", rolls{namespace: "infra", format: "json"}, stopped, false, "\n[]\n", "", ""},
		{"YAML", rolls{namespace: "shop", of: route("web"), format: "yaml"}, stopped, false, "  placement: infra/gateways\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub := rolling(t, c.web, nil)
			hub.PrependReactor("list", "placements", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return c.forbidden && a.GetNamespace() == "", nil, apierrors.NewForbidden(placements.GroupResource(), "", errors.New("no"))
			})
			out, errs, err := said(t, &c.rolls, hub, status)
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("failed with %v", err)
			}
			if !strings.Contains("\n"+out, c.out) || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
				t.Errorf("said %s, %s", out, errs)
			}
		})
	}
}

// TestRolloutWords: what is written, what is told of it, and what is refused.
func TestRolloutWords(t *testing.T) {
	heeded := func(want string, left ...v1alpha1.PlacementEdit) func(string) []v1alpha1.PlacementEdit {
		return func(word string) []v1alpha1.PlacementEdit {
			if word != want {
				t.Errorf("wrote %q, want %q", word, want)
			}
			return left
		}
	}
	const second = 10 * time.Second
	stopped, back := edited("web", v1alpha1.ReasonStopped, "1f0c9a2b", true), edited("web", v1alpha1.ReasonBack, "1f0c9a2b", true)
	goes, unknown := edited("web", v1alpha1.ReasonInWave, "1f0c9a2b.1", true), edited("web", v1alpha1.ReasonStopped, "1f0c9a2b", false)
	for _, c := range []struct {
		name, verb string
		rolls      rolls
		web        v1alpha1.PlacementEdit
		heeds      func(string) []v1alpha1.PlacementEdit
		out        string
		fails      string
	}{
		{"it goes on", "resume", rolls{limit: second}, stopped, heeded("resume=1f0c9a2b", goes), "the edit of HTTPRoute shop/web is 1f0c9a2b.1, InWave in wave 1 of 3: all is well so far\n", ""},
		{"it goes on to the end", "resume", rolls{limit: second, token: "1f0c9a2b"}, stopped, heeded("resume=1f0c9a2b"), "no edit of HTTPRoute shop/web is on its way any more\n", ""},
		{"it goes back", "back", rolls{limit: second}, stopped, heeded("back=1f0c9a2b", back), "the edit 1f0c9a2b of HTTPRoute shop/web is taken back: members get what was before it\n", ""},
		{"it goes on after it went back", "resume", rolls{limit: second}, back, heeded("resume=1f0c9a2b", goes), "InWave", ""},
		{"one that is not stopped, named", "back", rolls{limit: second, token: "1f0c9a2b.1"}, goes, heeded("back=1f0c9a2b.1", edited("web", v1alpha1.ReasonBack, "1f0c9a2b.1", true)), "is taken back", ""},
		{"nobody is waited for", "back", rolls{}, stopped, nil, "HTTPRoute shop/web has the annotation spillway.dev/rollout: back=1f0c9a2b\n", ""},
		{"nobody heeds", "back", rolls{limit: 50 * time.Millisecond}, stopped, nil, "", "is written, but serve has not taken it up after 50ms: is one running?"},
		{"for machines", "back", rolls{limit: second, format: "json"}, stopped, heeded("back=1f0c9a2b", back), `"word": "back=1f0c9a2b",`, ""},
		{"not stopped", "resume", rolls{}, goes, nil, "", "the edit 1f0c9a2b.1 of HTTPRoute shop/web is not stopped: it is in wave 1 of 3 (all is well so far). To have it go on without that nonetheless, say --edit 1f0c9a2b.1"},
		{"not stopped", "back", rolls{}, goes, nil, "", "To take it back nonetheless, say --edit 1f0c9a2b.1"},
		{"another edit", "resume", rolls{token: "00000000"}, stopped, nil, "", "the edit of HTTPRoute shop/web is 1f0c9a2b now, not 00000000: look what it is with `spillway rollout status HTTPRoute web -n shop`"},
		{"back already", "back", rolls{}, back, nil, "", "is taken back already: edit it anew, or `spillway rollout resume HTTPRoute web -n shop`"},
		{"nothing is known of before", "back", rolls{}, unknown, nil, "", "nobody knows what members had before the edit 1f0c9a2b of HTTPRoute shop/web: edit it anew"},
		{"no edit", "resume", rolls{of: route("still")}, stopped, nil, "", "no edit of HTTPRoute shop/still is on its way: there is nothing to resume"},
		{"no edit", "back", rolls{of: route("still")}, stopped, nil, "", "there is nothing to take back"},
		{"no object", "back", rolls{of: route("gone")}, stopped, nil, "", "there is no HTTPRoute shop/gone on the hub"},
	} {
		t.Run(c.verb+" "+c.name, func(t *testing.T) {
			hub := rolling(t, c.web, c.heeds)
			c.rolls.namespace = "shop"
			if c.rolls.of == nil {
				c.rolls.of = route("web")
			}
			out, errs, err := said(t, &c.rolls, hub, func(r *rolls) error { return r.say(t.Context(), c.verb) })
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("failed with %v", err)
			}
			if !strings.Contains(out, c.out) || c.out == "" && out != "" || errs != "" {
				t.Errorf("said %s, %s", out, errs)
			}
			wrote := slices.ContainsFunc(hub.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "patch" })
			if should := c.out != "" || c.rolls.limit > 0; wrote != should {
				t.Errorf("wrote: %v", wrote)
			}
		})
	}
}

// TestRolloutOfWhatChanged: an object that changed since it was read is not annotated.
func TestRolloutOfWhatChanged(t *testing.T) {
	hub := rolling(t, edited("web", v1alpha1.ReasonStopped, "1f0c9a2b", true), nil)
	hub.PrependReactor("get", "httproutes", func(clienttesting.Action) (bool, runtime.Object, error) {
		o := webRoute("web")
		o.SetResourceVersion("6")
		return true, o, nil
	})
	_, _, err := said(t, &rolls{namespace: "shop", of: route("web")}, hub, func(r *rolls) error { return r.say(t.Context(), "back") })
	if err == nil || !strings.Contains(err.Error(), "HTTPRoute shop/web was changed just now, and nothing was done") {
		t.Errorf("failed with %v", err)
	}
}

// TestManyEdits: a status lists so many, and who finds none is told that there may be.
func TestManyEdits(t *testing.T) {
	many := slices.Repeat([]v1alpha1.PlacementEdit{edited("other", v1alpha1.ReasonStopped, "1f0c9a2b", true)}, v1alpha1.MaxPlacementEdits)
	hub := rolling(t, edited("web", v1alpha1.ReasonStopped, "1f0c9a2b", true), nil)
	if err := hub.Tracker().Update(placements, placement(t, "infra", "gateways", many...), "infra"); err != nil {
		t.Fatal(err)
	}
	_, errs, err := said(t, &rolls{namespace: "shop", of: route("web")}, hub, func(r *rolls) error { return r.status(t.Context()) })
	if err != nil || errs != "there may be more: Placements list the first 100 edits, and infra/gateways has so many\n" {
		t.Errorf("said %s (%v)", errs, err)
	}
	_, _, err = said(t, &rolls{namespace: "shop", of: route("web")}, hub, func(r *rolls) error { return r.say(t.Context(), "back") })
	if err == nil || !strings.Contains(err.Error(), "but there may be one") {
		t.Errorf("failed with %v", err)
	}
}

// TestRolloutTargets: kinds as they are written for kubectl.
func TestRolloutTargets(t *testing.T) {
	for args, want := range map[string]string{
		"Ingress web": "Ingress web", "ing/web": "Ingress web", "ingresses.networking.k8s.io/web": "Ingress web", "gateway web": "Gateway web",
		"httproutes/web": "HTTPRoute web", "GRPCRoute web": "GRPCRoute web", "tlsroute/web": "TLSRoute web", "tcproute/web": "TCPRoute web", "udproute web": "UDPRoute web", "route.route.openshift.io/web": "Route web",
		"web": "KIND/NAME", "/web": "KIND/NAME", "ing/": "KIND/NAME", "ing/web web": "KIND/NAME", "Service/web": "no edits of a Service go to members in waves: use Ingress, Gateway", "route.example/web": "no edits of a route.example go",
		"HTPRoute/web": `did you mean "HTTPRoute"?`,
	} {
		got, err := targetOf(strings.Fields(args))
		switch {
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v", args, err)
		case err == nil && got.kind+" "+got.name != want:
			t.Errorf("%s: %v, want %s", args, got, want)
		}
	}
	for _, k := range rolledKinds {
		if !slices.Contains(app.LeafResources(), k.resource) {
			t.Errorf("there are no leaves of kind %s", k.kind)
		}
	}
}
