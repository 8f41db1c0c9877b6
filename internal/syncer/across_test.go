package syncer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
)

// across are the kinds that ask for the same hosts.
var across = struct{ gateways, sets, routes, ingresses schema.GroupVersionResource }{
	schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"},
	schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "listenersets"},
	schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
	schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
}

// acrossObject reads an object, with its kind, namespace and name, of which the last is
// JSON of its spec and status.
func acrossObject(t *testing.T, kind, namespace, name, rest string) *unstructured.Unstructured {
	t.Helper()
	version := "gateway.networking.k8s.io/v1"
	if kind == "Ingress" {
		version = "networking.k8s.io/v1"
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, "metadata": {"namespace": %q, "name": %q}, %s}`, version, kind, namespace, name, rest)); err != nil {
		t.Fatal(err)
	}
	return u
}

func acrossResource(u *unstructured.Unstructured) schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{"Gateway": across.gateways, "ListenerSet": across.sets, "HTTPRoute": across.routes, "Ingress": across.ingresses}[u.GetKind()]
}

// newAcross is a syncer that has listed nothing of all kinds, and wants leaves.
func newAcross(t *testing.T, leaves ...*unstructured.Unstructured) *Syncer {
	t.Helper()
	kinds := []schema.GroupVersionResource{across.gateways, across.sets, across.routes, across.ingresses}
	s, err := New(Options{Hub: "hub", Kinds: kinds, Claims: map[schema.GroupVersionResource]Claims{
		across.gateways:  {Of: ingest.GatewayAsking, Among: "routes", Fronts: "Gateway", At: true},
		across.sets:      {Of: ingest.ListenerSetAsking, Among: "routes", Fronts: "ListenerSet", At: true},
		across.routes:    {Of: ingest.RouteAsking, Among: "routes", At: true},
		across.ingresses: {Of: ingest.IngressAsking, Among: "Ingress", At: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.queue.ShutDown)
	for _, l := range leaves {
		s.Want(Key{acrossResource(l), l.GetNamespace(), l.GetName()}, &Leaf{Object: l, Root: Root{Kind: l.GetKind(), UID: "x"}})
	}
	for _, k := range kinds {
		if err := s.kinds[k].Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// hears has a syncer hear of objects.
func (s *Syncer) hears(t *testing.T, all ...*unstructured.Unstructured) {
	t.Helper()
	for _, u := range all {
		if err := s.kinds[acrossResource(u)].Update(u.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
}

// claimedOf is what is told of a leaf.
func (s *Syncer) claimedOf(l *unstructured.Unstructured) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.leaves[Key{acrossResource(l), l.GetNamespace(), l.GetName()}].last.Claimed {
		out = append(out, fmt.Sprintf("%s by %s %s/%s", c.Host, c.Kind, c.Namespace, c.Name))
	}
	return strings.Join(out, ", ")
}

func marked(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	out.SetLabels(map[string]string{v1alpha1.LabelHub: "hub"})
	return out
}

// Parts of objects.
const (
	acrossGateway  = `"spec": {"gatewayClassName": "contour", "listeners": [{"name": "web", "port": %d, "protocol": "HTTP", "hostname": "a.example", "allowedRoutes": {"namespaces": {"from": "All"}}}]}, "status": {"addresses": [{"value": %q}]}`
	acrossRoute    = `"spec": {"parentRefs": [{"namespace": "infra", "name": "gw"%s}], "hostnames": [%s], "rules": [{}]}`
	acrossIngress  = `"spec": {"ingressClassName": "contour", "rules": [{"host": "a.example"}]}, "status": {"loadBalancer": {"ingress": [{"ip": %q}]}}`
	acrossRefused  = `, "status": {"parents": [{"parentRef": {"namespace": "infra", "name": "gw"}, "conditions": [{"type": "Accepted", "status": "False"}]}]}`
	acrossSet      = `"spec": {"parentRef": {"name": %q}, "listeners": [{"name": "web", "port": %d, "protocol": "HTTP", "hostname": "a.example", "allowedRoutes": {"namespaces": {"from": "All"}}}]}, "status": {"conditions": [{"type": "Accepted", "status": %q}], "listeners": [{"name": "web", "conditions": [{"type": "Accepted", "status": %q}]}]}`
	acrossOfSet    = `"spec": {"parentRefs": [{"kind": "ListenerSet", "namespace": "infra", "name": "set"%s}], "hostnames": [%s], "rules": [{}]}`
	acrossListened = "a.example by HTTPRoute theirs/x"
)

// TestClaimedAcross: a route without host names asks for those of its listeners, and an
// Ingress and a route contend where clients reach both at one address.
func TestClaimedAcross(t *testing.T) {
	gateway := func(port int, address string) *unstructured.Unstructured {
		return acrossObject(t, "Gateway", "infra", "gw", fmt.Sprintf(acrossGateway, port, address))
	}
	route := func(namespace, name, more, hosts, status string) *unstructured.Unstructured {
		return acrossObject(t, "HTTPRoute", namespace, name, fmt.Sprintf(acrossRoute, more, hosts)+status)
	}
	ingress := func(namespace, name, address string) *unstructured.Unstructured {
		return acrossObject(t, "Ingress", namespace, name, fmt.Sprintf(acrossIngress, address))
	}
	ourRoute, bare, ourIngress := route("shop", "web", "", `"a.example"`, ""), route("shop", "web", "", "", ""), ingress("shop", "web", "192.0.2.1")
	for _, c := range []struct {
		name    string
		leaf    *unstructured.Unstructured
		gateway *unstructured.Unstructured
		theirs  *unstructured.Unstructured
		want    string
	}{
		{"a route with the host of its listener", ourRoute, gateway(80, ""), route("theirs", "x", "", "", ""), acrossListened},
		{"of another listener", ourRoute, gateway(80, ""), route("theirs", "x", `, "sectionName": "y"`, "", ""), ""},
		{"refused", ourRoute, gateway(80, ""), route("theirs", "x", "", "", acrossRefused), ""},
		{"a leaf with the host of its listener", bare, gateway(80, ""), route("theirs", "x", "", `"a.example"`, ""), acrossListened},
		{"both", bare, gateway(80, ""), route("theirs", "x", "", "", ""), acrossListened},
		{"an Ingress at the address", ourRoute, gateway(80, "192.0.2.1"), ingress("theirs", "x", "192.0.2.1"), "a.example by Ingress theirs/x"},
		{"and a leaf without host names", bare, gateway(443, "192.0.2.1"), ingress("theirs", "x", "192.0.2.1"), "a.example by Ingress theirs/x"},
		{"an Ingress at another address", ourRoute, gateway(80, "192.0.2.1"), ingress("theirs", "x", "192.0.2.2"), ""},
		{"an Ingress without an address", ourRoute, gateway(80, ""), ingress("theirs", "x", ""), ""},
		{"an Ingress at another port", ourRoute, gateway(8080, "192.0.2.1"), ingress("theirs", "x", "192.0.2.1"), ""},
		{"a route at the address of an Ingress", ourIngress, gateway(80, "192.0.2.1"), route("theirs", "x", "", `"a.example"`, ""), acrossListened},
		{"without host names", ourIngress, gateway(80, "192.0.2.1"), route("theirs", "x", "", "", ""), acrossListened},
		{"refused there", ourIngress, gateway(80, "192.0.2.1"), route("theirs", "x", "", `"a.example"`, acrossRefused), ""},
		{"at another address", ourIngress, gateway(80, "192.0.2.2"), route("theirs", "x", "", `"a.example"`, ""), ""},
	} {
		s := newAcross(t, c.leaf)
		s.hears(t, marked(c.leaf), c.theirs, c.gateway)
		if got := s.claimedOf(c.leaf); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if err := s.kinds[across.gateways].Delete(c.gateway); err != nil {
			t.Fatal(err)
		}
		if got := s.claimedOf(c.leaf); got != "" && c.leaf == bare {
			t.Errorf("%s, without the Gateway: %q", c.name, got)
		}
	}
}

// TestClaimedBySets: a route of a ListenerSet is one of the Gateway to which that adds its
// listeners, once the Gateway's controller lets it.
func TestClaimedBySets(t *testing.T) {
	gateway := acrossObject(t, "Gateway", "infra", "gw", fmt.Sprintf(acrossGateway, 8080, "192.0.2.1"))
	set := func(to, accepted string) *unstructured.Unstructured {
		return acrossObject(t, "ListenerSet", "infra", "set", fmt.Sprintf(acrossSet, to, 80, accepted, "Unknown"))
	}
	refused := acrossObject(t, "ListenerSet", "infra", "set", fmt.Sprintf(acrossSet, "gw", 80, "True", "False"))
	ofSet := func(namespace, name, hosts string) *unstructured.Unstructured {
		return acrossObject(t, "HTTPRoute", namespace, name, fmt.Sprintf(acrossOfSet, "", hosts))
	}
	of := func(namespace, name string) *unstructured.Unstructured {
		return acrossObject(t, "HTTPRoute", namespace, name, fmt.Sprintf(acrossRoute, "", `"a.example"`))
	}
	ingress := acrossObject(t, "Ingress", "theirs", "x", fmt.Sprintf(acrossIngress, "192.0.2.1"))
	for _, c := range []struct {
		name              string
		leaf, theirs, set *unstructured.Unstructured
		want              string
		alone             string // without the set
	}{
		{"a route of a set of the Gateway", of("shop", "web"), ofSet("theirs", "x", `"a.example"`), set("gw", "True"), acrossListened, ""},
		{"without host names", of("shop", "web"), ofSet("theirs", "x", ""), set("gw", "True"), acrossListened, ""},
		{"by a listener that is refused", of("shop", "web"), ofSet("theirs", "x", ""), refused, "", ""},
		{"a leaf by one that is refused", ofSet("shop", "web", ""), of("theirs", "x"), refused, acrossListened, ""},
		{"a set that is not let", of("shop", "web"), ofSet("theirs", "x", `"a.example"`), set("gw", "False"), "", ""},
		{"a set of which nobody said a word", of("shop", "web"), ofSet("theirs", "x", ""), set("gw", "Unknown"), "", ""},
		{"a set of another Gateway", of("shop", "web"), ofSet("theirs", "x", `"a.example"`), set("other", "True"), "", ""},
		{"a leaf of a set", ofSet("shop", "web", `"a.example"`), of("theirs", "x"), set("gw", "True"), acrossListened, ""},
		{"a leaf of a set of another Gateway", ofSet("shop", "web", `"a.example"`), of("theirs", "x"), set("other", "True"), "", ""},
		{"both of a set", ofSet("shop", "web", `"a.example"`), ofSet("theirs", "x", `"a.example"`), set("gw", "True"), acrossListened, acrossListened},
		{"both without host names", ofSet("shop", "web", ""), ofSet("theirs", "x", ""), set("gw", "True"), acrossListened, ""},
		{"an Ingress at the address", ofSet("shop", "web", `"a.example"`), ingress, set("gw", "True"), "a.example by Ingress theirs/x", ""},
		{"that at the port of the Gateway alone", of("shop", "web"), ingress, set("gw", "True"), "", ""},
	} {
		s := newAcross(t, c.leaf)
		s.hears(t, marked(c.leaf), c.theirs, gateway, c.set)
		if got := s.claimedOf(c.leaf); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if err := s.kinds[across.sets].Delete(c.set); err != nil {
			t.Fatal(err)
		}
		if got := s.claimedOf(c.leaf); got != c.alone {
			t.Errorf("%s, without the set: %q, want %q", c.name, got, c.alone)
		}
		s.hears(t, c.set)
		if err := s.kinds[across.sets].Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
		if got := s.claimedOf(c.leaf); got != c.alone {
			t.Errorf("%s, listed without the set: %q, want %q", c.name, got, c.alone)
		}
		if s.listeners("Gateway infra/gw") == nil {
			t.Errorf("%s: the list of sets took the Gateway away", c.name)
		}
	}
}

// TestAcrossAsFromScratch: whatever was heard before, and in which order, what is told
// follows from what is there.
func TestAcrossAsFromScratch(t *testing.T) {
	told := map[string]bool{}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		one := func(of ...string) string { return of[r.IntN(len(of))] }
		leaves := []*unstructured.Unstructured{
			acrossObject(t, "HTTPRoute", "shop", "named", fmt.Sprintf(acrossRoute, "", `"a.example"`)),
			acrossObject(t, "HTTPRoute", "shop", "bare", fmt.Sprintf(acrossRoute, "", "")),
			acrossObject(t, "HTTPRoute", "shop", "set", fmt.Sprintf(acrossOfSet, "", "")),
			acrossObject(t, "Ingress", "shop", "web", fmt.Sprintf(acrossIngress, "192.0.2.1")),
		}
		s, there := newAcross(t, leaves...), map[string]*unstructured.Unstructured{}
		for _, l := range leaves {
			s.hears(t, marked(l))
		}
		address := func() string { return one("", "192.0.2.1", "192.0.2.2") }
		for range 60 {
			var u *unstructured.Unstructured
			switch r.IntN(6) {
			case 0:
				u = acrossObject(t, "Gateway", "infra", one("gw", "other"), fmt.Sprintf(acrossGateway, []int{80, 8080}[r.IntN(2)], address()))
			case 1:
				u = acrossObject(t, "Ingress", "theirs", one("x", "y"), fmt.Sprintf(acrossIngress, address()))
			case 2:
				u = acrossObject(t, "HTTPRoute", one("theirs", "shop"), "x", fmt.Sprintf(acrossRoute, one("", `, "sectionName": "web"`, `, "port": 80`), one("", `"a.example"`, `"b.example"`))+one("", acrossRefused))
			case 3:
				u = acrossObject(t, "ListenerSet", "infra", "set", fmt.Sprintf(acrossSet, one("gw", "other"), []int{80, 8080}[r.IntN(2)], one("True", "True", "False"), one("True", "Unknown", "False")))
			case 4:
				u = acrossObject(t, "HTTPRoute", one("theirs", "shop"), "y", fmt.Sprintf(acrossOfSet, one("", `, "sectionName": "web"`), one("", `"a.example"`, `"b.example"`)))
			case 5:
				u = marked(acrossObject(t, "Ingress", "shop", "web", fmt.Sprintf(acrossIngress, address())))
			}
			id := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
			if r.IntN(4) == 0 && len(u.GetLabels()) == 0 {
				if there[id] != nil {
					if err := s.kinds[acrossResource(u)].Delete(there[id]); err != nil {
						t.Fatal(err)
					}
					delete(there, id)
				}
				continue
			}
			there[id] = u
			s.hears(t, u)
		}
		fresh := newAcross(t, leaves...)
		for _, l := range leaves {
			fresh.hears(t, marked(l))
		}
		fresh.hears(t, slices.Collect(maps.Values(there))...)
		for _, l := range leaves {
			if got, want := s.claimedOf(l), fresh.claimedOf(l); got != want {
				t.Errorf("seed %d: %s: %q, want %q", seed, l.GetName(), got, want)
			} else if got != "" {
				told[l.GetName()+" "+strings.Fields(got)[2]] = true
			}
		}
		s.mu.Lock()
		fresh.mu.Lock()
		if s.claims.asks != fresh.claims.asks || len(s.claims.others) != len(fresh.claims.others) {
			t.Errorf("seed %d: %d asks are kept, %d from scratch", seed, s.claims.asks, fresh.claims.asks)
		}
		fresh.mu.Unlock()
		s.mu.Unlock()
	}
	if len(told) != 2*4 {
		t.Errorf("claims of some kinds never came: %v", told)
	}
}
