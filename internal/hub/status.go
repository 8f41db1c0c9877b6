package hub

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
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
	Fields     map[string]any       // other fields of status, as JSON has them; nil removes one
	Listeners  []Listener           // of a Gateway or a ListenerSet
	Each       bool                 // only conditions say of which generation they are: a kind of the Gateway API
}

// equal reports whether both say the same.
func (a Status) equal(b Status) bool { return reflect.DeepEqual(a, b) }

// says reports whether an object's status says what is wanted.
func (a Status) says(have *unstructured.Unstructured) bool {
	status, err := a.status(have, time.Time{})
	return err == nil && status == nil
}

// status returns what to apply so that an object's status says what is wanted,
// nil if it does already. Who applies says all that is theirs, or it goes: so it
// has also what is there and of which nothing is known now. Conditions of types
// that are not ours are others'.
func (a Status) status(have *unstructured.Unstructured, now time.Time) (map[string]any, error) {
	if a.Generation == 0 {
		a.Generation = have.GetGeneration()
	}
	var was struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
	}
	there, _ := have.Object["status"].(map[string]any)
	if err := convert(there, &was); err != nil {
		return nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
	}
	if a.Each {
		was.ObservedGeneration = observed(was.Conditions, a.Conditions)
	}
	if a.Generation < was.ObservedGeneration && was.ObservedGeneration <= have.GetGeneration() {
		return nil, nil // another serve has read a newer object than we have: we will, too
	}
	wrote := ownershipIn(have.GetManagedFields())
	conditions := merged(wrote.passed(was.Conditions, a.Conditions), a.Conditions, a.Generation, now)
	changed := !slices.Equal(conditions, was.Conditions) || a.Generation != was.ObservedGeneration
	out := map[string]any{}
	if !a.Each { // of others, only conditions and what is named here is ours
		maps.Copy(out, there)
	}
	for name, want := range a.Fields {
		changed = changed || !same(there[name], want)
		if out[name] = want; want == nil {
			delete(out, name)
		}
	}
	if len(a.Listeners) > 0 {
		listeners, same, err := a.listeners(there["listeners"], wrote, now)
		if err != nil {
			return nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
		}
		out["listeners"], changed = listeners, changed || !same
	}
	if !changed {
		return nil, nil
	}
	out["conditions"] = onlyOurs(conditions, a.Conditions)
	if !a.Each {
		out["observedGeneration"] = a.Generation
	}
	return out, nil
}

// observed is the newest generation that conditions of some types are of.
func observed(have []metav1.Condition, types map[string]Condition) (newest int64) {
	for _, c := range have {
		if _, ok := types[c.Type]; ok {
			newest = max(newest, c.ObservedGeneration)
		}
	}
	return newest
}

// onlyOurs are the conditions that are applied, given those that are wanted.
func onlyOurs(list []metav1.Condition, want map[string]Condition) []metav1.Condition {
	return slices.DeleteFunc(list, func(c metav1.Condition) bool {
		_, wanted := want[c.Type]
		return !wanted && !ourConditions[c.Type]
	})
}

// ourConditions are the types that we write, on any kind, and that stay as they are
// while nothing is known of them.
var ourConditions = map[string]bool{
	v1alpha1.ConditionAccepted: true, v1alpha1.ConditionConnected: true, v1alpha1.ConditionHealthy: true, v1alpha1.ConditionProgrammed: true,
	v1alpha1.ConditionResolvedRefs: true, v1alpha1.ConditionServing: true, v1alpha1.ConditionSynced: true, v1alpha1.ConditionPlaced: true,
	string(gatewayv1.ListenerConditionConflicted): true,
}

// without returns the merge patch that takes fields away which should not be
// there, nil if none is. It holds only if the object is still the one given.
func (a Status) without(have *unstructured.Unstructured) ([]byte, error) {
	there, _ := have.Object["status"].(map[string]any)
	surplus := map[string]any{}
	for name, want := range a.Fields {
		if want == nil && there[name] != nil {
			surplus[name] = nil
		}
	}
	if kept, more := a.left(there["listeners"]); more {
		surplus["listeners"] = kept
	}
	if len(surplus) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.GetResourceVersion()},
		"status":   surplus,
	})
}

// merged is what is wanted merged into what is there. A condition keeps its time
// until its status changes, and its place in the list for ever.
func merged(was []metav1.Condition, want map[string]Condition, generation int64, now time.Time) []metav1.Condition {
	out := slices.Clone(was)
	for _, t := range slices.Sorted(maps.Keys(want)) {
		c := want[t]
		next := metav1.Condition{
			Type: t, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
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

// published is what status.loadBalancer of an Ingress should list.
type published struct {
	list []string
	left bool // nothing, where what it lists is ours
}

// status returns what to apply.
func (p published) status() map[string]any {
	list := make([]any, 0, len(p.list))
	for _, a := range slices.Sorted(slices.Values(p.list)) {
		field := "hostname"
		if _, err := netip.ParseAddr(a); err == nil {
			field = "ip"
		}
		list = append(list, map[string]any{field: a})
	}
	return map[string]any{"loadBalancer": map[string]any{"ingress": list}}
}

// says reports whether an Ingress lists these addresses already.
func (p published) says(have *unstructured.Unstructured) bool {
	root, err := rootOf(have)
	return err == nil && root.Published == model.TextsOf(slices.Sorted(slices.Values(p.list)))
}

// rootOf reads an Ingress.
func rootOf(have *unstructured.Unstructured) (model.Root, error) {
	var o networkingv1.Ingress
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, &o); err != nil {
		return model.Root{}, fmt.Errorf("read Ingress %s: %w", have.GetName(), err)
	}
	_, root, _, _ := ingest.Ingress(&o)
	return root, nil
}

// withdrawal returns the merge patch that empties status.loadBalancer of an
// Ingress, nil if what it lists is not ours, or nothing. It holds only if the
// object is still the one that was read: another controller may serve it now.
func withdrawal(have *unstructured.Unstructured) ([]byte, error) {
	root, err := rootOf(have)
	if err != nil || !root.Ours {
		return nil, err
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
