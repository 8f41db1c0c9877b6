package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/eventually"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

func TestReadyIn(t *testing.T) {
	yes, no, http, https, port := true, false, "http", "https", int32(8080)
	endpoints := []discoveryv1.Endpoint{
		{Addresses: []string{"10.1.1.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
		{Addresses: []string{"10.1.1.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
		{Addresses: []string{"10.1.1.4"}},
	}
	slice := func(family discoveryv1.AddressType, name *string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{AddressType: family, Endpoints: endpoints, Ports: []discoveryv1.EndpointPort{{Name: name, Port: &port}, {Name: name}}}
	}
	got := readyIn([]*discoveryv1.EndpointSlice{
		slice(discoveryv1.AddressTypeIPv4, &http), slice(discoveryv1.AddressTypeIPv4, &https), slice(discoveryv1.AddressTypeIPv4, nil), slice(discoveryv1.AddressTypeIPv6, &http),
	}, "http")
	if want := []netip.AddrPort{netip.MustParseAddrPort("10.1.1.2:8080")}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// contourFolder is Contour as `make tools` builds it, and sets the environment for it and
// for Envoy. Without them the test is skipped by name, and fails in CI.
func contourFolder(t *testing.T) {
	t.Helper()
	for name, path := range map[string]string{"SPILLWAY_CONTOUR": "contour-" + ContourVersion, "SPILLWAY_ENVOY": "envoy"} {
		if os.Getenv(name) != "" {
			continue
		}
		path, err := filepath.Abs(filepath.Join("..", "..", ".tools", path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("no %s: run `make tools`", path)
			}
			t.Skipf("no %s: run `make tools`", path)
		}
		t.Setenv(name, path)
	}
}

// TestContour runs a member that is apart and has Contour: an Ingress of its class is served
// at the member's own address, which it has in its status, and a cut of data is one of that.
func TestContour(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server, Contour and Envoy")
	}
	contourFolder(t)
	const host = "web.test"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Dir: t.TempDir(), Binary: spillway(t), Loopback: somewhere(), XDSPort: 18000, DNSPort: 1053,
		Edges:   []EdgeSpec{{Name: "eu", Place: "fra"}},
		Members: []MemberSpec{{Name: "eu-1", Region: "eu", Contour: true, ContourName: "lb.test", Apart: true, ContourGateway: "web/web"}},
	}
	l := startOrSkip(t, spec)
	c, err := user.Author{Manager: "test", Timeout: patience}.Open("eu-1", l.MemberKubeconfig("eu-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range web() {
		if err := c.Apply(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	at := l.Ingress("eu-1", nil)
	t.Cleanup(at.Close)
	answered := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		r := user.Request{Edge: at, URL: "http://" + host + "/", Fresh: true}.Send(ctx)
		var who struct{ Member string }
		if err := json.Unmarshal(r.Body, &who); err != nil || who.Member != "eu-1" {
			return fmt.Errorf("status %d, %s: %v", r.Status, r.Body, r.Err)
		}
		return nil
	}
	await := func(what string, check func(context.Context) error) {
		t.Helper()
		if err := (eventually.Patience{Most: patience, Poll: pollEvery}).Await(t.Context(), what, check); err != nil {
			t.Fatal(err)
		}
	}
	await("a pod to answer", answered)
	await("the status to have the name", func(ctx context.Context) error {
		o, err := c.Get(ctx, "Ingress", "web", "web")
		if err != nil {
			return err
		}
		status, _ := json.Marshal(o.Object["status"])
		if want := `{"loadBalancer":{"ingress":[{"hostname":"lb.test"}]}}`; string(status) != want {
			return fmt.Errorf("it is %s, not %s", status, want)
		}
		return nil
	})
	pods, err := c.Of("Pod", "web").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(pods, err)
	}
	pod, _, _ := unstructured.NestedString(pods.Items[0].Object, "status", "podIP")
	for url, want := range map[string]bool{
		fmt.Sprintf("http://%s:8080/", l.IngressAddress("eu-1")): true,  // in a place
		fmt.Sprintf("http://%s:8080/", pod):                      false, // nothing else leads there
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		var out bytes.Buffer
		code, err := l.Exec(ctx, "fra", nil, &out, &out, self, "play-get", url)
		cancel()
		if got := err == nil && code == 0 && strings.Contains(out.String(), `"member":"eu-1"`); got != want {
			t.Errorf("%s in a place is answered: %v, want %v: %v, %s", url, got, want, err, &out)
		}
	}
	for _, mode := range []Mode{ModeDrop, ModeRefuse} {
		if err := l.Cut(t.Context(), "eu-1", PartData, mode); err != nil {
			t.Fatal(err)
		}
		if err := answered(t.Context()); err == nil {
			t.Errorf("%s: answered all the same", mode)
		}
		if err := l.Heal(t.Context(), "eu-1"); err != nil {
			t.Fatal(err)
		}
		await("a pod to answer again", answered)
	}
	again, err := Open(t.Context(), l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.IngressAddress("eu-1"), l.IngressAddress("eu-1"); got != want || !got.IsValid() {
		t.Errorf("found again at %s, not %s", got, want)
	}
}

// web is an echo pod, its Service and an Ingress of class contour, for every host.
func web() []object {
	port := object{"name": "http", "port": 80, "targetPort": 8080}
	app := object{"app": "web"}
	return []object{
		named("v1", "Namespace", "", "web", nil),
		named("apps/v1", "Deployment", "web", "web", spec(object{
			"selector": object{"matchLabels": app},
			"template": object{"metadata": object{"labels": app}, "spec": object{"containers": []any{object{"name": "echo", "image": EchoImage}}}},
		})),
		named("v1", "Service", "web", "web", spec(object{"selector": app, "ports": []any{port}})),
		named("networking.k8s.io/v1", "Ingress", "web", "web", spec(object{
			"ingressClassName": "contour",
			"rules": []any{object{"http": object{"paths": []any{object{
				"path": "/", "pathType": "Prefix", "backend": object{"service": object{"name": "web", "port": object{"number": 80}}},
			}}}}},
		})),
	}
}
