package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func at(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func ingress(name, service string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: at("shop", name), Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: service, Port: networkingv1.ServiceBackendPort{Number: 80},
		}},
	}}
}

func memberCluster(name, secret string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{ObjectMeta: at("", name), Spec: v1alpha1.MemberClusterSpec{
		Connection: v1alpha1.MemberConnection{KubeconfigSecretRef: &v1alpha1.SecretKeyRef{Name: secret}},
		Taints:     []v1alpha1.Taint{},
	}}
}

func kubeconfigSecret(name string, data []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: at("spillway-system", name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"kubeconfig": data}}
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: at("shop", name), Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 80}}}}
}

func slice(name string, addresses ...string) *discoveryv1.EndpointSlice {
	port := int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: at("shop", name+"-1"), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func rootID(name string) model.Object {
	return model.Object{Kind: "Ingress", Namespace: "shop", Name: name}
}

// TestHub: all kinds reach their tables, edits and deletions follow, and Known
// comes when the first lists are in.
func TestHub(t *testing.T) {
	api := newFakeAPI(t)
	api.apply(
		ingress("web", "web"),
		&networkingv1.IngressClass{ObjectMeta: at("", "spillway"), Spec: networkingv1.IngressClassSpec{Controller: v1alpha1.ControllerIngress}},
		&networkingv1.IngressClass{ObjectMeta: at("", "nginx"), Spec: networkingv1.IngressClassSpec{Controller: "nginx"}},
		&corev1.Secret{ObjectMeta: at("shop", "cert"), Type: corev1.SecretTypeTLS},
		&corev1.Secret{ObjectMeta: at("shop", "other"), Type: corev1.SecretTypeOpaque},
		&v1alpha1.GatewayClassConfig{ObjectMeta: at("", "public")},
		&v1alpha1.Edge{ObjectMeta: at("", "fra")},
		&v1alpha1.DNSZone{ObjectMeta: at("dns", "bad")},
		memberCluster("eu-1", "eu-1"),
	)
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	r.ask(func() {
		for table, n := range map[string][2]int{
			"roots": {r.in.Roots.Len(), 1}, "classes": {r.in.Classes.Len(), 1}, "certificates": {r.in.Certificates.Len(), 1},
			"configs": {r.in.Configs.Len(), 1}, "edges": {r.in.Edges.Len(), 1}, "members": {r.in.Members.Len(), 1},
			"zones": {r.in.Zones.Len(), 0}, "problems": {r.in.Problems.Len(), 1},
		} {
			if n[0] != n[1] {
				t.Errorf("%s has %d rows, want %d", table, n[0], n[1])
			}
		}
		if len(get(r.in.Problems, model.Object{Kind: "DNSZone", Namespace: "dns", Name: "bad"})) == 0 {
			t.Error("the bad zone has no finding")
		}
	})
	api.apply(ingress("web", "other"))
	r.await("edit", func() bool {
		d := get(r.in.Roots, rootID("web")).Default
		return d != nil && d.Service().Name() == "other"
	})
	api.remove(ingress("web", ""))
	r.await("deletion", func() bool { return r.in.Roots.Len() == 0 })
	bad := ingress("bad", "Not A Name")
	api.apply(bad)
	r.await("finding", func() bool { return r.in.Problems.Len() == 2 })
	api.apply(ingress("bad", "good"))
	r.await("finding gone", func() bool { return r.in.Problems.Len() == 1 })
}

// TestHubSeen: each object that has a status of ours is told with it, so that one
// which somebody else changed can be put right.
func TestHubSeen(t *testing.T) {
	api := newFakeAPI(t)
	edge := &v1alpha1.Edge{ObjectMeta: at("", "fra"), Status: v1alpha1.EdgeStatus{ObservedGeneration: 1}}
	api.apply(
		&v1alpha1.GatewayClassConfig{ObjectMeta: at("", "public")}, edge, &v1alpha1.DNSZone{ObjectMeta: at("dns", "bad")},
		memberCluster("eu-1", "eu-1"), ingress("web", "web"),
	)
	r := newRig(t, nil).watch(api)
	told := make(chan string, 100)
	r.hub.Seen = func(id model.Object, o metav1.Object) {
		said := int64(0)
		if e, ok := o.(*v1alpha1.Edge); ok {
			said = e.Status.ObservedGeneration
		}
		told <- fmt.Sprint(id.Kind, " ", id.Name, " ", said)
	}
	r.start()
	r.await("known", func() bool { return r.known })
	edge.Status.ObservedGeneration = 2
	api.apply(edge)
	var got []string
	for end := time.After(limit); len(got) < 6; {
		select {
		case s := <-told:
			got = append(got, s)
		case <-end:
			t.Fatalf("told of %q only", got)
		}
	}
	last := got[5]
	slices.Sort(got[:5])
	if s := strings.Join(append(got[:5], last), ","); s != "DNSZone bad 0,Edge fra 1,GatewayClassConfig public 0,Ingress web 0,MemberCluster eu-1 0,Edge fra 2" {
		t.Errorf("told of %s", s)
	}
}

// TestHubCut: a hub that is away keeps its rows; what changed meanwhile is
// found, and only that is put.
func TestHubCut(t *testing.T) {
	api := newFakeAPI(t)
	api.apply(ingress("a", "web"), ingress("b", "web"), ingress("c", "web"))
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	changed := map[model.Object]int{}
	r.ask(func() {
		r.in.Roots.Watch(func(cs []inc.Change[model.Object, model.Root]) {
			for _, c := range cs {
				changed[c.Key]++
			}
		})
	})
	api.do(func() { api.status = 500 })
	api.sever()
	api.do(func() {
		delete(api.objects["ingresses"], name{"shop", "a"})
		b := ingress("b", "other")
		b.ResourceVersion = "150"
		api.objects["ingresses"][name{"shop", "b"}] = b
		api.revision, api.status = 150, 0
	})
	r.await("the difference", func() bool {
		return r.in.Roots.Len() == 2 && get(r.in.Roots, rootID("b")).Default.Service().Name() == "other"
	})
	r.ask(func() {
		if len(changed) != 2 || changed[rootID("c")] != 0 {
			t.Errorf("changed: %v, want a and b", changed)
		}
	})
}

// TestHubUnable: of a server that can't stream lists, what happened while the watch was
// lost is read anew, and not as it was before.
func TestHubUnable(t *testing.T) {
	api := newFakeAPI(t)
	api.unable = true
	api.apply(ingress("kept", "web"), ingress("gone", "web"))
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known && r.in.Roots.Len() == 2 })
	api.do(func() { clear(api.watchers) }) // these hear nothing more
	api.apply(ingress("kept", "other"))
	api.remove(ingress("gone", "web"))
	api.sever()
	r.await("what happened", func() bool {
		return r.in.Roots.Len() == 1 && get(r.in.Roots, rootID("kept")).Default.Service().Name() == "other"
	})
}

