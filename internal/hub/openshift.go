package hub

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	routev1 "github.com/openshift/api/route/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// admission is what our entry of status.ingress of a Route should be; nil: there is none.
type admission struct{ *model.Admission }

// entry is ours as it should be. Its condition keeps its time until its status changes.
func (a admission) entry(was *routev1.RouteIngress, now time.Time) routev1.RouteIngress {
	c := routev1.RouteIngressCondition{
		Type: routev1.RouteAdmitted, Status: corev1.ConditionFalse, Reason: a.Reason, Message: clip(a.Message, maxMessage),
		LastTransitionTime: new(metav1.NewTime(now.Truncate(time.Second))),
	}
	if a.Admitted {
		c.Status = corev1.ConditionTrue
	}
	if was != nil {
		for _, o := range was.Conditions {
			if o.Type == c.Type && o.Status == c.Status && o.LastTransitionTime != nil {
				c.LastTransitionTime = o.LastTransitionTime
			}
		}
	}
	out := routev1.RouteIngress{
		RouterName: v1alpha1.RouterName, Host: a.Host, WildcardPolicy: routev1.WildcardPolicyNone,
		RouterCanonicalHostname: a.Canonical, Conditions: []routev1.RouteIngressCondition{c},
	}
	if a.Subdomain {
		out.WildcardPolicy = routev1.WildcardPolicySubdomain
	}
	return out
}

// text is what is compared of an entry.
func (a admission) text() string {
	said := *a.Admission
	said.Message = clip(said.Message, maxMessage)
	return said.Text()
}

// says reports whether a Route says it already.
func (a admission) says(have *unstructured.Unstructured) bool {
	patch, err := a.patch(have, time.Time{})
	return err == nil && patch == nil
}

// patch returns the merge patch by which a Route says it, nil if it does. The list is one
// value that several routers write, so the patch holds only if the Route is still the one
// that was read. Entries of others stay as they are, and where they are.
func (a admission) patch(have *unstructured.Unstructured, now time.Time) ([]byte, error) {
	list, _, err := unstructured.NestedSlice(have.Object, "status", "ingress")
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
	}
	out := []any{}
	var ours []routev1.RouteIngress
	at := -1
	for _, e := range list {
		m, _ := e.(map[string]any)
		if m["routerName"] != v1alpha1.RouterName {
			out = append(out, e)
			continue
		}
		var of routev1.RouteIngress
		if err := convert(m, &of); err != nil {
			return nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
		}
		if ours = append(ours, of); at < 0 {
			at = len(out)
		}
	}
	if a.Admission == nil {
		if len(ours) == 0 {
			return nil, nil
		}
		return ingressPatch(have, out)
	}
	var was *routev1.RouteIngress
	if len(ours) > 0 {
		was = &ours[0]
	}
	if len(ours) == 1 && ingest.Admission(was).Text() == a.text() {
		return nil, nil
	}
	if at < 0 {
		at = len(out)
	}
	return ingressPatch(have, slices.Insert(out, at, any(a.entry(was, now))))
}

func ingressPatch(have *unstructured.Unstructured, list []any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.GetResourceVersion()},
		"status":   map[string]any{"ingress": list},
	})
}

// Admission says what our entry of the status of a Route should be; nil: what we said of
// it ends.
func (w *Writer) Admission(o model.Object, says *model.Admission) {
	w.mu.Lock()
	w.admissions[o] = admission{says}
	w.mu.Unlock()
	w.add(job{admitted, o})
}
