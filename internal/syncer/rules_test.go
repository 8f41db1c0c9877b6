package syncer

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// TestAFieldTakenAway: what is wanted no more goes, what others added stays.
func TestAFieldTakenAway(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	key, leaf := m.configMap("a", map[string]any{"one": "1", "two": "2"})
	r.Want(key, leaf)
	r.there(key)
	m.patch(key, `{"data":{"theirs":"3"},"metadata":{"annotations":{"theirs":"yes"}}}`)
	_, leaf = m.configMap("a", map[string]any{"one": "1"})
	r.Want(key, leaf)
	r.until("the field to go", func() error {
		if got := at(m.get(key), "data"); !reflect.DeepEqual(got, map[string]any{"one": "1", "theirs": "3"}) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	if m.get(key).GetAnnotations()["theirs"] != "yes" {
		t.Error("what another added is gone")
	}
}

var httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}

// TestAnEditWithinAList: defaults that the member sets are no drift, a field that
// somebody adds within a list of ours is.
func TestAnEditWithinAList(t *testing.T) {
	m := realMember(t)
	r := m.run(nil, httpRoutes)
	key := m.key(httpRoutes, "web")
	leaf := m.leaf("web", map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "spec": map[string]any{
		"parentRefs": []any{map[string]any{"name": "local"}},
		"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": "web", "port": 80}}}},
	}})
	r.Want(key, leaf)
	if s := r.there(key); len(s.Altered)+len(s.Dropped) > 0 {
		t.Errorf("told %+v", s)
	}
	r.settle()
	if w := r.writes(); len(w) != 1 {
		t.Errorf("made by %v", w)
	}
	const filter = `"filters":[{"type":"RequestHeaderModifier","requestHeaderModifier":{"remove":["cookie"]}}]`
	m.patch(key, `{"spec":{"rules":[{`+filter+`,"backendRefs":[{"name":"web","port":80}]}]}}`)
	gone := func() error {
		if _, there := at(m.get(key), "spec", "rules").([]any)[0].(map[string]any)["filters"]; there {
			return fmt.Errorf("%v", m.get(key))
		}
		return nil
	}
	r.until("the filter to go", gone)
	r.there(key)
	r.end()

	m.patch(key, `{"spec":{"rules":[{`+filter+`,"backendRefs":[{"name":"web","port":80}]}]}}`) // while nobody looks
	r = m.run(func(r *run) { r.Want(key, leaf) }, httpRoutes)
	r.until("the filter to go, after a start", gone)
	r.there(key)
	if w := r.writes(); len(w) != 1 {
		t.Errorf("put right by %v", w)
	}
}

// TestAFieldGivenBack: what somebody took over and set back is ours again, by
// one write, though its value is as it was.
func TestAFieldGivenBack(t *testing.T) {
	m := realMember(t)
	key, leaf := m.configMap("a", map[string]any{"one": "1", "two": "2"})
	r := m.run(func(r *run) { r.Want(key, leaf) })
	r.there(key)
	r.end()
	m.patch(key, `{"data":{"two":"x"}}`)
	m.patch(key, `{"data":{"two":"2"}}`)
	r = m.run(func(r *run) { r.Want(key, leaf) })
	r.there(key)
	if own := ownership(m.get(key)); below(own, "data")["f:two"] == nil {
		t.Errorf("we own %v", own)
	}
	if w := r.writes(); len(w) != 1 {
		t.Errorf("by %v", w)
	}
}

