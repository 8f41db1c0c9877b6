package syncer

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/syncer/syncertest"
)

// claiming has ConfigMaps ask for hosts: {"asks": "a /,b /x", "class": "…"}.
var claiming = map[schema.GroupVersionResource]Claims{configMaps: {Among: "test", Of: func(o map[string]any) ingest.Asking {
	u := unstructured.Unstructured{Object: o}
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	out := ingest.Asking{Class: data["class"]}
	if data["asks"] != "" {
		out.Asks = strings.Split(data["asks"], ",")
	}
	slices.Sort(out.Asks)
	return out
}}}

// claimer makes an object of somebody else's, in a namespace.
func (m *member) claimer(namespace, name, class, asks string) {
	m.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"class": class, "asks": asks}}}
	o.SetNamespace(namespace)
	o.SetName(name)
	if _, err := m.admin.Resource(configMaps).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) asker(name, class, asks string) (Key, *Leaf) {
	return m.configMap(name, map[string]any{"class": class, "asks": asks})
}

// claimedBy is what is told of who else asks for hosts of a leaf.
func (r *run) claimedBy(k Key) string {
	time.Sleep(3 * time.Second)
	s := r.state(k)
	out := make([]string, len(s.Claimed))
	for i, c := range s.Claimed {
		out[i] = fmt.Sprintf("%s by %s %s/%s", c.Host, c.Kind, c.Namespace, c.Name)
	}
	if s.Unclear {
		out = append(out, "unclear")
	}
	return strings.Join(out, ", ")
}

// TestClaimed: objects that are not ours and ask for a host of a leaf are told, whoever
// came first, until they do not any more.
func TestClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		m.claims = claiming
		m.claimer("theirs", "older", "nginx", "a /x")
		m.claimer("theirs", "other-class", "haproxy", "a /")
		r := m.run(nil, configMaps)
		key, leaf := m.asker("a", "nginx", "a /,b /")
		r.Want(key, leaf)
		r.Complete()
		check := func(when, want string) {
			t.Helper()
			if got := r.claimedBy(key); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		check("an older one", "a by ConfigMap theirs/older")
		m.claimer("aaa", "later", "nginx", "b /")
		check("one more", "a by ConfigMap theirs/older, b by ConfigMap aaa/later")
		m.claimer(m.namespace, "solver", "nginx", "c /")
		m.patch(m.key(configMaps, "solver"), `{"data":{"asks":"a /challenge,b /challenge"}}`)
		if err := m.admin.Resource(configMaps).Namespace("aaa").Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		check("another path in the namespace of the leaf", "a by ConfigMap theirs/older")
		m.patch(m.key(configMaps, "solver"), `{"data":{"asks":"b /"}}`)
		check("the same path there", "a by ConfigMap theirs/older, b by ConfigMap "+m.namespace+"/solver")
		f.Cut(true)
		check("after another list", "a by ConfigMap theirs/older, b by ConfigMap "+m.namespace+"/solver")
		m.patch(m.key(configMaps, "solver"), `{"metadata":{"labels":{"`+v1alpha1.LabelHub+`":"another"}}}`)
		check("another hub's", "a by ConfigMap theirs/older, b by ConfigMap "+m.namespace+"/solver")
		_, fewer := m.asker("a", "nginx", "b /")
		r.Want(key, fewer)
		check("the leaf has the host no more", "b by ConfigMap "+m.namespace+"/solver")
		r.Want(key, leaf)
		check("and again", "a by ConfigMap theirs/older, b by ConfigMap "+m.namespace+"/solver")
		m.patch(m.key(configMaps, "solver"), `{"metadata":{"labels":{"`+v1alpha1.LabelHub+`":"`+m.hub+`"}}}`)
		check("it has our mark, and goes", "a by ConfigMap theirs/older")
		if m.get(m.key(configMaps, "solver")) != nil {
			t.Error("what has our mark and is not wanted is there yet")
		}
	})
}

// TestClaimedNotKnown: before the list nothing is known of who claims what.
func TestClaimedNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		m.claims = claiming
		m.claimer("theirs", "x", "nginx", "a /")
		f.Answer = func(q *http.Request) int {
			if strings.HasSuffix(q.URL.Path, "/configmaps") {
				return http.StatusForbidden
			}
			return 0
		}
		r := m.run(nil, configMaps)
		key, leaf := m.asker("a", "nginx", "a /")
		r.Want(key, leaf)
		if got := r.claimedBy(key); got != "unclear" {
			t.Errorf("not listed: %q", got)
		}
		f.Mu.Lock()
		f.Answer = nil
		f.Mu.Unlock()
		time.Sleep(time.Minute)
		if got := r.claimedBy(key); got != "a by ConfigMap theirs/x" {
			t.Errorf("listed: %q", got)
		}
	})
}

