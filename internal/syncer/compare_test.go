package syncer

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestUnknownFields: fields that came after this version are compared as all others: those
// that a member does not have are told, and so are those that it has otherwise; what it
// adds is its own.
func TestUnknownFields(t *testing.T) {
	const owned = `"managedFields": [{"manager": "spillway", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {}, "f:annotations": {}}, "f:spec": {"f:future": {"f:a": {}, "f:big": {}}, "f:rules": {}}}}]`
	read := func(metadata, spec string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(`{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"labels": {}, "annotations": {}, ` + metadata + `}, "spec": ` + spec + `}`)); err != nil {
			t.Fatal(err)
		}
		return u
	}
	want := read(`"name": "a"`, `{"future": {"a": 1, "big": 9007199254740993}, "rules": [{"later": {"b": [1]}, "name": "x"}]}`)
	for _, c := range []struct {
		name, has        string
		dropped, altered []string
	}{
		{"as it is wished", `{"future": {"a": 1, "big": 9007199254740993}, "rules": [{"later": {"b": [1]}, "name": "x"}]}`, nil, nil},
		{"with defaults", `{"future": {"a": 1.0, "big": 9007199254740993, "c": {}}, "rules": [{"later": {"b": [1], "c": 1}, "name": "x"}]}`, nil, nil},
		{"dropped", `{"rules": [{"name": "x"}]}`, []string{".spec.future", ".spec.rules[0].later"}, nil},
		{"one of two", `{"future": {"big": 9007199254740993}, "rules": [{"later": {}, "name": "x"}]}`, []string{".spec.future.a", ".spec.rules[0].later.b"}, nil},
		{"altered", `{"future": {"a": 2, "big": 9007199254740993}, "rules": [{"later": {"b": [1, 2]}, "name": "x"}]}`, nil, []string{".spec.future.a", ".spec.rules[0].later.b"}},
		{"another number, which is the same as a float", `{"future": {"a": 1, "big": 9007199254740992}, "rules": [{"later": {"b": [1]}, "name": "x"}]}`, nil, []string{".spec.future.big"}},
		{"of another shape", `{"future": "a", "rules": {}}`, nil, []string{".spec.future", ".spec.rules"}},
	} {
		dropped, altered := lacks(want, read(owned, c.has)).split()
		if !slices.Equal(dropped, c.dropped) || !slices.Equal(altered, c.altered) {
			t.Errorf("%s: dropped %v, altered %v; want %v, %v", c.name, dropped, altered, c.dropped, c.altered)
		}
	}
}
