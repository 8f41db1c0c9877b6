// Package suite checks what a Gateway API implementation must do that serves the routes of
// a hub from the pods of member clusters. It speaks to the API servers of the hub and of
// the members, and sends requests to the addresses of Gateways: it knows nothing of the
// implementation, and imports nothing of it (docs/multicluster.md).
package suite

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"testing"
)

// version is of what the suite checks: it changes when a test does.
const version = "v0.1.0"

// fewest are the members that all tests can be run with.
const fewest = 2

// Features are what an implementation may have or not. Those with a name of upstream's
// suite mean the same here.
const (
	featureGateway       = "Gateway"
	featureHTTPRoute     = "HTTPRoute"
	featureMethod        = "HTTPRouteMethodMatching"
	featureGrant         = "ReferenceGrant"
	featureService       = "ServiceInMembers"    // a backendRef of kind Service on the hub is for the Services of the members
	featureServiceImport = "ServiceImport"       // a backendRef may be of kind ServiceImport: for what members export
	featureByHand        = "ServiceImportByHand" // a ServiceImport that somebody writes on the hub needs no export
)

// features are all, and usual those that are claimed if nothing is said.
var (
	usual    = []string{featureGateway, featureHTTPRoute, featureMethod, featureGrant, featureService}
	features = append([]string{featureServiceImport, featureByHand}, usual...)
)

// kind is the kind of backendRefs.
type kind string

// The kinds of backends.
const (
	service       kind = "Service"
	serviceImport kind = "ServiceImport"
)

// group is the API group of a kind.
func (k kind) group() string {
	if k == serviceImport {
		return mcsGroup
	}
	return ""
}

// feature is the one that routes need whose backends are of a kind.
func (k kind) feature() string {
	if k == serviceImport {
		return featureServiceImport
	}
	return featureService
}

// test is one test.
type test struct {
	name        string
	description string
	needs       []string // features, beside those of its backends and of HTTPRoutes
	kinds       []kind   // of backends; it is run for each
	run         func(*world)
}

var (
	both    = []kind{service, serviceImport}
	imports = []kind{serviceImport}
)

var all = slices.Concat(placement, failover, precedence, status, weights, ports, grants, exports)

func TestMulticluster(t *testing.T) {
	if opts.hubKubeconfig == "" {
		t.Skip("no -hub KUBECONFIG: nothing to test against (docs/multicluster.md)")
	}
	if err := opts.check(); err != nil {
		t.Fatal(err)
	}
	f, err := openFleet(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	t.Cleanup(func() {
		if err := f.gone(context.Background(), opts.timeout); err != nil {
			t.Error(err)
		}
		if err := r.write(opts.report, f, &opts); err != nil {
			t.Error(err)
		}
	})
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, k := range c.kinds {
				t.Run(string(k), func(t *testing.T) {
					t.Parallel()
					defer r.note(t, c, k, opts.lacks(c.features(k)))
					c.against(t, f, k)
				})
			}
		})
	}
}

// features are all that a test needs.
func (c test) features(k kind) []string {
	return append([]string{featureGateway, featureHTTPRoute, k.feature()}, c.needs...)
}

// against runs a test with namespaces of its own.
func (c test) against(t *testing.T, f *fleet, k kind) {
	if lacks := opts.lacks(c.features(k)); len(lacks) > 0 {
		t.Skipf("it needs %s", strings.Join(lacks, ", "))
	}
	t.Log(c.description)
	w := &world{T: t, fleet: f, options: &opts, kind: k}
	w.namespace = w.newNamespace()
	c.run(w)
}

// TestAllTestsAreDescribed needs no fleet.
func TestAllTestsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.name] || c.name == "" || c.description == "" || len(c.kinds) == 0 || c.run == nil {
			t.Errorf("%q: a test has a name of its own, a description and kinds of backends", c.name)
		}
		seen[c.name] = true
	}
	for name := range maps.Keys(seen) {
		if len("mc-"+strings.ToLower(name)+"-serviceimport-")+suffix > 63 {
			t.Errorf("%s: too long for namespaces", name)
		}
	}
}

const suffix = 6 // letters at the end of a namespace's name

// unique are letters that no other run has.
func unique() string { return strings.ToLower(rand.Text()[:suffix]) }