// TestClassOfTheMember: where a leaf names no class, it is of the one that the member puts
// there.
func TestClassOfTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		m.claims = claiming
		m.claimer("theirs", "x", "nginx", "a /")
		r := m.run(nil, configMaps)
		key, leaf := m.asker("a", "", "a /")
		r.Want(key, leaf)
		if got := r.claimedBy(key); got != "" {
			t.Errorf("no class: %q", got)
		}
		unset := leaf.Object.DeepCopy()
		unstructured.RemoveNestedField(unset.Object, "data", "class")
		r.Want(key, &Leaf{Object: unset, Root: leaf.Root})
		time.Sleep(time.Minute)
		m.patch(key, `{"data":{"class":"nginx"}}`)
		if got := r.claimedBy(key); got != "a by ConfigMap theirs/x" {
			t.Errorf("the member's class: %q", got)
		}
	})
}

// TestTooManyClaims: of a member with more hosts than are kept it is said so, and what is
// kept is bounded.
func TestTooManyClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := fakeMember(t)
		m.claims = claiming
		for i := range 3 {
			var asks []string
			for j := range mostAsks/2 - 1 {
				asks = append(asks, fmt.Sprintf("h%d-%d /", i, j))
			}
			m.claimer("theirs", fmt.Sprint("many-", i), "nginx", strings.Join(asks, ","))
		}
		r := m.run(nil, configMaps)
		time.Sleep(time.Minute)
		look := func() (int, bool) {
			s := r.Syncer
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.claims.asks, s.counted.Unread
		}
		if n, unread := look(); n != mostAsks-2 || !unread {
			t.Errorf("%d are kept, and more are there: %v", n, unread)
		}
		if err := m.admin.Resource(configMaps).Namespace("theirs").Delete(t.Context(), "many-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * relist)
		if n, unread := look(); n != mostAsks-2 || unread {
			t.Errorf("%d are kept, and more are there: %v", n, unread)
		}
	})
}

// TestClaimsAsFromScratch: whatever came before, what is told of claims follows from what
// is there.
func TestClaimsAsFromScratch(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			m, f := fakeMember(t)
			m.claims = claiming
			c := &claimHistory{m: m, f: f, rand: rand.New(rand.NewPCG(seed, 7)), wants: map[Key]*Leaf{}}
			c.r = m.run(nil, configMaps)
			for range 60 {
				c.step()
			}
			time.Sleep(10 * time.Minute)
			c.check(t, seed)
		})
	}
}

type claimHistory struct {
	m     *member
	f     *syncertest.API
	r     *run
	rand  *rand.Rand
	wants map[Key]*Leaf
}

func (c *claimHistory) asks() string {
	var out []string
	for _, a := range []string{"a /", "a /x", "b /", "b /x", "*.a /"} {
		if c.rand.IntN(3) == 0 {
			out = append(out, a)
		}
	}
	return strings.Join(out, ",")
}

func (c *claimHistory) class() string { return []string{"nginx", "haproxy"}[c.rand.IntN(2)] }