// TestForeign: an object without our mark is left alone and compared; with
// consent, and after the comparison was told, it is taken over as it is, and released so.
func TestForeign(t *testing.T) {
	m := realMember(t)
	key, leaf := m.ingress("web", "/")
	theirs := leaf.Object.DeepCopy()
	theirs.SetLabels(map[string]string{"app": "shop"})
	if err := unstructured.SetNestedField(theirs.Object, "theirs", "spec", "ingressClassName"); err != nil {
		t.Fatal(err)
	}
	before := m.create(ingresses, theirs)

	r := m.run(nil)
	r.Want(key, leaf)
	r.Complete()
	if s := r.await(key, Foreign); !slices.Equal(s.Diff, []string{".spec.ingressClassName"}) {
		t.Errorf("diff %v", s.Diff)
	}
	r.settle()
	if w, have := r.writes(), m.get(key); len(w) > 0 || have.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("a foreign object was written: %v", w)
	}

	adopt := *leaf
	adopt.Adopt = true
	r.Want(key, &adopt)
	r.there(key)
	have := m.get(key)
	if have.GetUID() != before.GetUID() || at(have, "spec", "ingressClassName") != "local" || have.GetLabels()["app"] != "shop" {
		t.Errorf("adopted: %v", have)
	}
	r.mu.Lock()
	told := r.all[key]
	r.mu.Unlock()
	if i := slices.IndexFunc(told, func(s State) bool { return s.Reason == Applied }); i < 1 || told[i-1].Reason != Foreign || len(told[i-1].Diff) != 1 {
		t.Errorf("told in order: %+v", told)
	}
	if w := r.writes(); len(w) != 1 {
		t.Errorf("adopted by %v", w)
	}

	r.Release(key)
	r.await(key, Released)
	have = m.get(key)
	if have.GetUID() != before.GetUID() || at(have, "spec", "ingressClassName") != "local" || len(pathsOf(have)) != 1 {
		t.Errorf("released: %v", have)
	}
	for _, e := range have.GetManagedFields() {
		if e.Manager == v1alpha1.FieldManager {
			t.Errorf("still ours: %v", e)
		}
	}
	if ownerOf(have, m.hub) != foreign || len(have.GetAnnotations()) > 0 {
		t.Errorf("still marked: %v %v", have.GetLabels(), have.GetAnnotations())
	}
	r.settle()
	r.until("it to be forgotten", func() error {
		r.Syncer.mu.Lock()
		defer r.Syncer.mu.Unlock()
		if len(r.leaves) > 0 {
			return fmt.Errorf("%d leaves", len(r.leaves))
		}
		return nil
	})
	if o := m.get(key); o == nil {
		t.Error("released, and deleted")
	}
	// Nobody has to be asked to change it now.
	if _, err := m.in(ingresses).Patch(context.Background(), key.Name, types.ApplyPatchType,
		[]byte(`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"web"},"spec":{"ingressClassName":"other"}}`),
		metav1.PatchOptions{FieldManager: "gitops"}); err != nil {
		t.Error(err)
	}
}

// TestReleaseOfWhatOnlyWeMade: nothing of the object goes with our ownership.
func TestReleaseOfWhatOnlyWeMade(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	key, leaf := m.configMap("a", map[string]any{"one": "1"})
	r.Want(key, leaf)
	r.Complete()
	r.there(key)
	r.Release(key)
	r.await(key, Released)
	if have := m.get(key); have == nil || !reflect.DeepEqual(at(have, "data"), map[string]any{"one": "1"}) || len(have.GetManagedFields()) > 0 || len(have.GetLabels()) > 0 {
		t.Errorf("released: %v", have)
	}
}

// TestAnotherHub: two hubs that want one name do not fight.
func TestAnotherHub(t *testing.T) {
	m := realMember(t)
	other := *m
	other.hub = m.hub + "-b"
	key, leaf := m.configMap("a", map[string]any{"of": "one"})
	r := m.run(nil)
	r.Want(key, leaf)
	r.Complete()
	r.there(key)
	before := m.get(key)
	_, leaf = m.configMap("a", map[string]any{"of": "two"})
	leaf.Adopt = true
	q := other.run(nil)
	q.Want(key, leaf)
	q.Complete()
	if s := q.await(key, OfAnotherHub); !strings.Contains(s.Message, m.hub) || s.UID != "" {
		t.Errorf("told %+v", s)
	}
	q.Want(key, nil)
	q.await(key, Gone)
	if have := m.get(key); have == nil || have.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("touched: %v", have)
	}
	if w := q.writes(); len(w) > 0 {
		t.Errorf("the second hub wrote %v", w)
	}
}

// TestAnObjectThatComesBetween: one that appears after we saw none, and one that
// takes the place of ours, are not written over.
func TestAnObjectThatComesBetween(t *testing.T) {
	m := realMember(t)
	key, leaf := m.configMap("a", map[string]any{"of": "us"})
	theirs := leaf.Object.DeepCopy()
	theirs.Object["data"] = map[string]any{"of": "them"}
	var once sync.Once
	r := m.run(func(r *run) {
		r.before = func(q *http.Request) {
			if q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") == "" {
				once.Do(func() { m.create(configMaps, theirs) })
			}
		}
		r.Want(key, leaf)
	})
	r.await(key, Foreign)
	if got := at(m.get(key), "data", "of"); got != "them" {
		t.Errorf("it is of %v", got)
	}
	m.delete(key)
	r.there(key)

	// Ours is replaced by theirs while we write over ours.
	once = sync.Once{}
	r.end()
	_, leaf = m.configMap("a", map[string]any{"of": "us", "more": "x"})
	var again sync.Once
	r = m.run(func(r *run) {
		r.before = func(q *http.Request) {
			if q.Method == http.MethodPatch && q.URL.Query().Get("dryRun") == "" {
				again.Do(func() {
					m.delete(key)
					m.create(configMaps, theirs)
				})
			}
		}
		r.Want(key, leaf)
	})
	r.await(key, Foreign)
	if got := at(m.get(key), "data", "of"); got != "them" {
		t.Errorf("it is of %v", got)
	}
}

