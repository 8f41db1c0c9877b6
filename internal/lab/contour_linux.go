package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"

	"github.com/spillway-dev/spillway/api/gatewayapi"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// startContour has a member run Contour: it opens the member's gate and writes what a
// user would who installs it, and does not wait until it runs.
func (s *supervisor) startContour(ctx context.Context, m *member, client kubernetes.Interface) error {
	g, err := s.openGate(ctx, m, client)
	if err != nil {
		return err
	}
	s.mu.Lock()
	m.gate = g
	s.mu.Unlock()
	c, err := registrar.Open(m.spec.Name, m.api.direct)
	if err != nil {
		return err
	}
	kinds, err := s.contourKinds(m.spec)
	if err != nil {
		return err
	}
	objects, err := contourObjects(contourValues{
		API: netip.AddrPortFrom(g.addr, gateAPI), XDS: netip.AddrPortFrom(g.addr, gateXDS), Gateway: m.spec.gateway(),
	})
	if err != nil {
		return err
	}
	for _, o := range kinds {
		if err := apply(ctx, c, o); err != nil {
			return fmt.Errorf("contour in %s: %w", m.spec.Name, err)
		}
	}
	if err := awaitKinds(ctx, c, kinds); err != nil {
		return err
	}
	for _, o := range objects {
		if err := apply(ctx, c, o); err != nil {
			return fmt.Errorf("contour in %s: %w", m.spec.Name, err)
		}
	}
	return s.balance(ctx, m.spec, client)
}

// contourKinds are the kinds that Contour wants of a cluster, and its accounts and roles.
func (s *supervisor) contourKinds(m MemberSpec) ([]object, error) {
	text, err := os.ReadFile(filepath.Join(s.spec.Contour, contourManifests))
	if err != nil {
		return nil, fmt.Errorf("contour: %w", err)
	}
	out, err := parseObjects(text)
	if err != nil {
		return nil, fmt.Errorf("contour: %s: %w", contourManifests, err)
	}
	if m.gateway() == nil {
		return out, nil
	}
	for _, text := range gatewayapi.Files() {
		more, err := parseObjects(text)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// awaitKinds waits until a member serves them: Contour ends if one is not there.
func awaitKinds(ctx context.Context, c *user.Cluster, objects []object) error {
	for _, o := range objects {
		if o["kind"] != "CustomResourceDefinition" {
			continue
		}
		name := (&unstructured.Unstructured{Object: o}).GetName()
		err := await(ctx, "kind "+name+" in "+c.Name, func(ctx context.Context) error {
			is, err := c.Get(ctx, "CustomResourceDefinition", "", name)
			if err == nil && user.Condition(is, string(apiextensionsv1.Established))["status"] != "True" {
				err = fmt.Errorf("it is not established")
			}
			return err
		}, func() error { return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// balance writes into the Service of Envoy what a cloud would: its address, or its name.
func (s *supervisor) balance(ctx context.Context, m MemberSpec, client kubernetes.Interface) error {
	in := corev1.LoadBalancerIngress{IP: s.spec.published(m)}
	if m.ContourName != "" {
		in = corev1.LoadBalancerIngress{Hostname: m.ContourName}
	}
	patch, err := json.Marshal(object{"status": corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{in}}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Services(contourNamespace).Patch(ctx, envoyService, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: registrar.Manager}, "status")
	return err
}

// awaitContour waits until a member's Envoy has what Contour told it, and opens the member's
// gate to clients.
func (s *supervisor) awaitContour(ctx context.Context, m *member) error {
	err := await(ctx, "Contour in "+m.spec.Name, func(context.Context) error {
		_, err := m.gate.ready(envoyService, "http")
		return err
	}, func() error { return nil })
	if err != nil {
		return fmt.Errorf("%w: see %s", err, s.path("logs", "members", m.spec.Name))
	}
	return s.publishGate(m)
}
