package hub

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Some conditions are there only while they are True, or while something is known: that
// they are not wanted is knowledge, and they go. Others may have written one of that type, on an object of
// ours or on one that was theirs; that stays.

// passing are the types of such conditions.
var passing = map[string]bool{
	string(gatewayv1.ListenerConditionOverlappingTLSConfig):          true,
	string(gatewayv1.GatewayConditionInsecureFrontendValidationMode): true,
	string(gatewayv1.GatewayClassConditionStatusSupportedVersion):    true,
	v1alpha1.ConditionRolledOut:                                      true, // of Placements with a rollout
}

// ownership is what of a status we wrote, as the API server notes it: that of an entry
// of managedFields below f:status, or below an element of a list there.
type ownership []map[string]any

// ownershipIn is that of an object.
func ownershipIn(by []metav1.ManagedFieldsEntry) ownership {
	var out ownership
	for _, e := range by {
		if e.Manager != v1alpha1.FieldManager || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil {
			out = append(out, fields)
		}
	}
	return out.at("f:status")
}

// at is what we wrote below a field, or an element of a list.
func (a ownership) at(path ...string) ownership {
	out := slices.Clone(a)
	for _, field := range path {
		for i := range out {
			out[i], _ = out[i][field].(map[string]any)
		}
		out = slices.DeleteFunc(out, func(m map[string]any) bool { return m == nil })
	}
	return out
}

// of is what we wrote of a listener.
func (a ownership) of(listener string) ownership {
	return a.at("f:listeners", element("name", listener))
}

// element is how an element of a list that is a map is called.
func element(key, value string) string {
	name, _ := json.Marshal(map[string]string{key: value}) // never fails
	return "k:" + string(name)
}

// passed leaves out the conditions that we wrote, that are not wanted, and that do
// not stay without.
func (a ownership) passed(was []metav1.Condition, want map[string]Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(was), func(c metav1.Condition) bool {
		_, wanted := want[c.Type]
		return passing[c.Type] && !wanted && len(a.at("f:conditions", element("type", c.Type))) > 0
	})
}