// TestRefused: a refusal is the leaf's own, told in the member's words.
func TestRefused(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	bad, leaf := m.ingress("bad", "nope")
	r.Want(bad, leaf)
	for i := range 20 {
		good, leaf := m.ingress(fmt.Sprintf("good-%d", i), "/")
		r.Want(good, leaf)
	}
	if s := r.await(bad, Refused); !strings.Contains(s.Message, "spec.rules[0].http.paths[0].path") {
		t.Errorf("told %q", s.Message)
	}
	for i := range 20 {
		r.await(m.key(ingresses, fmt.Sprintf("good-%d", i)), Applied)
	}
	_, leaf = m.ingress("bad", "/yes")
	r.Want(bad, leaf) // at once, in spite of its back-off
	r.there(bad)

	nowhere := Key{configMaps, "nowhere", "a"}
	_, leaf = m.configMap("a", nil)
	leaf.Object.SetNamespace("nowhere")
	r.Want(nowhere, leaf)
	if s := r.await(nowhere, Refused); !strings.Contains(s.Message, `namespaces "nowhere" not found`) {
		t.Errorf("told %q", s.Message)
	}
}

// TestBadWants: what can't be a leaf says so, and is not written.
func TestBadWants(t *testing.T) {
	m := realMember(t)
	r := m.run(nil, configMaps)
	key, leaf := m.configMap("a", nil)
	leaf.Root.UID = types.UID(strings.Repeat("x", 64))
	r.Want(key, leaf)
	other, elsewhere := m.configMap("b", nil)
	elsewhere.Object.SetName("c")
	r.Want(other, elsewhere)
	kind, ingress := m.ingress("web", "/")
	r.Want(kind, ingress)
	for k, words := range map[Key]string{key: "can't be a label", other: "the object is", kind: "none of this syncer's"} {
		if s := r.await(k, Refused); !strings.Contains(s.Message, words) {
			t.Errorf("told %q", s.Message)
		}
	}
	r.settle()
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
	if _, err := New(Options{Hub: strings.Repeat("x", 64)}); err == nil {
		t.Error("a hub that can't be a label is taken")
	}
}

// TestDropped: fields that the member's API lacks are told and left out, the
// rest is applied, by one write, and the next syncer writes nothing.
func TestDropped(t *testing.T) {
	m := realMember(t)
	key, leaf := m.ingress("web", "/")
	_ = unstructured.SetNestedField(leaf.Object.Object, "x", "spec", "future")
	rules := at(leaf.Object, "spec", "rules").([]any)
	rules[0].(map[string]any)["later"] = true
	want := []string{".spec.future", ".spec.rules[0].later"}
	for _, when := range []string{"made", "started again"} {
		r := m.run(func(r *run) { r.Want(key, leaf) })
		if s := r.there(key); !slices.Equal(s.Dropped, want) {
			t.Errorf("%s: dropped %v", when, s.Dropped)
		}
		r.settle()
		if w := r.writes(); len(w) != map[string]int{"made": 1}[when] {
			t.Errorf("%s: %v", when, w)
		}
		if when == "made" {
			m.patch(key, `{"metadata":{"labels":{"theirs":"yes"}}}`) // no drift
			r.settle()
			if w := r.writes(); len(w) > 0 {
				t.Errorf("an edit of others' was written over: %v", w)
			}
			m.patch(key, `{"spec":{"ingressClassName":"theirs"}}`)
			r.until("the repair", func() error {
				if got := at(m.get(key), "spec", "ingressClassName"); got != "local" {
					return fmt.Errorf("%v", got)
				}
				return nil
			})
			r.there(key)
		}
		r.end()
	}
}

// widgets is a definition whose kind may come and go, with these fields of a spec.
func widgets(group string, fields ...string) *unstructured.Unstructured {
	known := map[string]any{}
	for _, f := range fields {
		known[f] = map[string]any{"type": "string"}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": known}}},
			}}},
		},
	}}
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestNotServed: a kind that the member lacks is told; it holds no other up, and
// is used when it comes. Fields that its definition lacks are dropped.
func TestNotServed(t *testing.T) {
	m := realMember(t)
	group := m.namespace + ".example"
	kind := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	r := m.run(nil, configMaps, kind)
	key := m.key(kind, "a")
	r.Want(key, m.leaf("a", map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "spec": map[string]any{"old": "1", "new": "2"}}))
	if s := r.await(key, NotServed); !strings.Contains(s.Message, "widgets."+group) {
		t.Errorf("told %q", s.Message)
	}
	r.Want(m.key(kind, "b"), nil)
	r.await(m.key(kind, "b"), Gone)
	other, leaf := m.configMap("a", nil)
	r.Want(other, leaf)
	r.there(other)
	m.create(definitions, widgets(group, "old"))
	if s := r.there(key); !slices.Equal(s.Dropped, []string{".spec.new"}) {
		t.Errorf("dropped %v", s.Dropped)
	}
}

