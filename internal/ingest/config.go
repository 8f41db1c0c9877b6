package ingest

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// DefaultConfig is what serves a class that names no GatewayClassConfig: the
// defaults of that kind.
func DefaultConfig() model.ConfigSpec {
	_, spec, _, _ := GatewayClassConfig(&v1alpha1.GatewayClassConfig{})
	return spec
}

// GatewayClassConfig reads a GatewayClassConfig. One whose choice of edges or
// zones can't be read gives no row, since every other choice could be wider
// than meant; a bad number becomes its default.
func GatewayClassConfig(o *v1alpha1.GatewayClassConfig) (model.Config, model.ConfigSpec, bool, model.Findings) {
	r := reportOf(object(kindConfig, o))
	out := model.ConfigSpec{
		Generation:    o.Generation,
		HTTPPort:      r.port("spec.listeners.http", o.Spec.Listeners.HTTP, 80),
		HTTPSPort:     r.port("spec.listeners.https", o.Spec.Listeners.HTTPS, 443),
		ExternalNames: o.Spec.ExternalNames == v1alpha1.ExternalNamesAllow,
		Timing:        r.timing(&o.Spec),
	}
	out.Own = r.own(o.Spec.Address)
	out.OnDemand = r.onDemand(o.Spec.TLS.Certificates)
	ok := r.edges(o.Spec.Edges, &out)
	switch p := o.Spec.DataPlane; {
	case p == v1alpha1.DataPlaneLeaf:
		ok = r.leaf(&o.Spec, &out) && ok
	case p != "" && p != v1alpha1.DataPlaneEnvoy:
		r.unsupported("spec.dataPlane", "%q is not supported: use %s or %s", p, v1alpha1.DataPlaneEnvoy, v1alpha1.DataPlaneLeaf)
		ok = false
	case o.Spec.Leaf != nil:
		r.invalid("spec.leaf", "edges serve the class: set dataPlane to %s, or leave leaf out", v1alpha1.DataPlaneLeaf)
		ok = false
	}
	out.Global = r.global(o.Spec.GlobalIngress, out.Leaf != nil)
	if out.HTTPPort == out.HTTPSPort {
		r.invalid("spec.listeners", "http and https are both %d: use different ports", out.HTTPPort)
		ok = false
	}
	for _, z := range o.Spec.Zones {
		out.Zones = append(out.Zones, model.ZoneID{Workspace: r.Object.Workspace, Namespace: z.Namespace, Name: z.Name})
	}
	slices.SortFunc(out.Zones, model.ZoneID.Compare)
	out.Zones = slices.Compact(out.Zones)
	if !ok {
		out = model.ConfigSpec{}
	}
	return model.Config(model.Scoped(Workspace(o), o.Name)), out, ok, r.Findings()
}

// onDemand reads how certificates are delivered. Static works for every class.
func (r *report) onDemand(d v1alpha1.CertificateDelivery) bool {
	if d != "" && d != v1alpha1.CertificatesStatic && d != v1alpha1.CertificatesOnDemand {
		r.invalid("spec.tls.certificates", "%q is not used: set %s or %s; %[2]s until then", d, v1alpha1.CertificatesStatic, v1alpha1.CertificatesOnDemand)
	}
	return d == v1alpha1.CertificatesOnDemand
}

// own reads whose addresses a class has.
func (r *report) own(a v1alpha1.AddressSharing) bool {
	if a != "" && a != v1alpha1.AddressOfEdge && a != v1alpha1.AddressOwn {
		r.invalid("spec.address", "%q is not used: set %s or %s; %[2]s until then", a, v1alpha1.AddressOfEdge, v1alpha1.AddressOwn)
	}
	return a == v1alpha1.AddressOwn
}

// edges reads the choice of edges. No choice is every edge; so is an empty
// selector. Names alone choose only those.
func (r *report) edges(e *v1alpha1.EdgeSelection, out *model.ConfigSpec) bool {
	if e == nil {
		return true
	}
	if e.Selector == nil && len(e.Names) == 0 {
		r.invalid("spec.edges", "set selector or names, or leave edges out for all")
		return false
	}
	if e.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(e.Selector)
		if err != nil {
			// The error itself depends on the order of a map.
			r.invalid("spec.edges.selector", "the selector can't be read: check its keys, operators and values")
			return false
		}
		if selector.Empty() {
			return true
		}
		out.Edges = canonical(selector)
	}
	out.EdgeNames = slices.Clone(e.Names)
	slices.Sort(out.EdgeNames)
	out.EdgeNames = slices.Compact(out.EdgeNames)
	return true
}

// canonical is the text of a selector, the same for the same requirements.
func canonical(s labels.Selector) string {
	requirements, _ := s.Requirements()
	out := make([]string, len(requirements))
	for i := range requirements {
		out[i] = requirements[i].String()
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func (r *report) timing(s *v1alpha1.GatewayClassConfigSpec) model.Timing {
	const health, timeouts = "spec.pathHealth.", "spec.timeouts."
	return model.Timing{
		ConnectTimeout: r.millis(timeouts+"connect", s.Timeouts.Connect, 500*time.Millisecond, 10*time.Millisecond, time.Minute),
		PerTryTimeout:  r.millis(timeouts+"perTry", s.Timeouts.PerTry, 5*time.Second, 50*time.Millisecond, time.Hour),
		ProbeInterval:  r.millis(health+"interval", s.PathHealth.Interval, 150*time.Millisecond, 50*time.Millisecond, time.Minute),
		ProbeTimeout:   r.millis(health+"timeout", s.PathHealth.Timeout, 300*time.Millisecond, 10*time.Millisecond, time.Minute),
		ProbeFailures:  r.count(health+"failureThreshold", s.PathHealth.FailureThreshold, 2, 10),
		ProbeSuccesses: r.count(health+"successThreshold", s.PathHealth.SuccessThreshold, 2, 10),
	}
}

func (r *report) millis(field model.Field, d *metav1.Duration, normal, low, high time.Duration) int64 {
	if d == nil {
		return normal.Milliseconds()
	}
	if d.Duration < low || d.Duration > high {
		r.invalid(field, "%v is not used: set %v to %v; %v until then", d.Duration, low, high, normal)
		return normal.Milliseconds()
	}
	return d.Milliseconds()
}

// count reads a number of 1 to high; 0: it is not said.
func (r *report) count(field model.Field, n, normal, high int32) int32 {
	if n == 0 {
		return normal
	}
	if n < 1 || n > high {
		r.invalid(field, "%d is not used: set 1 to %d; %d until then", n, high, normal)
		return normal
	}
	return n
}

func (r *report) port(field model.Field, n int32, normal uint16) uint16 {
	return uint16(r.count(field, n, int32(normal), 65535))
}
