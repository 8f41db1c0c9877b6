package ingest

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// written is a GlobalIngress as we write it.
func written(says model.Global) *v1alpha1.GlobalIngress {
	name, _ := model.GlobalOf(says.Root)
	return &v1alpha1.GlobalIngress{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, UID: "uid", OwnerReferences: []metav1.OwnerReference{GlobalOwner(says.Root, "root")},
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByServe}, Annotations: map[string]string{v1alpha1.AnnotationRootCreated: fmt.Sprint(says.Created)},
		},
		Spec: GlobalSpec(says, "root"),
	}
}

// TestGlobalIngress: what is written is read as it was meant, and what somebody changes
// is seen.
func TestGlobalIngress(t *testing.T) {
	texts := func(list ...string) model.Texts { return model.TextsOf(list) }
	says := model.Global{
		Root: model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "web"}, Created: 7, Hosts: texts("*.shop.example", "shop.example"), Serving: 2, MoreHosts: 1, MoreSites: 2, MoreAddresses: 3,
		Sites: []model.GlobalSite{
			{Name: "ams", Region: "eu", Zone: "a", Located: true, Latitude: 52.37, Longitude: 4.9, Addresses: texts("192.0.2.1", "2001:db8::1"), Health: model.Up, Serving: true, Reason: "Serving", Except: texts("shop.example")},
			{Name: "eu-1", Member: true, Addresses: texts("a.lb.example"), Health: model.Down, Reason: "Gone", Drain: true},
		},
	}
	o := written(says)
	id, seen := GlobalIngress(o)
	if want, _ := model.GlobalOf(says.Root); id != want || !seen.Says.Equal(says) || !seen.Ours || !seen.Exact || seen.RootUID != "root" || seen.UID != "uid" {
		t.Fatalf("%v %+v", id, seen)
	}
	for what, change := range map[string]func(*v1alpha1.GlobalIngress){
		"weight":       func(o *v1alpha1.GlobalIngress) { o.Spec.Sites[0].Weight = 1 },
		"group":        func(o *v1alpha1.GlobalIngress) { o.Spec.RootRef.Group = "x" },
		"uid":          func(o *v1alpha1.GlobalIngress) { o.Spec.RootRef.UID = "x" },
		"address type": func(o *v1alpha1.GlobalIngress) { o.Spec.Sites[0].Addresses[0].Type = v1alpha1.AddressHostname },
		"owner":        func(o *v1alpha1.GlobalIngress) { o.OwnerReferences = nil },
		"created":      func(o *v1alpha1.GlobalIngress) { o.Annotations = nil },
	} {
		o := written(says)
		if change(o); o != nil {
			if _, seen := GlobalIngress(o); seen.Exact {
				t.Errorf("a change of %s is not seen", what)
			}
		}
	}
	o.Labels = nil
	o.DeletionTimestamp = new(metav1.Unix(9, 0))
	if _, seen := GlobalIngress(o); seen.Ours || seen.Leaving != 9 {
		t.Errorf("%+v", seen)
	}
}

// TestGlobalPolicy: who says nothing has GlobalIngresses where members serve.
func TestGlobalPolicy(t *testing.T) {
	for _, c := range []struct {
		plane  v1alpha1.DataPlane
		policy v1alpha1.GlobalIngressPolicy
		want   bool
	}{{"", "", false}, {"Envoy", "", false}, {"Leaf", "", true}, {"Envoy", "Always", true}, {"Leaf", "Never", false}, {"Envoy", "Often", false}} {
		_, spec, _, found := GatewayClassConfig(&v1alpha1.GatewayClassConfig{Spec: v1alpha1.GatewayClassConfigSpec{DataPlane: c.plane, GlobalIngress: c.policy}})
		if spec.Global != c.want || (len(found) > 0) != (c.policy == "Often") {
			t.Errorf("%+v: %t %v", c, spec.Global, found)
		}
	}
}

// TestGlobalNames: no two roots have one GlobalIngress, whose name is always a name.
func TestGlobalNames(t *testing.T) {
	long := strings.Repeat("a", 250)
	names := map[string]model.Object{}
	for _, kind := range append(model.GlobalRootKinds(), "TCPRoute", "Service") {
		for _, name := range []string{"a", "a.b", "ingress.a", "-long.a", "route.a", long, long + "b", long + "c", long[:240] + "." + long[:12]} {
			id, ok := model.GlobalOf(model.Object{Kind: kind, Namespace: "shop", Name: name})
			if ok != (kind != "TCPRoute" && kind != "Service") {
				t.Errorf("%s: %t", kind, ok)
			}
			if !ok {
				continue
			}
			if other, taken := names[id.Name]; taken {
				t.Errorf("%s is of %v and of %s %s", id.Name, other, kind, name)
			}
			names[id.Name] = model.Object{Kind: kind, Name: name}
			if len(id.Name) > 253 || strings.Contains(id.Name, "..") || strings.Contains(id.Name, "-.") {
				t.Errorf("%s is no name", id.Name)
			}
		}
	}
}