// TestPrune: what has our mark and is not wanted goes, but only when all wants
// are known, and, where it is many, with consent.
func TestPrune(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	var keys []Key
	for i := range 16 {
		key, leaf := m.configMap(fmt.Sprintf("a-%d", i), nil)
		keys = append(keys, key)
		r.Want(key, leaf)
	}
	for _, k := range keys {
		r.there(k)
	}
	r.end()
	foreignKey, foreignLeaf := m.configMap("theirs", nil)
	m.create(configMaps, foreignLeaf.Object)
	_, first := m.configMap("a-0", nil)

	r = m.run(func(r *run) { r.Want(keys[0], first) })
	r.there(keys[0])
	r.Want(keys[1], nil)
	r.settle()
	if w := r.writes(); len(w) > 0 {
		t.Errorf("before all wants are known: %v", w)
	}
	r.Complete()
	for _, k := range keys[1:] {
		if s := r.await(k, Waiting); !strings.Contains(s.Message, "15 of 16") {
			t.Errorf("told %q", s.Message)
		}
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("without consent: %v", w)
	}
	r.Consent()
	for _, k := range keys[1:] {
		r.await(k, Gone)
	}
	r.Want(keys[0], nil) // one alone
	r.await(keys[0], Gone)
	list, err := m.in(configMaps).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o.GetName() != foreignKey.Name && o.GetName() != "kube-root-ca.crt" {
			t.Errorf("left: %s", o.GetName())
		}
	}
	if m.get(foreignKey) == nil {
		t.Error("a foreign object was deleted")
	}
}

// TestAFinalizerHolds: a leaf that is being deleted is told, and comes back if it is wanted.
func TestAFinalizerHolds(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	r.Complete()
	key, leaf := m.configMap("a", nil)
	r.Want(key, leaf)
	uid := r.there(key).UID
	m.patch(key, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	r.Want(key, nil)
	r.await(key, Leaving)
	r.Want(key, leaf)
	r.await(key, Leaving)
	m.patch(key, `{"metadata":{"finalizers":null}}`)
	r.until("another one", func() error {
		if s := r.state(key); s.Reason != Applied || s.UID == uid || s.UID == "" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// TestTheMarkTakenAway: who takes our label away has the object.
func TestTheMarkTakenAway(t *testing.T) {
	m := realMember(t)
	r := m.run(nil)
	key, leaf := m.configMap("a", map[string]any{"of": "us"})
	r.Want(key, leaf)
	r.Complete()
	r.there(key)
	m.patch(key, `{"metadata":{"labels":{"`+v1alpha1.LabelHub+`":null}},"data":{"of":"them"}}`)
	r.await(key, Foreign)
	r.Want(key, nil)
	r.await(key, Gone)
	if have := m.get(key); have == nil || at(have, "data", "of") != "them" {
		t.Errorf("there is %v", have)
	}
}

// TestStaleDelete: a delete is of what was read, and of nothing else.
func TestStaleDelete(t *testing.T) {
	m := realMember(t)
	key, leaf := m.configMap("a", map[string]any{"of": "us"})
	first := m.run(func(r *run) { r.Want(key, leaf) })
	first.there(key)
	first.end()
	theirs := leaf.Object.DeepCopy()
	var once sync.Once
	r := m.run(func(r *run) {
		r.before = func(q *http.Request) {
			if q.Method == http.MethodDelete {
				once.Do(func() {
					m.delete(key)
					m.create(configMaps, theirs)
				})
			}
		}
		r.Complete()
	})
	r.await(key, Gone)
	if have := m.get(key); have == nil || have.GetUID() == "" {
		t.Errorf("what took its place is gone: %v", have)
	}
}

func TestRefusals(t *testing.T) {
	gr := configMaps.GroupResource()
	for err, want := range map[error]bool{
		apierrors.NewForbidden(gr, "a", nil):          true,
		apierrors.NewBadRequest("no"):                 true,
		apierrors.NewTooManyRequests("later", 1):      false,
		apierrors.NewUnauthorized("who"):              false,
		apierrors.NewInternalError(fmt.Errorf("oh")):  false,
		context.DeadlineExceeded:                      false,
		apierrors.NewRequestEntityTooLargeError("no"): true,
	} {
		if refusal(err) != want {
			t.Errorf("%v: refusal is %v", err, !want)
		}
	}
}
