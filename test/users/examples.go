package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/pki"
	"github.com/spillway-dev/spillway/test/rig"
	"github.com/spillway-dev/spillway/test/users/example"
)

const (
	exampleFolder  = "examples/gatewayapi"
	routeFolder    = "examples/openshift"
	exampleSpace   = "shop"
	exampleAddress = "192.0.2.80" // that a Gateway asks for (RFC 5737)
	askInPlace     = "ask-in-place"
)

// examples are the files of the folder, with who asks.
type examples struct {
	*world
	trust    map[string]string // certificates of authorities by the ClusterTrustBundles that have them first; exchanged later
	self     string            // this program, which asks from the edge's place: all ports of its addresses are there
	question example.Question
	checked  int
}

// examples applies each file of the folder, and takes it away when all that it says of
// itself holds; then those of the experimental channel, and of Routes of OpenShift, which
// the hub gets for them.
func (w *world) examples(ctx context.Context) error {
	x := &examples{world: w}
	began := time.Now()
	if err := x.prepare(ctx); err != nil {
		return err
	}
	w.said.line("what all share is there after %s", time.Since(began).Round(time.Millisecond))
	standard, err := x.folder(ctx, exampleFolder)
	if err != nil {
		return err
	}
	if err := x.experimental(ctx); err != nil {
		return err
	}
	more, err := x.folder(ctx, filepath.Join(exampleFolder, "experimental"))
	if err != nil {
		return err
	}
	if err := x.openShift(ctx); err != nil {
		return err
	}
	routes, err := x.folder(ctx, routeFolder)
	if err != nil {
		return err
	}
	w.said.line("%d examples with %d expectations held, %s", standard+more+routes, x.checked, time.Since(began).Round(time.Millisecond))
	return nil
}

