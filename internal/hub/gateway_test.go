package hub

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

const (
	gatewayPath = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/web"
	classPath   = "/apis/gateway.networking.k8s.io/v1/gatewayclasses/spillway"
	routePath   = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web"
	setPath     = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/listenersets/more"
	longAgo     = "2020-01-01T00:00:00Z"
)

var (
	theGateway = model.Object{Kind: "Gateway", Namespace: "shop", Name: "web"}
	theSet     = model.Object{Kind: "ListenerSet", Namespace: "shop", Name: "more"}
	theClass   = model.Object{Kind: "GatewayClass", Name: "spillway"}
	theRoute   = model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "web"}
)

// fromJSON is an object as an API server sends it.
func fromJSON(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// shown are conditions, with their time if it is of long ago.
func shown(conditions any) string {
	var out []string
	list, _ := conditions.([]any)
	for _, c := range list {
		line := fmt.Sprint(at(c.(map[string]any), "type"), "=", at(c.(map[string]any), "status"), "@", at(c.(map[string]any), "observedGeneration"))
		if at(c.(map[string]any), "lastTransitionTime") == longAgo {
			line += " kept"
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

func wants(types ...string) map[string]Condition {
	out := map[string]Condition{}
	for _, t := range types {
		kind, status, _ := strings.Cut(t, "=")
		out[kind] = Condition{Type: kind, Status: status, Reason: "Because"}
	}
	return out
}

// TestGatewayClassStatus: only conditions are ours, each says of which generation
// it is, and nothing else does.
func TestGatewayClassStatus(t *testing.T) {
	f := newFakeHub()
	f.add(classPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"generation": 3}, "status": {
		"supportedFeatures": [{"name": "others"}], "conditions": [
		{"type": "Accepted", "status": "Unknown", "reason": "Pending", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
		{"type": "Other", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`))
	w := run(t, f)
	w.Open()
	want := Status{Generation: 3, Conditions: wants("Accepted=True"), Each: true}
	w.Status(theClass, want)
	eventually.True(t, "status", func() bool {
		return shown(at(f.get(classPath), "status", "conditions")) == "Accepted=True@3, Other=True@<nil> kept"
	})
	got := f.get(classPath)
	if at(got, "status", "observedGeneration") != nil || at(got, "status", "supportedFeatures") == nil || f.applied[classPath]["supportedFeatures"] != nil {
		t.Errorf("%v, applied %v", got["status"], f.applied[classPath])
	}
	if !want.says(unstructuredOf(got)) {
		t.Error("it is written twice")
	}
	older := want
	older.Generation, older.Conditions = 2, wants("Accepted=False")
	if !older.says(unstructuredOf(got)) {
		t.Error("what another serve says of a newer object is written over")
	}
}

// TestGatewayClassFeatures: what a class says that it serves is a sorted list of names.
func TestGatewayClassFeatures(t *testing.T) {
	f := newFakeHub()
	f.add(classPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"generation": 3}, "status": {
		"conditions": [{"type": "Other", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}`))
	w := run(t, f)
	w.Open()
	want := Status{Generation: 3, Conditions: wants("Accepted=True"), Fields: supported, Each: true}
	w.Status(theClass, want)
	eventually.True(t, "features", func() bool { return at(f.get(classPath), "status", "supportedFeatures") != nil })
	got := f.get(classPath)
	list, _ := at(got, "status", "supportedFeatures").([]any)
	if names := model.Features(); len(list) != len(names) || !slices.IsSorted(names) || at(map[string]any{"first": list[0]}, "first", "name") != names[0] {
		t.Errorf("%v", list)
	}
	if !want.says(unstructuredOf(got)) {
		t.Error("it is written twice")
	}
}

// TestGatewayStatus: addresses and listeners are ours; the time of a condition is
// kept while its status is, and a listener that is not there any more goes.
func TestGatewayStatus(t *testing.T) {
	f := newFakeHub()
	f.add(gatewayPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"namespace": "shop", "generation": 2}, "status": {
		"addresses": [{"type": "IPAddress", "value": "192.0.2.9"}],
		"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
			{"type": "Other", "status": "True", "reason": "Other", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}],
		"listeners": [
			{"name": "gone", "supportedKinds": [], "attachedRoutes": 1, "conditions": []},
			{"name": "http", "supportedKinds": [], "attachedRoutes": 1, "conditions": [
				{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"},
				{"type": "Programmed", "status": "False", "reason": "Pending", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}]}}`))
	w := run(t, f)
	w.Open()
	want := gatewayStatus(&leaf.GatewayStatus{Generation: 2, Addresses: []leaf.GatewayAddress{{Value: "192.0.2.1"}, {Value: "2001:db8::1"}, {Value: "lb.example"}}, Conditions: leaf.Conditions{
		{Type: "Accepted", Status: model.Up, Reason: "Accepted"}, {Type: "Programmed", Status: model.Up, Reason: "Programmed"},
	}, Listeners: []leaf.ListenerStatus{{Name: "http", Kinds: model.TextsOf([]string{"HTTPRoute"}), Attached: 4, Conditions: leaf.Conditions{
		{Type: "Accepted", Status: model.Up, Reason: "Accepted"}, {Type: "Conflicted", Status: model.Down, Reason: "NoConflicts"}, {Type: "Programmed", Status: model.Up, Reason: "Programmed"},
	}}}})
	w.Status(theGateway, want)
	eventually.True(t, "status", func() bool {
		list, _ := at(f.get(gatewayPath), "status", "listeners").([]any)
		return len(list) == 1
	})
	got := f.get(gatewayPath)
	listener, _ := at(got, "status", "listeners").([]any)[0].(map[string]any)
	for what, is := range map[string][2]any{
		"conditions":          {shown(at(got, "status", "conditions")), "Accepted=True@2 kept, Other=True@<nil> kept, Programmed=True@2"},
		"addresses":           {fmt.Sprint(at(got, "status", "addresses")), "[map[type:IPAddress value:192.0.2.1] map[type:IPAddress value:2001:db8::1] map[type:Hostname value:lb.example]]"},
		"generation":          {at(got, "status", "observedGeneration"), nil},
		"listener":            {fmt.Sprint(listener["name"], listener["attachedRoutes"], " ", listener["supportedKinds"]), "http4 [map[group:gateway.networking.k8s.io kind:HTTPRoute]]"},
		"listener conditions": {shown(listener["conditions"]), "Accepted=True@2 kept, Programmed=True@2, Conflicted=False@2"},
	} {
		if is[0] != is[1] {
			t.Errorf("%s: %v, want %v", what, is[0], is[1])
		}
	}
	if !want.says(unstructuredOf(got)) {
		t.Error("it is written twice")
	}
	seenAgain(t, f, w)
}

// seenAgain: a Gateway that says what it should is not asked for; one whose status
// somebody changed is put right.
func seenAgain(t *testing.T, f *fakeHub, w *Writer) {
	t.Helper()
	read := func() *gatewayv1.Gateway {
		var o gatewayv1.Gateway
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(f.get(gatewayPath), &o); err != nil {
			t.Fatal(err)
		}
		return &o
	}
	eventually.True(t, "at rest", func() bool { return w.Waiting() == 0 && w.lately(job{conditions, theGateway}) })
	w.Seen(theGateway, read())
	if n := w.Waiting(); n != 0 {
		t.Errorf("%d pieces of work for a status that is right", n)
	}
	o := read()
	o.Status.Listeners[0].AttachedRoutes = 7
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	f.add(gatewayPath, fromJSON(t, string(data)))
	w.Seen(theGateway, read())
	eventually.True(t, "put right", func() bool { return read().Status.Listeners[0].AttachedRoutes == 4 })
}

// TestGatewayAddressesAreBounded: the API takes 16.
func TestGatewayAddressesAreBounded(t *testing.T) {
	many := make([]leaf.GatewayAddress, 40)
	for i := range many {
		many[i].Value = fmt.Sprintf("192.0.2.%d", i)
	}
	if n := len(gatewayAddresses(many, false).([]any)); n != maxAddresses || gatewayAddresses(nil, true) != nil {
		t.Errorf("%d of 40 addresses", n)
	}
}

// TestRoutabilityIsSaidWhereItCanBe: each address has one where the hub's definition has
// the field, an empty one, too; elsewhere none has.
func TestRoutabilityIsSaidWhereItCanBe(t *testing.T) {
	list := []leaf.GatewayAddress{{Value: "10.96.0.7", Scope: model.ClusterScope}, {Value: "192.0.2.1"}}
	for scoped, want := range map[bool]string{
		false: "[map[type:IPAddress value:10.96.0.7] map[type:IPAddress value:192.0.2.1]]",
		true:  "[map[routability:Cluster type:IPAddress value:10.96.0.7] map[routability: type:IPAddress value:192.0.2.1]]",
	} {
		if got := fmt.Sprint(gatewayAddresses(list, scoped)); got != want {
			t.Errorf("scoped %v: %s, want %s", scoped, got, want)
		}
	}
}

func parentStatus(name string, conditions ...model.StatedCondition) model.ParentStatus {
	return model.ParentStatus{Parent: model.Parent{Group: model.GatewayGroup, Kind: "Gateway", Name: name}, Conditions: conditions}
}

func statedOf(kind, status string) model.StatedCondition {
	return model.StatedCondition{Type: kind, Status: status, Reason: "Because", Generation: 2}
}

// parentsShown are entries of status.parents: who, of what, and what.
func parentsShown(f *fakeHub) string {
	var out []string
	list, _ := at(f.get(routePath), "status", "parents").([]any)
	for _, e := range list {
		m := e.(map[string]any)
		_, who, _ := strings.Cut(fmt.Sprint(m["controllerName"]), "/")
		out = append(out, fmt.Sprintf("%s of %v: %s", who, at(m, "parentRef", "name"), shown(m["conditions"])))
	}
	return strings.Join(out, "; ")
}

const said2 = `{"parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}, "controllerName": "spillway.dev/gateway", "conditions": [
	{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": 1},
	{"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": 1}]}`

const others = `{"parentRef": {"name": "web"}, "controllerName": "example.org/other", "new": {"field": 1}, "conditions": [
	{"type": "Accepted", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}`

func routeWith(t *testing.T, parents ...string) map[string]any {
	return fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"namespace": "shop", "generation": 2}, "status": {"parents": [`+
		strings.Join(parents, ", ")+`]}}`)
}

// TestRouteParents: what others say of a route stays as it is, also what they say
// while we write; ours is replaced, times are kept with a status.
func TestRouteParents(t *testing.T) {
	f := newFakeHub()
	f.add(routePath, routeWith(t, said2, others))
	f.fail = []int{500}
	reads := 0
	f.meddle = func(path string) {
		if reads++; reads == 2 { // after what is about to be written was read
			o := copied(f.objects[path]).(map[string]any)
			list := at(o, "status", "parents").([]any)
			o["status"] = map[string]any{"parents": append(list, map[string]any{"controllerName": "example.org/late", "parentRef": map[string]any{"name": "b"}})}
			f.put(path, o)
		}
	}
	w := run(t, f)
	w.Open()
	want := []model.ParentStatus{
		parentStatus("web", statedOf("Accepted", "True"), statedOf("ResolvedRefs", "False")),
		parentStatus("more", statedOf("Accepted", "True")),
	}
	w.Parents(theRoute, want)
	const all = "other of web: Accepted=True@<nil> kept; late of b: ; gateway of web: Accepted=True@2 kept, ResolvedRefs=False@2; gateway of more: Accepted=True@2"
	eventually.True(t, "parents", func() bool { return parentsShown(f) == all })
	if at(f.get(routePath), "status", "parents").([]any)[0].(map[string]any)["new"] == nil {
		t.Error("a field that we don't know is lost")
	}
	if !(said{listOf("HTTPRoute"), want}).says(unstructuredOf(f.get(routePath))) {
		t.Error("it is written twice")
	}
	older := []model.ParentStatus{parentStatus("web", model.StatedCondition{Type: "Accepted", Status: "False", Generation: 1})}
	if !(said{listOf("HTTPRoute"), older}).says(unstructuredOf(f.get(routePath))) {
		t.Error("what another serve says of a newer route is written over")
	}
	sent := f.sent()
	w.Parents(theRoute, want)
	w.Parents(theRoute, nil)
	eventually.True(t, "ours are gone", func() bool { return parentsShown(f) == "other of web: Accepted=True@<nil> kept; late of b: " })
	if n := f.sent() - sent; n != 1 {
		t.Errorf("%d writes to take them out", n)
	}
}

// TestPolicyAncestors: what is said of a policy is a list of the same kind, under
// other names.
func TestPolicyAncestors(t *testing.T) {
	const path = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/backendtlspolicies/web"
	f := newFakeHub()
	f.add(path, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": {"namespace": "shop", "generation": 2}, "status": {"ancestors": [
		{"ancestorRef": {"name": "web"}, "controllerName": "example.org/other", "conditions": []},
		`+strings.ReplaceAll(said2, "parentRef", "ancestorRef")+`]}}`))
	w := run(t, f)
	w.Open()
	o := model.Object{Kind: "BackendTLSPolicy", Namespace: "shop", Name: "web"}
	want := []model.ParentStatus{parentStatus("web", statedOf("Accepted", "False"), statedOf("ResolvedRefs", "True"))}
	w.Parents(o, want)
	shownNow := func() string {
		var out []string
		list, _ := at(f.get(path), "status", "ancestors").([]any)
		for _, e := range list {
			m := e.(map[string]any)
			out = append(out, fmt.Sprint(m["controllerName"], " of ", at(m, "ancestorRef", "name"), m["parentRef"], ": ", shown(m["conditions"])))
		}
		return strings.Join(out, "; ")
	}
	eventually.True(t, "ancestors", func() bool {
		return shownNow() == "example.org/other of web<nil>: ; spillway.dev/gateway of web<nil>: Accepted=False@2, ResolvedRefs=True@2 kept"
	})
	if !(said{listOf(o.Kind), want}).says(unstructuredOf(f.get(path))) {
		t.Error("it is written twice")
	}
	w.Parents(o, nil)
	eventually.True(t, "ours are gone", func() bool { return shownNow() == "example.org/other of web<nil>: " })
}

// TestRouteParentsAreBounded: the API takes 32, of all controllers.
func TestRouteParentsAreBounded(t *testing.T) {
	f := newFakeHub()
	foreign := make([]string, 31)
	for i := range foreign {
		foreign[i] = others
	}
	f.add(routePath, routeWith(t, foreign...))
	want := said{listOf("HTTPRoute"), []model.ParentStatus{parentStatus("a", statedOf("Accepted", "True")), parentStatus("b", statedOf("Accepted", "True"))}}
	w := run(t, f)
	w.Open()
	w.Parents(theRoute, want.parents)
	eventually.True(t, "parents", func() bool { return strings.HasSuffix(parentsShown(f), "gateway of a: Accepted=True@2") })
	if !want.says(unstructuredOf(f.get(routePath))) {
		t.Error("it is written twice")
	}
}

// gateways is a process that serves the Gateway web at the edge fra.
type gateways struct {
	f *fakeHub
	w *Writer
	g *inc.Graph
	p *fleet.Program
}

func startGateways(t *testing.T, f *fakeHub) *gateways {
	x := &gateways{f: f, w: run(t, f), g: inc.New()}
	x.p = fleet.Declare(x.g)
	Follow(x.w, leaf.Declare(x.g, x.p, leaf.Outputs{}))
	x.g.Commit(func(tx *inc.Tx) {
		x.p.In.Edges.Set(tx, "fra", model.EdgeSpec{Networks: []string{"default"}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
		x.p.In.Streams.Set(tx, "fra", model.Streams{Connected: 1, Synced: 1})
	})
	x.read(t)
	x.w.Open()
	return x
}

// read takes what the hub has, as a watch brings it.
func (x *gateways) read(t *testing.T) {
	t.Helper()
	var class gatewayv1.GatewayClass
	var gw gatewayv1.Gateway
	var route gatewayv1.HTTPRoute
	var set gatewayv1.ListenerSet
	for path, into := range map[string]any{classPath: &class, gatewayPath: &gw, routePath: &route, setPath: &set} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(x.f.get(path), into); err != nil {
			t.Fatal(err)
		}
	}
	x.g.Commit(func(tx *inc.Tx) {
		if k, v, ok, _ := ingest.GatewayClass(&class); ok {
			x.p.In.GatewayClasses.Set(tx, k, v)
		} else {
			x.p.In.GatewayClasses.Delete(tx, k)
		}
		k, v, _ := ingest.Gateway(&gw)
		x.p.In.Gateways.Set(tx, k, v)
		if set.Name != "" {
			k, v, _ := ingest.ListenerSet(&set)
			x.p.In.ListenerSets.Set(tx, k, v)
		}
		id, root, rules, _ := ingest.HTTPRoute(&route)
		x.p.In.Roots.Set(tx, id, root)
		for _, of := range rules {
			x.p.In.Rules.Set(tx, model.RulesID{Root: id, Host: of.Host}, of.Rules)
		}
	})
	x.w.Seen(theClass, &class)
	x.w.Seen(theGateway, &gw)
	if set.Name != "" {
		x.w.Seen(theSet, &set)
	}
}

// TestListenerSet: it gets a status as a Gateway does, and is counted there while the
// Gateway lets it; the count is written only where ListenerSets may attach, since an
// older definition of Gateways has no such field.
func TestListenerSet(t *testing.T) {
	f := newFakeHub()
	f.add(classPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"generation": 1}, "spec": {"controllerName": "spillway.dev/gateway"}}`))
	gateway := fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"namespace": "shop", "generation": 1},
		"spec": {"gatewayClassName": "spillway", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}], "allowedListeners": {"namespaces": {"from": "All"}}}}`)
	f.add(gatewayPath, gateway)
	f.add(setPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": {"namespace": "shop", "generation": 3},
		"spec": {"parentRef": {"name": "web"}, "listeners": [{"name": "more", "port": 80, "protocol": "HTTP", "hostname": "more.example"}]}}`))
	route := routeWith(t, others)
	route["spec"] = fromJSON(t, `{"parentRefs": [{"kind": "ListenerSet", "name": "more", "sectionName": "more"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}`)
	f.add(routePath, route)
	x := startGateways(t, f)
	says := func(path, want string) func() bool {
		return func() bool { return shown(at(f.get(path), "status", "conditions")) == want }
	}
	eventually.True(t, "the set", says(setPath, "Accepted=True@3, Programmed=False@3"))
	list, _ := at(f.get(setPath), "status", "listeners").([]any)
	if len(list) != 1 {
		t.Fatalf("listeners %v", list)
	}
	l := list[0].(map[string]any)
	if got := fmt.Sprint(l["name"], " ", l["attachedRoutes"], " ", shown(l["conditions"])); got != "more 1 Accepted=True@3, Conflicted=False@3, Programmed=False@3, ResolvedRefs=True@3" {
		t.Errorf("listener: %s", got)
	}
	eventually.True(t, "it is counted", func() bool { return fmt.Sprint(at(f.get(gatewayPath), "status", "attachedListenerSets")) == "1" })
	eventually.True(t, "the route", func() bool {
		return parentsShown(f) == "other of web: Accepted=True@<nil> kept; gateway of more: Accepted=True@2, ResolvedRefs=False@2"
	})
	x.read(t)
	eventually.True(t, "at rest", func() bool { return x.w.Waiting() == 0 && x.w.lately(job{conditions, theSet}) })
	sent := f.sent()
	again := startGateways(t, f)
	again.read(t)
	eventually.True(t, "at rest again", func() bool { return again.w.Waiting() == 0 && again.w.lately(job{conditions, theSet}) })
	if n := f.sent() - sent; n != 0 {
		t.Errorf("%d writes of what is there", n)
	}
	changed := f.get(gatewayPath)
	delete(changed["spec"].(map[string]any), "allowedListeners")
	f.add(gatewayPath, changed)
	again.read(t)
	eventually.True(t, "not allowed", says(setPath, "Accepted=False@3, Programmed=False@3"))
	eventually.True(t, "no count", func() bool { return at(f.get(gatewayPath), "status", "attachedListenerSets") == nil })
}

