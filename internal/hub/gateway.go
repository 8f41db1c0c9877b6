package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// supported is what the status of a GatewayClass of ours says beside its conditions.
var supported = map[string]any{"supportedFeatures": supportedFeatures(model.Features())}

func supportedFeatures(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = map[string]any{"name": n}
	}
	return out
}

// Listener is what the status of a Gateway or a ListenerSet should say of a listener.
type Listener struct {
	Name       string
	Kinds      []string // of routes of the Gateway API
	Attached   int      // routes
	Conditions map[string]Condition
}

// listenerStatus is an entry of status.listeners, a map by name.
type listenerStatus struct {
	Name       string                     `json:"name"`
	Kinds      []gatewayv1.RouteGroupKind `json:"supportedKinds"`
	Attached   int                        `json:"attachedRoutes"`
	Conditions []metav1.Condition         `json:"conditions"`
}

// listeners returns what to apply as status.listeners, and whether just that is
// there already.
func (a Status) listeners(there any, wrote ownership, now time.Time) (apply []listenerStatus, same bool, err error) {
	var have []listenerStatus
	if err := convert(there, &have); err != nil {
		return nil, false, err
	}
	same = len(have) == len(a.Listeners)
	for _, l := range a.Listeners {
		var was listenerStatus
		if i := slices.IndexFunc(have, func(h listenerStatus) bool { return h.Name == l.Name }); i >= 0 {
			was = have[i]
		}
		next := listenerStatus{l.Name, kindsOf(l.Kinds), l.Attached, merged(wrote.of(l.Name).passed(was.Conditions, l.Conditions), l.Conditions, a.Generation, now)}
		same = same && was.Name == next.Name && was.Attached == next.Attached && slices.Equal(was.Conditions, next.Conditions) && equalKinds(was.Kinds, next.Kinds)
		next.Conditions = onlyOurs(next.Conditions, l.Conditions)
		apply = append(apply, next)
	}
	return apply, same, nil
}

// left returns the entries of status.listeners without those of listeners that are
// not there, which another controller left behind.
func (a Status) left(there any) (kept []any, more bool) {
	all, _ := there.([]any)
	if len(a.Listeners) == 0 {
		return nil, false
	}
	for _, e := range all {
		m, _ := e.(map[string]any)
		if slices.ContainsFunc(a.Listeners, func(l Listener) bool { return l.Name == m["name"] }) {
			kept = append(kept, e)
		}
	}
	return kept, len(kept) < len(all)
}

func kindsOf(names []string) []gatewayv1.RouteGroupKind {
	group := gatewayv1.Group(gatewayv1.GroupName)
	out := make([]gatewayv1.RouteGroupKind, len(names))
	for i, k := range names {
		out[i] = gatewayv1.RouteGroupKind{Group: &group, Kind: gatewayv1.Kind(k)}
	}
	return out
}

func equalKinds(a, b []gatewayv1.RouteGroupKind) bool {
	return slices.EqualFunc(a, b, func(a, b gatewayv1.RouteGroupKind) bool {
		return a.Kind == b.Kind && a.Group != nil && *a.Group == *b.Group
	})
}

// maxAddresses is how many the status of a Gateway may list.
const maxAddresses = 16

// gatewayAddresses are addresses as the status of a Gateway lists them, nil if there
// are none, where the hub's definition has it with their routability, which then each of
// them has (GEP-5093).
func gatewayAddresses(list []leaf.GatewayAddress, scoped bool) any {
	if len(list) == 0 {
		return nil
	}
	out := make([]any, min(len(list), maxAddresses))
	for i, a := range list[:len(out)] {
		kind := gatewayv1.HostnameAddressType
		if _, err := netip.ParseAddr(a.Value); err == nil {
			kind = gatewayv1.IPAddressType
		}
		said := map[string]any{"type": string(kind), "value": a.Value}
		if scoped {
			said["routability"] = a.Scope
		}
		out[i] = said
	}
	return out
}

// maxParents and maxAncestors are how many entries such lists may have.
const (
	maxParents   = 32
	maxAncestors = 16
)

// entryList is how a kind names the list of its status that several controllers have
// entries in.
type entryList struct {
	field, ref string
	most       int // entries, of all controllers
}

// listOf is that of a kind.
func listOf(kind string) entryList {
	if kind == "BackendTLSPolicy" || kind == model.PlacementKind {
		return entryList{"ancestors", "ancestorRef", maxAncestors}
	}
	return entryList{"parents", parentRef, maxParents}
}

// parentRef is what the reference of an entry is called where nothing else is said.
const parentRef = "parentRef"

// renamed is an entry of which the reference has another name.
func renamed(e map[string]any, from, to string) map[string]any {
	out := maps.Clone(e)
	ref, ok := out[from]
	if delete(out, from); ok {
		out[to] = ref
	}
	return out
}

// said is what our entries of a list of a status should be: none, if nothing of ours
// serves the object.
type said struct {
	entryList
	parents []model.ParentStatus
}

