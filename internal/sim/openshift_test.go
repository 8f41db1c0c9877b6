package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	routev1 "github.com/openshift/api/route/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
)

// route reads a Route of OpenShift: "shop.example/a->web*3+api".
func (a *args) route() *routev1.Route {
	o := &routev1.Route{ObjectMeta: meta(a.Word(0))}
	if c := a.Options["class"]; c != "" {
		o.Annotations = map[string]string{v1alpha1.AnnotationIngressClass: c}
	}
	from, to, _ := strings.Cut(a.Word(1), "->")
	host, path, _ := strings.Cut(from, "/")
	o.Spec.Host = host
	if path != "" {
		o.Spec.Path = "/" + path
	}
	if a.Has("subdomain") {
		o.Spec.WildcardPolicy = routev1.WildcardPolicySubdomain
	}
	for i, text := range strings.Split(to, "+") {
		ref := a.routeTarget(text)
		if i == 0 {
			o.Spec.To = ref
		} else {
			o.Spec.AlternateBackends = append(o.Spec.AlternateBackends, ref)
		}
	}
	if port := a.Options["port"]; port != "" {
		o.Spec.Port = &routev1.RoutePort{TargetPort: intstr.Parse(port)}
	}
	if way := a.Options["tls"]; way != "" {
		o.Spec.TLS = &routev1.TLSConfig{Termination: routev1.TLSTerminationType(way), InsecureEdgeTerminationPolicy: routev1.InsecureEdgeTerminationPolicyType(a.Options["insecure"])}
	}
	if name := a.Options["inline"]; name != "" {
		data := a.certificate(name)
		o.Spec.TLS.Certificate, o.Spec.TLS.Key = string(data[corev1.TLSCertKey]), string(data[corev1.TLSPrivateKeyKey])
	}
	return o
}

func (a *args) routeTarget(text string) routev1.RouteTargetReference {
	name, weight, weighted := strings.Cut(text, "*")
	ref := routev1.RouteTargetReference{Kind: "Service", Name: name}
	if weighted {
		n, err := strconv.ParseInt(weight, 10, 32)
		a.Err = errors.Join(a.Err, err)
		ref.Weight = new(int32(n))
	}
	return ref
}

// writeAdmissions writes our entries of statuses of Routes.
func (w *world) writeAdmissions() (bool, error) {
	written := false
	for _, name := range slices.Sorted(maps.Keys(w.hub["routes"])) {
		o := w.hub["routes"][name].(*routev1.Route)
		id, _, _, _, _ := ingest.Route(o)
		row, ok := w.plane.Tables().Leaf.Admissions.Get(nil, id)
		if !ok || row.Settled {
			continue
		}
		o = o.DeepCopy()
		o.Status.Ingress = nil
		if !row.Left {
			status := corev1.ConditionFalse
			if row.Says.Admitted {
				status = corev1.ConditionTrue
			}
			entry := routev1.RouteIngress{RouterName: v1alpha1.RouterName, Host: row.Says.Host, RouterCanonicalHostname: row.Says.Canonical, Conditions: []routev1.RouteIngressCondition{
				{Type: routev1.RouteAdmitted, Status: status, Reason: row.Says.Reason, Message: row.Says.Message},
			}}
			if row.Says.Subdomain {
				entry.WildcardPolicy = routev1.WildcardPolicySubdomain
			}
			o.Status.Ingress = []routev1.RouteIngress{entry}
		}
		w.hub["routes"][name], written = o, true
		if err := w.plane.Feed.Put("routes", o); err != nil {
			return true, err
		}
	}
	return written, nil
}

// admitted says what the status of a Route tells its owner.
func (w *world) admitted(name string) (string, error) {
	o, ok := w.hub["routes"][name].(*routev1.Route)
	if !ok {
		return "", fmt.Errorf("there is no Route %s", name)
	}
	if len(o.Status.Ingress) == 0 {
		return "none", nil
	}
	said := ingest.Admission(&o.Status.Ingress[0])
	return strings.TrimSpace(fmt.Sprintf("%s %t %s %s", said.Host, said.Admitted, said.Reason, said.Message)), nil
}
