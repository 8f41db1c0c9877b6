package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// writeStatuses writes on the hub what the control plane wants there, as
// internal/hub does, and tells whether there was anything. The control plane
// sees what it wrote.
func (w *world) writeStatuses() (bool, error) {
	if !w.plane.Published() {
		return false, nil
	}
	written := false
	for _, name := range slices.Sorted(maps.Keys(w.hub["ingresses"])) {
		o := w.hub["ingresses"][name].(*networkingv1.Ingress)
		id, _, _, _ := ingest.Ingress(o)
		row, ok := w.plane.Tables().Leaf.Roots.Get(nil, id)
		if !ok || row.Settled {
			continue
		}
		o = o.DeepCopy()
		o.Status.LoadBalancer.Ingress = nil
		for _, a := range row.Addresses.List() {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, loadBalancer(a))
		}
		w.hub["ingresses"][name], written = o, true
		if err := w.plane.Feed.Put("ingresses", o); err != nil {
			return true, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.hub["memberclusters"])) {
		o := w.hub["memberclusters"][name].(*v1alpha1.MemberCluster)
		wrote, err := w.writeMember(name, o)
		if err != nil {
			return true, err
		}
		written = written || wrote
	}
	admitted, err := w.writeAdmissions()
	return written || admitted, err
}

func loadBalancer(address string) networkingv1.IngressLoadBalancerIngress {
	if _, err := netip.ParseAddr(address); err == nil {
		return networkingv1.IngressLoadBalancerIngress{IP: address}
	}
	return networkingv1.IngressLoadBalancerIngress{Hostname: address}
}

func (w *world) writeMember(name string, o *v1alpha1.MemberCluster) (bool, error) {
	row, ok := w.plane.Tables().Leaf.Members.Get(nil, model.Member(o.Name))
	if !ok {
		return false, nil
	}
	was := o
	o = o.DeepCopy()
	if row.Read {
		n := w.plane.Tables().Leaf.Counts.Of(model.Member(o.Name))
		services, endpoints := int32(n.Services), int32(n.Endpoints)
		o.Status.Services, o.Status.Endpoints = &services, &endpoints
	}
	for _, c := range row.Conditions {
		o.Status.Conditions = withCondition(o.Status.Conditions, c)
	}
	same := slices.Equal(o.Status.Conditions, was.Status.Conditions) &&
		equal(o.Status.Services, was.Status.Services) && equal(o.Status.Endpoints, was.Status.Endpoints)
	if same {
		return false, nil
	}
	w.hub["memberclusters"][name] = o
	return true, w.plane.Feed.Put("memberclusters", o)
}

// withCondition changes one condition; those that are not wanted stay.
func withCondition(list []metav1.Condition, want leaf.Condition) []metav1.Condition {
	c := metav1.Condition{Type: want.Type, Status: metav1.ConditionStatus(want.Status.String()), Reason: want.Reason, Message: want.Message}
	out := slices.DeleteFunc(slices.Clone(list), func(c metav1.Condition) bool { return c.Type == want.Type })
	out = append(out, c)
	slices.SortFunc(out, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return out
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// published are the addresses in an Ingress's status.
func (w *world) published(name string) []string {
	o, ok := w.hub["ingresses"][name].(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	var out []string
	for _, a := range o.Status.LoadBalancer.Ingress {
		out = append(out, a.IP+a.Hostname)
	}
	return out
}

// gatewayClasses are the conditions of GatewayClasses, one a line.
func (w *world) gatewayClasses() string {
	return fleettest.Lines(fleettest.Rows(w.plane.Tables().Leaf.GatewayClasses, func(s leaf.GatewayClassStatus) string {
		var out []string
		for _, c := range s.Conditions {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
		}
		return strings.Join(out, "\n")
	}), nil)
}

// findings are what owners are told, one a line, of objects whose text begins so.
func (w *world) findings(prefix string) string {
	var out strings.Builder
	for _, line := range fleettest.Rows(w.plane.Tables().Leaf.Findings, fleettest.FindingsText) {
		if strings.HasPrefix(line, prefix) {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// gatewayStatuses are those of Gateways, their routes and policies.
func (w *world) gatewayStatuses() string {
	of := w.plane.Tables().Leaf
	routes := func(s leaf.RouteStatus) string { return fmt.Sprintf("%+v", s) }
	return strings.Join(slices.Concat(
		fleettest.Rows(of.Gateways, func(s leaf.GatewayStatus) string { return fmt.Sprintf("%+v", s) }),
		fleettest.Rows(of.Routes, routes), fleettest.Rows(of.TLSPolicies, routes),
	), "\n")
}