// there are the entries: of other controllers, as they are, and ours.
func (a entryList) there(have *unstructured.Unstructured) (others []any, ours []gatewayv1.RouteParentStatus, err error) {
	list, _, err := unstructured.NestedSlice(have.Object, "status", a.field)
	if err != nil {
		return nil, nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
	}
	others = []any{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		if m["controllerName"] != v1alpha1.ControllerGateway {
			others = append(others, e)
			continue
		}
		var of gatewayv1.RouteParentStatus
		if err := convert(renamed(m, a.ref, parentRef), &of); err != nil {
			return nil, nil, fmt.Errorf("status of %s: %w", have.GetName(), err)
		}
		of.ParentRef = refOf(ingest.Parent(of.ParentRef))
		ours = append(ours, of)
	}
	return others, ours, nil
}

// entries are ours as they should be, at most room. A condition keeps its time until
// its status changes.
func (a said) entries(was []gatewayv1.RouteParentStatus, room int, now time.Time) []gatewayv1.RouteParentStatus {
	var out []gatewayv1.RouteParentStatus
	for _, p := range a.parents[:min(len(a.parents), max(room, 0))] {
		next := gatewayv1.RouteParentStatus{ParentRef: refOf(p.Parent), ControllerName: v1alpha1.ControllerGateway}
		var old []metav1.Condition
		if i := slices.IndexFunc(was, func(w gatewayv1.RouteParentStatus) bool { return ingest.Parent(w.ParentRef) == p.Parent }); i >= 0 {
			old = was[i].Conditions
		}
		for _, c := range p.Conditions {
			next.Conditions = append(next.Conditions, stated(c, old, now))
		}
		out = append(out, next)
	}
	return out
}

// stated is a condition with its time.
func stated(c model.StatedCondition, old []metav1.Condition, now time.Time) metav1.Condition {
	out := metav1.Condition{
		Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: clip(c.Message, maxMessage),
		ObservedGeneration: c.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	for _, o := range old {
		if o.Type == out.Type && o.Status == out.Status {
			out.LastTransitionTime = o.LastTransitionTime
		}
	}
	return out
}

// refOf is the reference to a parent, with group and kind as the API defaults them.
func refOf(p model.Parent) gatewayv1.ParentReference {
	out := gatewayv1.ParentReference{Group: new(gatewayv1.Group(p.Group)), Kind: new(gatewayv1.Kind(p.Kind)), Name: gatewayv1.ObjectName(p.Name)}
	if p.Namespace != "" {
		out.Namespace = new(gatewayv1.Namespace(p.Namespace))
	}
	if p.Section != "" {
		out.SectionName = new(gatewayv1.SectionName(p.Section))
	}
	if p.Port != 0 {
		out.Port = new(gatewayv1.PortNumber(p.Port))
	}
	return out
}

// says reports whether a route says it already.
func (a said) says(have *unstructured.Unstructured) bool {
	patch, err := a.patch(have, time.Time{})
	return err == nil && patch == nil
}

// patch returns the merge patch by which a route says it, nil if it does. The list
// is one value that several controllers write, so the patch holds only if the route
// is still the one that was read.
func (a said) patch(have *unstructured.Unstructured, now time.Time) ([]byte, error) {
	others, was, err := a.there(have)
	if err != nil {
		return nil, err
	}
	want := a.entries(was, a.most-len(others), now)
	newest := newestOf(was)
	if newestOf(want) < newest && len(want) > 0 && newest <= have.GetGeneration() {
		return nil, nil // another serve has read a newer object than we have: we will, too
	}
	if slices.Equal(texts(was), texts(want)) {
		return nil, nil
	}
	list := others
	for _, e := range want {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&e)
		if err != nil {
			return nil, err
		}
		list = append(list, renamed(m, parentRef, a.ref))
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.GetResourceVersion()},
		"status":   map[string]any{a.field: list},
	})
}

func newestOf(list []gatewayv1.RouteParentStatus) (newest int64) {
	for _, p := range list {
		for _, c := range p.Conditions {
			newest = max(newest, c.ObservedGeneration)
		}
	}
	return newest
}

// texts are entries whatever their order, and that of their conditions.
func texts(list []gatewayv1.RouteParentStatus) []string {
	out := make([]string, len(list))
	for i, p := range list {
		p.Conditions = slices.SortedFunc(slices.Values(p.Conditions), func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
		out[i] = fmt.Sprintf("%+v %+q", ingest.Parent(p.ParentRef), fmt.Sprint(p.Conditions))
	}
	slices.Sort(out)
	return out
}

// Parents says what our entries of status.parents of a route should be, or of
// status.ancestors of a policy; none: what we said of it ends.
func (w *Writer) Parents(o model.Object, list []model.ParentStatus) {
	w.mu.Lock()
	w.parents[o] = said{listOf(o.Kind), list}
	w.mu.Unlock()
	w.add(job{parents, o})
}

// entries are ours in a list of a status that others write, too.
type entries interface {
	want
	patch(have *unstructured.Unstructured, now time.Time) ([]byte, error) // nil: it says them
}

// report makes our entries of a status say what is wanted.
func (w *Writer) report(ctx context.Context, t target, s entries) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	data, err := s.patch(have, time.Now())
	if err != nil {
		return err
	}
	if data != nil {
		w.contest(t.job, have)
	}
	if err := t.merge(ctx, data, "status"); err != nil {
		return err
	}
	w.record(t.job, have, s)
	return nil
}