// TestHubCheckpoint: rows that only the checkpoint had go with the first list,
// not before; equal ones are not put again.
func TestHubCheckpoint(t *testing.T) {
	api := newFakeAPI(t)
	api.apply(ingress("kept", "web"))
	api.do(func() { api.status = 500 })
	r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		gone := model.Root{Created: 1}
		in.Roots.Set(tx, rootID("gone"), gone)
		in.Problems.Set(tx, rootID("gone"), model.Findings{{Object: rootID("gone")}})
	}).watch(api).start()
	r.ask(func() {
		if r.in.Roots.Len() != 1 || r.known {
			t.Error("the rows of the checkpoint are not there, or the hub counts as known")
		}
	})
	api.do(func() { api.status = 0 })
	r.await("known", func() bool { return r.known })
	r.ask(func() {
		if _, ok := r.in.Roots.Get(nil, rootID("kept")); !ok || r.in.Roots.Len() != 1 || r.in.Problems.Len() != 0 {
			t.Errorf("roots %v, problems %d", r.in.Roots.Keys(), r.in.Problems.Len())
		}
	})
}

// TestHubChanged: another hub, or an older state of it, deletes nothing until
// it is accepted; what it adds is taken.
func TestHubChanged(t *testing.T) {
	t.Parallel() // it waits most of the time
	for what, change := range map[string]func(*fakeAPI){
		"identity": func(f *fakeAPI) { f.uid, f.revision = "two", 1000 },
		"revision": func(f *fakeAPI) { f.revision = 51 },
	} {
		t.Run(what, func(t *testing.T) {
			api := newFakeAPI(t)
			api.apply(ingress("a", "web"), memberCluster("eu-1", "eu-1"))
			r := newRig(t, nil).watch(api).start()
			r.await("known", func() bool { return r.known })
			n := ingress("new", "web")
			n.ResourceVersion = "51"
			api.do(func() {
				api.objects = map[string]map[name]runtime.Object{"ingresses": {{"shop", "new"}: n}}
				change(api)
			})
			api.sever()
			r.await("finding", func() bool { return len(get(r.in.Problems, hubObject)) == 1 })
			r.await("what it adds", func() bool { _, ok := r.in.Roots.Get(nil, rootID("new")); return ok })
			r.ask(func() {
				if r.in.Roots.Len() != 2 || r.in.Members.Len() != 1 || r.hub.State().Frozen == "" {
					t.Errorf("roots %v, members %v, state %+v", r.in.Roots.Keys(), r.in.Members.Keys(), r.hub.State())
				}
			})
			r.hub.Accept()
			r.await("deletions", func() bool { return r.in.Roots.Len() == 1 && r.in.Members.Len() == 0 && r.in.Problems.Len() == 0 })
		})
	}
}

// TestHubChangedMeanwhile: the checkpoint remembers which hub it was.
func TestHubChangedMeanwhile(t *testing.T) {
	for accept, left := range map[bool]int{false: 2, true: 1} {
		api := newFakeAPI(t)
		api.apply(ingress("new", "web"))
		r := newRig(t, func(tx *inc.Tx, in *fleet.Inputs, tables *Tables) {
			in.Roots.Set(tx, rootID("old"), model.Root{Created: 1})
			tables.Identities.Set(tx, "ingresses", Identity{UID: "another", Revision: 5})
		}).watch(api)
		r.hub.AcceptHub = accept
		r.start()
		r.await("known", func() bool { return r.known })
		r.ask(func() {
			if n := r.in.Roots.Len(); n != left || (r.hub.State().Frozen == "") != accept {
				t.Errorf("accept %v: roots %v, state %+v", accept, r.in.Roots.Keys(), r.hub.State())
			}
		})
	}
}

// TestHubState says what is missing and what to do.
func TestHubState(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() { api.status = 403 })
	r := newRig(t, nil).watch(api)
	told := make(chan HubState, 100)
	for _, s := range r.hub.sources {
		s.told = func() { told <- r.hub.State() }
	}
	r.start()
	state := <-told
	for state.Problem == "" { // told first of a kind that the hub may hide: it is no problem
		state = <-told
	}
	if state.Connected || state.Known || len(state.Waiting) == 0 {
		t.Errorf("state %+v", state)
	}
	r.end()
}
