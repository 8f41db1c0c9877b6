package hub

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spillway-dev/spillway/internal/ingest"
)

// Condition is a condition as it is wanted; when it last changed is found out
// when it is written.
type Condition struct {
	Type    string
	Status  string // True, False, Unknown
	Reason  string // one word, as in api/v1alpha1
	Message string
}

// Status is what the status of one of our kinds should say.
type Status struct {
	Generation int64                // of the object that was looked at; 0: not known, the hub's
	Conditions map[string]Condition // by type; others are left alone
	Fields     map[string]any       // other fields of status: string, int64, []string; nil removes one
}

// equal reports whether both say the same.
func (a Status) equal(b Status) bool { return reflect.DeepEqual(a, b) }

// patch returns the JSON merge patch (RFC 7386) that makes an object's status
// say what is wanted, nil if it does already. The patch holds only if the
// object is still the one that was read.
func (a Status) patch(have *unstructured.Unstructured, now time.Time) ([]byte, error) {
	if a.Generation == 0 {
		a.Generation = have.GetGeneration()
	}
	var was struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
	}
	status, _ := have.Object["status"].(map[string]any)
	if err := convert(status, &was); err != nil {
		return nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
	}
	change := map[string]any{}
	if conditions := a.conditions(was.Conditions, now); !slices.Equal(conditions, was.Conditions) {
		change["conditions"] = conditions
	}
	if a.Generation != was.ObservedGeneration {
		change["observedGeneration"] = a.Generation
	}
	for name, want := range a.Fields {
		if !same(status[name], want) {
			change[name] = want
		}
	}
	if len(change) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.GetResourceVersion()},
		"status":   change,
	})
}

// conditions merges what is wanted into what is there. A condition keeps its
// time until its status changes, and its place in the list for ever.
func (a Status) conditions(was []metav1.Condition, now time.Time) []metav1.Condition {
	out := slices.Clone(was)
	types := make([]string, 0, len(a.Conditions))
	for t := range a.Conditions {
		types = append(types, t)
	}
	slices.Sort(types)
	for _, t := range types {
		c := a.Conditions[t]
		next := metav1.Condition{
			Type: t, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: a.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		i := slices.IndexFunc(out, func(c metav1.Condition) bool { return c.Type == t })
		if i < 0 {
			out = append(out, next)
			continue
		}
		if out[i].Status == next.Status {
			next.LastTransitionTime = out[i].LastTransitionTime
		}
		out[i] = next
	}
	return out
}

// same compares a field as JSON would carry it.
func same(have, want any) bool {
	var a, b any
	return convert(have, &a) == nil && convert(want, &b) == nil && reflect.DeepEqual(a, b)
}

func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// loadBalancer returns the merge patch that makes status.loadBalancer of an
// Ingress list exactly these addresses. Nobody else writes that field, so no
// other version of the object is in the way.
func loadBalancer(addresses []string) ([]byte, error) {
	want := make([]any, 0, len(addresses))
	for _, a := range slices.Sorted(slices.Values(addresses)) {
		field := "hostname"
		if _, err := netip.ParseAddr(a); err == nil {
			field = "ip"
		}
		want = append(want, map[string]any{field: a})
	}
	return json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": want}}})
}

// withdrawal returns the merge patch that empties status.loadBalancer of an
// Ingress, nil if what it lists is not ours, or nothing. It holds only if the
// object is still the one that was read: another controller may serve it now.
func withdrawal(have *unstructured.Unstructured) ([]byte, error) {
	var o networkingv1.Ingress
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, &o); err != nil {
		return nil, fmt.Errorf("read Ingress %s: %w", have.GetName(), err)
	}
	if _, root, _, _ := ingest.Ingress(&o); !root.Ours {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.GetResourceVersion()},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": nil}},
	})
}

// finalizers returns the merge patch that adds or removes our finalizer, nil
// if there is nothing to do. A finalizer can't be added to what is being deleted.
func finalizers(name string, guard bool, have *unstructured.Unstructured) ([]byte, error) {
	list := have.GetFinalizers()
	there := slices.Contains(list, name)
	if there == guard || guard && have.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if guard {
		list = append(slices.Clone(list), name)
	} else {
		list = slices.DeleteFunc(slices.Clone(list), func(f string) bool { return f == name })
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.GetResourceVersion(), "finalizers": list},
	})
}

// clip shortens a text to n bytes at most, whole characters only.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}