// folder judges the files of one, and counts them.
func (x *examples) folder(ctx context.Context, name string) (int, error) {
	files, err := filepath.Glob(filepath.Join(name, "*.yaml"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no examples in %s: %w", name, err)
	}
	for _, file := range files {
		if err := x.file(ctx, file); err != nil {
			return 0, err
		}
	}
	return len(files), nil
}

// prepare writes what all files share: that of the folder setup, and what they say is in
// Secrets and ConfigMaps.
func (x *examples) prepare(ctx context.Context) (err error) {
	if x.self, err = os.Executable(); err != nil {
		return err
	}
	if err := x.certificates(ctx); err != nil {
		return err
	}
	for file, c := range map[string]*user.Cluster{"hub": x.Hub, eu1: x.members[eu1], eu2: x.members[eu2]} {
		all, err := rig.Documents(filepath.Join(exampleFolder, "setup", file+".yaml"))
		if err != nil {
			return err
		}
		for _, o := range all {
			if err := x.apply(ctx, c, o); err != nil {
				return err
			}
		}
	}
	for _, d := range []deployment{{eu1, exampleSpace, "web"}, {eu1, exampleSpace, "cart"}, {eu1, exampleSpace, "db"}, {eu1, exampleSpace, "vault"}, {eu1, "infra", "stock"}, {eu2, exampleSpace, "web"}} {
		if err := x.settled(ctx, d); err != nil {
			return err
		}
	}
	return x.pool(ctx)
}

// certificates writes those that the examples name, and keeps those of clients.
func (x *examples) certificates(ctx context.Context) error {
	partners, err := pki.Self(pki.Authority("partners", 48*time.Hour))
	if err != nil {
		return err
	}
	x.question = example.Question{Roots: x.ca.CertPEM(), Clients: map[string][]byte{}}
	for name, by := range map[string]*pki.Pair{"partner": partners, "stranger": x.ca} {
		cert, key, err := signed(by, x509.ExtKeyUsageClientAuth, name)
		if err != nil {
			return err
		}
		x.question.Clients[name] = slices.Concat(cert, key)
	}
	for _, c := range []*user.Cluster{x.Hub, x.members[eu1]} {
		if err := x.apply(ctx, c, namespaceObject(exampleSpace, false)); err != nil {
			return err
		}
	}
	if err := x.identity(ctx, partners); err != nil {
		return err
	}
	x.trust = map[string]string{"partners": string(partners.CertPEM()), "pods": string(x.ca.CertPEM())}
	if err := x.bundles(ctx, false); err != nil {
		return err
	}
	for name, authority := range map[string]*pki.Pair{"partners-ca": partners, "vault-ca": x.ca} {
		if err := x.apply(ctx, x.Hub, named("v1", "ConfigMap", exampleSpace, name, object{"data": object{"ca.crt": string(authority.CertPEM())}})); err != nil {
			return err
		}
	}
	return errors.Join(x.secret(ctx, x.Hub, "shop-cert", "shop.example", "*.shop.example"), x.secret(ctx, x.members[eu1], "vault-tls", "vault.shop.example"))
}

// identity writes the certificate that a Gateway shows to pods.
func (x *examples) identity(ctx context.Context, by *pki.Pair) error {
	cert, key, err := signed(by, x509.ExtKeyUsageClientAuth, "shop-client")
	if err != nil {
		return err
	}
	o := secretObject("shop-client", cert, key)
	o["metadata"] = object{"name": "shop-client", "namespace": exampleSpace}
	return x.apply(ctx, x.Hub, o)
}

// bundles writes the ClusterTrustBundles: as they are first, or each with what the other
// had.
func (x *examples) bundles(ctx context.Context, exchanged bool) error {
	for name, other := range map[string]string{"partners": "pods", "pods": "partners"} {
		pem := x.trust[name]
		if exchanged {
			pem = x.trust[other]
		}
		if err := x.apply(ctx, x.Hub, named("certificates.k8s.io/v1", "ClusterTrustBundle", "", name, object{"spec": object{"trustBundle": pem}})); err != nil {
			return err
		}
	}
	return nil
}

// change makes the change after which other expectations of a file hold, and takes it back
// when they did.
func (x *examples) change(ctx context.Context, file string, objects []object, later []example.Expectation) error {
	if len(later) == 0 {
		return nil
	}
	if err := x.bundles(ctx, true); err != nil {
		return err
	}
	if err := x.hold(ctx, file, objects, later); err != nil {
		return fmt.Errorf("after the change: %w", err)
	}
	return x.bundles(ctx, false)
}

func (x *examples) secret(ctx context.Context, c *user.Cluster, name string, hosts ...string) error {
	cert, key, err := signed(x.ca, x509.ExtKeyUsageServerAuth, hosts...)
	if err != nil {
		return err
	}
	o := secretObject(name, cert, key)
	o["metadata"] = object{"name": name, "namespace": exampleSpace}
	return x.apply(ctx, c, o)
}

func signed(by *pki.Pair, use x509.ExtKeyUsage, names ...string) (cert, key []byte, err error) {
	template := pki.Leaf(names[0], 24*time.Hour, use)
	template.DNSNames = names
	pair, err := by.Sign(template)
	if err != nil {
		return nil, nil, err
	}
	key, err = pair.KeyPEM()
	return pair.CertPEM(), key, err
}

// pool has the last address of the edge, which is for who asks for it, asked for by the
// one that an example names.
func (x *examples) pool(ctx context.Context) error {
	all, err := x.addressPool(ctx)
	if err != nil {
		return err
	}
	last := all[len(all)-1]
	last["bindAddress"], last["address"] = last["address"], exampleAddress
	return x.Hub.Patch(ctx, "Edge", "", edge, object{"spec": object{"addressPool": all}})
}

func (x *examples) addressPool(ctx context.Context) ([]object, error) {
	o, err := x.Hub.Get(ctx, "Edge", "", edge)
	if err != nil {
		return nil, err
	}
	all := entries(o, "spec", "addressPool")
	if len(all) == 0 {
		return nil, errors.New("the edge has no addressPool")
	}
	return all, nil
}

// listens is what the edge's proxy listens on for an address of its pool.
func (x *examples) listens(ctx context.Context, address string) (string, error) {
	all, err := x.addressPool(ctx)
	for _, a := range all {
		if bind, ok := a["bindAddress"].(string); ok && a["address"] == address {
			return bind, err
		}
	}
	return address, err
}

// file has one applied, judged and taken away.
func (x *examples) file(ctx context.Context, file string) error {
	began := time.Now()
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	expected, wrong := example.Read(file, string(text))
	objects, err := rig.Documents(file)
	if err := errors.Join(wrong, err); err != nil {
		return err
	}
	for _, o := range objects {
		if err := x.apply(ctx, x.Hub, o); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	isLater := func(e example.Expectation) bool { return e.Later }
	first := slices.DeleteFunc(slices.Clone(expected), isLater)
	later := slices.DeleteFunc(slices.Clone(expected), func(e example.Expectation) bool { return !isLater(e) })
	if err := x.hold(ctx, file, objects, first); err != nil {
		return err
	}
	if err := x.change(ctx, file, objects, later); err != nil {
		return err
	}
	held := time.Since(began)
	if err := x.remove(ctx, file, objects); err != nil {
		return err
	}
	x.checked += len(expected)
	x.said.line("%s: %d expectations held after %s", filepath.Base(file), len(expected), held.Round(time.Millisecond))
	return nil
}

// hold returns when all expectations of a file do.
func (x *examples) hold(ctx context.Context, file string, objects []object, expected []example.Expectation) error {
	var asked []example.Expectation
	for _, e := range expected {
		if e.Protocol != example.Object {
			asked = append(asked, e)
			continue
		}
		if err := x.status(ctx, objects, e); err != nil {
			return err
		}
	}
	address, err := x.address(ctx, file, objects)
	if err != nil {
		return err
	}
	q := x.question
	q.Address, q.Most, q.All = address, patience.Most, asked
	if err := x.ask(ctx, q); err != nil {
		return err
	}
	for _, e := range asked {
		if err := x.counts(ctx, q, e); err != nil {
			return err
		}
	}
	return nil
}

// status returns when an object's is as expected.
func (x *examples) status(ctx context.Context, objects []object, e example.Expectation) error {
	namespace, err := namespaceOf(objects, e)
	if err != nil {
		return err
	}
	return patience.Await(ctx, e.String(), func(ctx context.Context) error {
		o, err := x.Hub.Get(ctx, e.Kind, namespace, e.Name)
		if err != nil {
			return err
		}
		return statusHolds(o, e)
	})
}

func namespaceOf(objects []object, e example.Expectation) (string, error) {
	for _, o := range objects {
		if u := (&unstructured.Unstructured{Object: o}); u.GetKind() == e.Kind && u.GetName() == e.Name {
			return u.GetNamespace(), nil
		}
	}
	return "", fmt.Errorf("%s: the file has no %s %s", e, e.Kind, e.Name)
}

// statusHolds is nil if an object lists an address, or says a condition of itself or of
// all its parents, by what is there now.
func statusHolds(o *unstructured.Unstructured, e example.Expectation) error {
	if e.At != "" {
		all := entries(o, "status", "addresses")
		if slices.ContainsFunc(all, func(a object) bool { return a["value"] == e.At }) {
			return nil
		}
		return fmt.Errorf("its addresses are %v", all)
	}
	conditions := entries(o, "status", "conditions")
	for _, list := range []string{"parents", "ancestors", "ingress"} {
		for _, p := range entries(o, "status", list) {
			conditions = append(conditions, entries(&unstructured.Unstructured{Object: p}, "conditions")...)
		}
	}
	want, found := map[bool]string{false: "True", true: "False"}[e.Not], false
	for _, c := range conditions {
		if c["type"] != e.Condition {
			continue
		}
		found = true
		current := o.GetKind() == routeKind || fmt.Sprint(c["observedGeneration"]) == fmt.Sprint(o.GetGeneration())
		if c["status"] != want || !current {
			return fmt.Errorf("it is %v of generation %v (%v: %v)", c["status"], c["observedGeneration"], c["reason"], c["message"])
		}
	}
	if !found {
		return errors.New("its status does not say")
	}
	return nil
}

// address is that of the Gateway of a file, when it has one. The edge's class, which serves
// Routes, listens at all of its addresses.
func (x *examples) address(ctx context.Context, file string, objects []object) (out string, err error) {
	i := slices.IndexFunc(objects, func(o object) bool { return o["kind"] == "Gateway" })
	switch {
	case i < 0 && slices.ContainsFunc(objects, func(o object) bool { return o["kind"] == routeKind }):
		return "127.0.0.1", nil
	case i < 0:
		return "", fmt.Errorf("%s has no Gateway, at which it would be asked", file)
	}
	gateway := &unstructured.Unstructured{Object: objects[i]}
	err = patience.Await(ctx, "an address of the Gateway of "+file, func(ctx context.Context) error {
		o, err := x.Hub.Get(ctx, "Gateway", gateway.GetNamespace(), gateway.GetName())
		if err != nil {
			return err
		}
		for _, a := range entries(o, "status", "addresses") {
			if out, err = x.listens(ctx, fmt.Sprint(a["value"])); err == nil && !strings.Contains(out, ":") {
				return nil
			}
		}
		return errors.Join(err, errors.New("its status lists none"))
	})
	return out, err
}

// ask has a question answered from the edge's place.
func (x *examples) ask(ctx context.Context, q example.Question) error {
	in, err := json.Marshal(q)
	if err != nil {
		return err
	}
	var errs bytes.Buffer
	code, err := x.Lab.Exec(ctx, edge, bytes.NewReader(in), nil, &errs, x.self, askInPlace)
	if err == nil && code != 0 {
		err = errors.New(strings.TrimSpace(errs.String()))
	}
	return err
}

// counts returns when a question alone brought as many requests to a Service as expected.
// A copy may come after the answer.
func (x *examples) counts(ctx context.Context, q example.Question, e example.Expectation) error {
	service, want, is := e.Counted()
	if !is {
		return nil
	}
	q.Most, q.All = 0, []example.Expectation{e}
	return patience.Await(ctx, e.String(), func(ctx context.Context) error {
		before, err := x.requests(ctx, service)
		if err != nil {
			return err
		}
		if err := x.ask(ctx, q); err != nil {
			return err
		}
		after, err := x.requests(ctx, service)
		if err == nil && after-before != want {
			err = fmt.Errorf("%s got %d requests", service, after-before)
		}
		return err
	})
}

// requests counts what the edge's Envoy sent to a Service so far.
func (x *examples) requests(ctx context.Context, service string) (sum int, err error) {
	text, err := x.Admin.Page(ctx, x.Lab.AdminAddress(edge), "/stats?filter=upstream_rq_total")
	for _, n := range requestsOf(string(text), "/"+service+"/") {
		sum += n
	}
	return sum, err
}

// remove deletes the objects of a file, and returns when they are gone.
func (x *examples) remove(ctx context.Context, file string, objects []object) error {
	for _, o := range slices.Backward(objects) {
		u := &unstructured.Unstructured{Object: o}
		if err := x.Hub.Delete(ctx, u.GetKind(), u.GetNamespace(), u.GetName()); err != nil {
			return fmt.Errorf("%s: delete %s %s: %w", file, u.GetKind(), u.GetName(), err)
		}
	}
	for _, o := range objects {
		u := &unstructured.Unstructured{Object: o}
		err := patience.Await(ctx, fmt.Sprintf("%s %s of %s to be gone", u.GetKind(), u.GetName(), file), func(ctx context.Context) error {
			_, err := x.Hub.Get(ctx, u.GetKind(), u.GetNamespace(), u.GetName())
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("it is there"))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