// TestGatewayRestart: a class, a Gateway and a route get their statuses; a process
// that is started anew, or reads what it wrote, writes nothing. When the class is
// another controller's, our entries of the route go.
func TestGatewayRestart(t *testing.T) {
	f := newFakeHub()
	f.add(classPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"generation": 1}, "spec": {"controllerName": "spillway.dev/gateway"}}`))
	f.add(gatewayPath, fromJSON(t, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"namespace": "shop", "generation": 1},
		"spec": {"gatewayClassName": "spillway", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}}`))
	route := routeWith(t, others)
	route["spec"] = fromJSON(t, `{"parentRefs": [{"name": "web"}], "hostnames": ["shop.example"], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}`)
	f.add(routePath, route)
	x := startGateways(t, f)
	const both = "other of web: Accepted=True@<nil> kept; gateway of web: Accepted=True@2, ResolvedRefs=False@2"
	eventually.True(t, "the class", func() bool { return shown(at(f.get(classPath), "status", "conditions")) == "Accepted=True@1" })
	eventually.True(t, "the Gateway", func() bool { return at(f.get(gatewayPath), "status", "listeners") != nil })
	eventually.True(t, "the route", func() bool { return parentsShown(f) == both })
	before := map[string]map[string]any{}
	for _, p := range []string{classPath, gatewayPath, routePath} {
		before[p] = f.get(p)
	}
	x.read(t)
	if w := x.w.wanted(job{parents, theRoute}); w != nil {
		t.Error("what it says is wanted still")
	}
	again := startGateways(t, f)
	again.read(t)
	eventually.True(t, "at rest", func() bool {
		return again.w.Waiting() == 0 && again.w.lately(job{conditions, theGateway}) && again.w.lately(job{conditions, theClass})
	})
	for p, o := range before {
		if !maps.EqualFunc(o, f.get(p), func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%s was written again:\n%v\nwas\n%v", p, f.get(p), o)
		}
	}
	class := f.get(classPath)
	class["spec"] = map[string]any{"controllerName": "example.org/other"}
	f.add(classPath, class)
	x.read(t)
	eventually.True(t, "our entries go", func() bool { return parentsShown(f) == "other of web: Accepted=True@<nil> kept" })
}
