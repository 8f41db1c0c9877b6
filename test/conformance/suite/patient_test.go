package suite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	look     = 20 * time.Millisecond // how often it looks
	patience = time.Minute
)

// patient passes requests on. It lets one for a namespace's pods wait until each Service
// has an endpoint for each of the pods that a Deployment makes for it.
//
// The suite lists pods to wait until they are ready, and the lab's are within
// milliseconds. Such a pod can be ready before the EndpointSlice controller has seen the
// slice that it wrote last, and that controller (kube-controller-manager's own) tries
// again a second later. Tests that ask ten times at once (TCPRouteWeightedRouting) take
// that for a fault of the implementation. A pod of a real cluster takes longer than that
// second.
type patient struct {
	http.RoundTripper
	hub client.Client
}

var podsOf = regexp.MustCompile(`^/api/v1/namespaces/([^/]+)/pods$`)

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if m := podsOf.FindStringSubmatch(r.URL.Path); m != nil && r.Method == http.MethodGet {
		if err := p.await(r.Context(), m[1]); err != nil {
			return nil, err
		}
	}
	return p.RoundTripper.RoundTrip(r)
}

// await returns when nothing is lacking in a namespace.
func (p patient) await(ctx context.Context, namespace string) error {
	lacking := ""
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (_ bool, err error) {
		lacking, err = p.lacking(ctx, namespace)
		return lacking == "", err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", lacking, err)
	}
	return nil
}

// lacking tells of a Service that has fewer endpoints than Deployments have pods for it;
// empty: none.
func (p patient) lacking(ctx context.Context, namespace string) (string, error) {
	var deployments apps.DeploymentList
	var services core.ServiceList
	if err := errors.Join(p.hub.List(ctx, &deployments, client.InNamespace(namespace)), p.hub.List(ctx, &services, client.InNamespace(namespace))); err != nil {
		return "", err
	}
	for _, s := range services.Items {
		want := replicas(&s, deployments.Items)
		if want == 0 {
			continue
		}
		pods, err := p.pods(ctx, &s)
		if err != nil {
			return "", err
		}
		if len(pods) < want {
			return fmt.Sprintf("Service %s/%s has %d endpoints of %d", s.Namespace, s.Name, len(pods), want), nil
		}
	}
	return "", nil
}

// replicas are how many pods Deployments want for a Service.
func replicas(s *core.Service, deployments []apps.Deployment) (n int) {
	if len(s.Spec.Selector) == 0 {
		return 0
	}
	chosen := labels.SelectorFromSet(s.Spec.Selector)
	for _, d := range deployments {
		if d.Namespace == s.Namespace && chosen.Matches(labels.Set(d.Spec.Template.Labels)) {
			n += int(*d.Spec.Replicas)
		}
	}
	return n
}

// pods are those that a Service has ready endpoints of.
func (p patient) pods(ctx context.Context, s *core.Service) (sets.Set[string], error) {
	var slices discovery.EndpointSliceList
	err := p.hub.List(ctx, &slices, client.InNamespace(s.Namespace), client.MatchingLabels{discovery.LabelServiceName: s.Name})
	out := sets.New[string]()
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if e.TargetRef != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
				out.Insert(e.TargetRef.Name)
			}
		}
	}
	return out, err
}
