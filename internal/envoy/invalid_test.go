package envoy

import (
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
)

// TestInvalidRoutesAreNotSent: routes that break a rule of Envoy's API are held
// back, so that proxies keep what they have, and the root is told; other hosts
// go on.
func TestInvalidRoutesAreNotSent(t *testing.T) {
	for name, s := range map[string]sizes{"list": usual, "tree": asTrees} {
		t.Run(name, func(t *testing.T) { sendInvalidRoutes(t, fleetIn(newWorldOf(s), 2)) })
	}
}

func sendInvalidRoutes(t *testing.T, w *world) {
	t.Helper()
	def := target("web", "shop/web-0/http")
	set := func(path string) {
		w.g.Commit(func(tx *inc.Tx) {
			w.host(tx, testClass, "h0.shop.example", &def, fleet.Route{Match: prefix(path), Target: def})
		})
	}
	for _, step := range []struct {
		path    string
		invalid bool
	}{{"/a?b", true}, {"/a", false}, {"/a#b", true}, {"/b", false}} {
		set(step.path)
		if got := w.get(t, w.t.Routes, "h0.shop.example"); got.Held() != step.invalid {
			t.Errorf("%s: %s", step.path, got)
		}
		if w.get(t, w.t.Routes, "h1.shop.example").Held() {
			t.Errorf("%s: another host is held", step.path)
		}
		told := w.findings()
		if !step.invalid && told != "" || step.invalid && (!strings.HasPrefix(told, "Ingress shop/web: spec.rules InternalError: the routes of h0.shop.example stay") ||
			!strings.Contains(told, "RouteMatch.PathSeparatedPrefix")) {
			t.Errorf("%s: told %q", step.path, told)
		}
	}
	if faults := w.g.Faults(); len(faults) > 0 {
		t.Errorf("faults %v", faults)
	}
}

// TestInvalidMessagesArePanics: what has nothing of a user in it is our own bug.
func TestInvalidMessagesArePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"sealed": func() { seal("", cluster(clusterName{}, "")) },
		"packed": func() { pack(&endpointv3.ClusterLoadAssignment{}) },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, "breaks a rule of Envoy's API") {
					t.Errorf("%s: %q", name, got)
				}
			}()
			f()
		}()
	}
}
