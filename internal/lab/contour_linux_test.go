package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// TestContour runs a member that is apart and has Contour: an Ingress of its class, and its
// Gateway, are served at the member's own address, which they have in their status, and a cut
// of data is one of that.
func TestContour(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server, Contour and Envoy")
	}
	contourFolder(t)
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
	ask := func(ctx context.Context, host string) (user.Reply, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		r := user.Request{Edge: at, URL: "http://" + host + "/", Fresh: true}.Send(ctx)
		var who struct{ Member string }
		if err := json.Unmarshal(r.Body, &who); err != nil || who.Member != "eu-1" {
			return r, fmt.Errorf("status %d, %s: %w", r.Status, r.Body, errors.Join(err, r.Err))
		}
		return r, nil
	}
	answered := func(ctx context.Context) error { _, err := ask(ctx, "web.test"); return err }
	await := func(what string, check func(context.Context) error) {
		t.Helper()
		if err := (eventually.Patience{Most: patience, Poll: pollEvery}).Await(t.Context(), what, check); err != nil {
			t.Fatal(err)
		}
	}
	await("a pod to answer", answered)
	has := func(kind, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			o, err := c.Get(ctx, kind, "web", "web")
			if err != nil {
				return err
			}
			status, _ := json.Marshal(o.Object["status"])
			if !strings.Contains(string(status), want) {
				return fmt.Errorf("it is %s, without %s", status, want)
			}
			return nil
		}
	}
	await("the Ingress's status to have the name", has("Ingress", `{"loadBalancer":{"ingress":[{"hostname":"lb.test"}]}}`))
	for _, o := range webRoute() {
		if err := c.Apply(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	await("the Gateway's status to have the name", has("Gateway", `"addresses":[{"type":"Hostname","value":"lb.test"}]`))
	await("the HTTPRoute to answer", func(ctx context.Context) error {
		r, err := ask(ctx, "route.test")
		if by := r.Header.Get("x-route"); err == nil && by != "web" {
			err = fmt.Errorf("the answer is not of the HTTPRoute: %q", by)
		}
		return err
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

// webRoute is Contour's Gateway with an HTTPRoute to the same pod, for a host of its own and
// with a header that says so.
func webRoute() []object {
	const version = "gateway.networking.k8s.io/v1"
	return []object{
		named(version, "Gateway", "web", "web", spec(object{
			"gatewayClassName": "contour", "listeners": []any{object{"name": "http", "port": 80, "protocol": "HTTP"}},
		})),
		named(version, "HTTPRoute", "web", "web", spec(object{
			"parentRefs": []any{object{"name": "web"}},
			"hostnames":  []any{"route.test"},
			"rules": []any{object{
				"filters":     []any{object{"type": "ResponseHeaderModifier", "responseHeaderModifier": object{"set": []any{object{"name": "x-route", "value": "web"}}}}},
				"backendRefs": []any{object{"name": "web", "port": 80}},
			}},
		})),
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
