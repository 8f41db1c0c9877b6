package cluster

import (
	"fmt"
	"testing"

	routev1 "github.com/openshift/api/route/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/pki"
)

// openShiftRoute is a Route that has a certificate in itself, and whom to trust.
func openShiftRoute(t *testing.T, name, host string) *routev1.Route {
	t.Helper()
	leaf := pki.Leaf(host, 0)
	leaf.DNSNames = []string{host}
	p, err := pki.Self(leaf)
	if err != nil {
		t.Fatal(err)
	}
	key, err := p.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	return &routev1.Route{ObjectMeta: at("shop", name), Spec: routev1.RouteSpec{
		Host: host, To: routev1.RouteTargetReference{Kind: "Service", Name: "web"},
		TLS: &routev1.TLSConfig{Termination: routev1.TLSTerminationReencrypt, Certificate: string(p.CertPEM()), Key: string(key), DestinationCACertificate: string(p.CertPEM())},
	}}
}

func openShiftID(name string) model.Object {
	return model.Object{Kind: model.OpenShiftRoute, Namespace: "shop", Name: name}
}

// TestOpenShiftRoutes: what a Route says, and what it has in itself, come, change and go
// together, and nothing of it is a Secret's.
func TestOpenShiftRoutes(t *testing.T) {
	api := newFakeAPI(t)
	route, plain := openShiftRoute(t, "web", "shop.example"), openShiftRoute(t, "plain", "plain.example")
	plain.Spec.TLS = nil
	api.apply(route, plain, ingress("web", "web"))
	r := newRig(t, nil).watch(api).start()
	r.await("known", func() bool { return r.known })
	id := openShiftID("web")
	has := func() string {
		rules := get(r.in.Rules, model.RulesID{Root: id, Host: "shop.example"})
		return fmt.Sprint(r.in.Roots.Len(), len(rules), r.in.Certificates.Keys(), r.in.Bundles.Keys())
	}
	r.ask(func() {
		if got := has(); got != "3 1 [shop/Route.web] [Route shop/web]" {
			t.Errorf("there is %s", got)
		}
	})
	before := get(r.in.Certificates, model.InlineCertificate(id))
	renewed := openShiftRoute(t, "web", "shop.example")
	api.apply(renewed)
	r.await("another key", func() bool {
		now := get(r.in.Certificates, model.InlineCertificate(id))
		return len(now.Key) > 0 && !now.Equal(before)
	})
	renewed.Status.Ingress = []routev1.RouteIngress{{RouterName: v1alpha1.RouterName}}
	api.apply(renewed)
	r.await("what we said", func() bool { return get(r.in.Roots, id).Ours })
	renewed.Spec.TLS.DestinationCACertificate, renewed.Spec.TLS.Key = "", "none"
	api.apply(renewed)
	r.await("nothing to present", func() bool { return has() == "3 0 [] []" && len(get(r.in.Problems, id)) == 1 })
	api.remove(renewed)
	r.await("gone", func() bool { return r.in.Roots.Len() == 2 && r.in.Problems.Len() == 0 })
}

// TestOpenShiftCheckpoint: what a Route had in itself goes with the list of Routes, and
// stays where they are not there yet.
func TestOpenShiftCheckpoint(t *testing.T) {
	id := openShiftID("gone")
	load := func(tx *inc.Tx, in *fleet.Inputs, _ *Tables) {
		in.Roots.Set(tx, id, model.Root{Admit: &model.AdmitSpec{}})
		in.Rules.Set(tx, model.RulesID{Root: id, Host: "shop.example"}, nil)
		in.Certificates.Set(tx, model.InlineCertificate(id), model.Certificate{Problem: "none"})
		in.Certificates.Set(tx, model.SecretID{Namespace: "shop", Name: "gone"}, model.Certificate{Problem: "none"})
		in.Bundles.Set(tx, id, model.Bundle{PEM: "a"})
		in.Problems.Set(tx, id, model.Findings{{Object: id}})
	}
	for lacks, want := range map[string][5]int{"": {}, routev1.GroupName: {1, 1, 1, 1, 1}} {
		api := newFakeAPI(t)
		api.lacks = lacks
		r := newRig(t, load).watch(api).start()
		r.await("known", func() bool { return r.known })
		r.await(fmt.Sprintf("what is left, lacking %q", lacks), func() bool {
			return [5]int{r.in.Roots.Len(), r.in.Rules.Len(), r.in.Certificates.Len(), r.in.Bundles.Len(), r.in.Problems.Len()} == want
		})
		r.stop()
	}
}