func (c *claimHistory) step() {
	namespace, name := []string{c.m.namespace, "theirs"}[c.rand.IntN(2)], fmt.Sprint("x-", c.rand.IntN(3))
	in := c.m.admin.Resource(configMaps).Namespace(namespace)
	switch c.rand.IntN(7) {
	case 0, 1:
		if _, err := in.Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			c.m.claimer(namespace, name, c.class(), c.asks())
		}
	case 2:
		_, _ = in.Patch(context.Background(), name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"asks":%q,"class":%q}}`, c.asks(), c.class()), metav1.PatchOptions{FieldManager: "somebody"})
	case 3:
		_ = in.Delete(context.Background(), name, metav1.DeleteOptions{})
	case 4:
		key, leaf := c.m.asker(fmt.Sprint("leaf-", c.rand.IntN(3)), c.class(), c.asks())
		if c.rand.IntN(4) == 0 {
			leaf = nil
		}
		c.wants[key] = leaf
		c.r.Want(key, leaf)
	case 5:
		c.f.Cut(c.rand.IntN(2) == 0)
	case 6:
		time.Sleep(time.Duration(c.rand.IntN(5000)) * time.Millisecond)
	}
}

// check compares what was told with what follows from the store.
func (c *claimHistory) check(t *testing.T, seed uint64) {
	synctest.Wait()
	of, there := claiming[configMaps].Of, c.f.Snapshot()
	for _, key := range slices.SortedFunc(maps.Keys(c.wants), Key.compare) {
		if c.wants[key] == nil {
			continue
		}
		ours := of(c.wants[key].Object.Object)
		by := map[string]string{}
		for _, id := range slices.Sorted(maps.Keys(there)) {
			o := there[id]
			theirs := of(o.Object)
			if o.GetLabels()[v1alpha1.LabelHub] == c.m.hub || theirs.Class != ours.Class {
				continue
			}
			for _, ask := range theirs.Asks {
				h := ingest.HostAsked(ask)
				for _, own := range ours.Asks {
					if clash := ingest.HostAsked(own) == h && (o.GetNamespace() != key.Namespace || own == ask); clash && by[h] == "" {
						by[h] = id
					}
				}
			}
		}
		var want []string
		for _, h := range slices.Sorted(maps.Keys(by)) {
			want = append(want, h+" by ConfigMap "+by[h])
		}
		if got := c.r.claimedBy(key); got != strings.Join(want, ", ") {
			t.Errorf("seed %d: %v: %q, want %q", seed, key, got, want)
		}
	}
}

// TestMarked: one object is enough to know that something of ours is there.
func TestMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := fakeMember(t)
		m.claimer("theirs", "x", "", "")
		look := func(want bool, fails bool) {
			t.Helper()
			if got, err := Marked(t.Context(), m.admin, m.hub, configMaps); got != want || (err != nil) != fails {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
		}
		look(false, false)
		m.marked("y")
		look(true, false)
		code := http.StatusForbidden
		f.Answer = func(*http.Request) int { return code }
		look(false, false)
		code = http.StatusInternalServerError
		look(false, true)
		code = 0
		if got, err := Marked(t.Context(), m.admin, m.hub, ingresses); got || err != nil {
			t.Errorf("a kind that is not there: %v, %v", got, err)
		}
	})
}

// TestClaimedByRoutes: a route contends with those of its Gateway, and of Gateways of the
// same class at the same address.
func TestClaimedByRoutes(t *testing.T) {
	resource := func(plural string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: plural}
	}
	gateways, routes := resource("gateways"), resource("httproutes")
	object := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return u
	}
	gateway := func(name, class, address string) *unstructured.Unstructured {
		return object(fmt.Sprintf(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"namespace": "infra", "name": %q},
"spec": {"gatewayClassName": %q}, "status": {"addresses": [{"value": %q}]}}`, name, class, address))
	}
	route := func(namespace, name, to, path string) *unstructured.Unstructured {
		return object(fmt.Sprintf(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"namespace": %q, "name": %q},
"spec": {"parentRefs": [{"namespace": "infra", "name": %q}], "hostnames": ["A.example"], "rules": [{"matches": [{"path": {"value": %q}}]}]}}`, namespace, name, to, path))
	}
	for _, c := range []struct {
		name   string
		theirs *unstructured.Unstructured
		others []*unstructured.Unstructured // Gateways
		want   bool
	}{
		{"the same Gateway", route("theirs", "x", "gw", "/x"), nil, true},
		{"the same Gateway and namespace, another path", route("shop", "x", "gw", "/x"), nil, false},
		{"the same Gateway, namespace and path", route("shop", "x", "gw", "/"), nil, true},
		{"a Gateway of which nothing is known", route("theirs", "x", "other", "/"), nil, false},
		{"a Gateway at the same address", route("theirs", "x", "other", "/"), []*unstructured.Unstructured{gateway("other", "contour", "192.0.2.1")}, true},
		{"a Gateway at another address", route("theirs", "x", "other", "/"), []*unstructured.Unstructured{gateway("other", "contour", "192.0.2.2")}, false},
		{"a Gateway of another class", route("theirs", "x", "other", "/"), []*unstructured.Unstructured{gateway("other", "cilium", "192.0.2.1")}, false},
	} {
		s, err := New(Options{Hub: "hub", Kinds: []schema.GroupVersionResource{gateways, routes}, Claims: map[schema.GroupVersionResource]Claims{
			gateways: {Of: ingest.GatewayAsking, Among: "routes", Fronts: "Gateway"}, routes: {Of: ingest.RouteAsking, Among: "routes"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		key := Key{routes, "shop", "web"}
		ours := route("shop", "web", "gw", "/")
		s.Want(key, &Leaf{Object: ours, Root: Root{Kind: "HTTPRoute", UID: "x"}})
		for _, err := range []error{s.kinds[gateways].Replace(nil, ""), s.kinds[routes].Replace(nil, "")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		marked := ours.DeepCopy()
		marked.SetLabels(map[string]string{v1alpha1.LabelHub: "hub"})
		for _, err := range []error{s.kinds[routes].Add(marked), s.kinds[routes].Add(c.theirs), s.kinds[gateways].Add(gateway("gw", "contour", "192.0.2.1"))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, gw := range c.others {
			if err := s.kinds[gateways].Add(gw); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		got := s.news[key].Claimed
		s.mu.Unlock()
		if (len(got) > 0) != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		s.queue.ShutDown()
	}
}
