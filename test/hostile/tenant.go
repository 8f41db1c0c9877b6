package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// objects is how many the tenant makes.
const objects = 10_000

const tenantName = "hostile"

// tenant writes broken objects on the hub, in a namespace of its own.
type tenant struct {
	hub    *user.Cluster
	server string
	client *http.Client
	last   atomic.Int64 // begun
	made   atomic.Int64
}

// mistake is a kind of broken object.
type mistake struct {
	what, path string
	object     func(i int) object
}

const (
	ingresses = "/apis/networking.k8s.io/v1/namespaces/" + tenantName + "/ingresses"
	secrets   = "/api/v1/namespaces/" + tenantName + "/secrets"
)

// mistakes that a tenant makes, one after another.
var mistakes = []mistake{
	{"a Service that nobody has", ingresses, func(i int) object {
		return tenantIngress(i, tenantHost(i), "/", nil)
	}},
	{"a host and path that somebody else has", ingresses, func(i int) object {
		return tenantIngress(i, fmt.Sprintf("steady-%d.example", i%4), "/", nil)
	}},
	{"a Secret of noise", secrets, func(i int) object {
		return named("v1", "Secret", tenantName, tenantObject(i), object{"type": "kubernetes.io/tls", "stringData": object{"tls.crt": noise(i), "tls.key": noise(i)}})
	}},
	{"a certificate that is noise", ingresses, func(i int) object {
		return tenantIngress(i, tenantHost(i), "/", func(spec object) {
			spec["tls"] = []any{object{"hosts": []any{tenantHost(i)}, "secretName": tenantObject(i - 1)}}
		})
	}},
	{"a path that is no path, and long", ingresses, func(i int) object {
		return tenantIngress(i, tenantHost(i), "/(((["+strings.Repeat("x", 500), nil)
	}},
	{"a backend that is no Service", ingresses, func(i int) object {
		return tenantIngress(i, "*."+tenantHost(i), "/", func(spec object) {
			path := spec["rules"].([]any)[0].(object)["http"].(object)["paths"].([]any)[0].(object)
			path["backend"] = object{"resource": object{"kind": "Bucket", "name": "static"}}
		})
	}},
}

func tenantObject(i int) string { return fmt.Sprintf("broken-%d", i) }
func tenantHost(i int) string   { return fmt.Sprintf("broken-%d.example", i) }

func noise(i int) string { return strings.Repeat(fmt.Sprintf("noise %d ", i), 300) }

func tenantIngress(i int, host, path string, spoil func(spec object)) object {
	backend := object{"service": object{"name": fmt.Sprintf("nobody-%d", i), "port": object{"number": 80}}}
	spec := object{"ingressClassName": "spillway", "rules": []any{object{"host": host, "http": object{
		"paths": []any{object{"path": path, "pathType": "ImplementationSpecific", "backend": backend}},
	}}}}
	if spoil != nil {
		spoil(spec)
	}
	return named("networking.k8s.io/v1", "Ingress", tenantName, tenantObject(i), object{"spec": spec})
}

func newTenant(ctx context.Context, l *lab.Lab) (*tenant, error) {
	hub, err := user.Author{Manager: tenantName, Timeout: patience}.Open("the hub", l.HubKubeconfig())
	if err != nil {
		return nil, err
	}
	config, err := user.Config(l.HubKubeconfig())
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = patience
	t := &tenant{hub: hub, server: config.Host, client: client}
	return t, hub.Apply(ctx, named("v1", "Namespace", "", tenantName, nil))
}

// send writes plainly: what the attackers need of their CPU they lack.
func (t *tenant) send(ctx context.Context, method, path, kind string, body object) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, t.server+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, said)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (a *attackers) create(ctx context.Context, _ int) error {
	t := a.tenant
	i := int(t.last.Add(1)) - 1
	if i >= objects {
		return errNothing
	}
	m := mistakes[i%len(mistakes)]
	err := t.send(ctx, http.MethodPost, m.path, "application/json", m.object(i))
	if t.made.Add(1) == objects {
		fmt.Println(complete)
	}
	return err
}

// edit touches an object that was made: its rules, or the noise.
func (a *attackers) edit(ctx context.Context, n int) error {
	t := a.tenant
	made := int(min(t.last.Load()-1, objects) - 100)
	if made <= 0 {
		return errNothing
	}
	i := rand.IntN(made)
	m := mistakes[i%len(mistakes)]
	change := object{"stringData": object{"tls.crt": noise(n)}}
	if m.path == ingresses {
		change = object{"spec": object{"rules": m.object(i + n*len(mistakes))["spec"].(object)["rules"]}}
	}
	return t.send(ctx, http.MethodPatch, m.path+"/"+tenantObject(i), "application/merge-patch+json", change)
}

// leave deletes all that the tenant made.
func (t *tenant) leave(ctx context.Context) error {
	var errs []error
	for _, kind := range []string{"Ingress", "Secret"} {
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		errs = append(errs, t.hub.Of(kind, tenantName).DeleteCollection(limited, metav1.DeleteOptions{}, metav1.ListOptions{}))
		cancel()
	}
	return errors.Join(errs...)
}
