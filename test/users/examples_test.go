package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/test/users/example"
)

func TestStatusHolds(t *testing.T) {
	condition := func(typ, status string, generation int64) object {
		return object{"type": typ, "status": status, "observedGeneration": generation, "reason": "R", "message": "why"}
	}
	of := func(status object) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object{"metadata": object{"generation": int64(2)}, "status": status}}
	}
	gateway := of(object{"conditions": []any{condition("Programmed", "True", 2), condition("Accepted", "True", 1)}, "addresses": []any{object{"value": "192.0.2.80"}}})
	route := of(object{"parents": []any{
		object{"conditions": []any{condition("Accepted", "True", 2), condition("ResolvedRefs", "False", 2)}},
		object{"conditions": []any{condition("Accepted", "False", 2), condition("ResolvedRefs", "False", 2)}},
	}})
	for _, c := range []struct {
		line string
		o    *unstructured.Unstructured
		want string // of the error
	}{
		{"Gateway web -> Programmed", gateway, ""},
		{"Gateway web -> at 192.0.2.80", gateway, ""},
		{"HTTPRoute web -> not ResolvedRefs", route, ""},
		{"Gateway web -> not Programmed", gateway, "it is True of generation 2 (R: why)"},
		{"Gateway web -> Accepted", gateway, "it is True of generation 1"},
		{"Gateway web -> at 192.0.2.8", gateway, "its addresses are"},
		{"Gateway web -> Ready", gateway, "its status does not say"},
		{"HTTPRoute web -> Accepted", route, "it is False of generation 2"},
		{"HTTPRoute web -> ResolvedRefs", route, "it is False of generation 2"},
	} {
		all, err := example.Read("a.yaml", "# "+c.line)
		if err != nil {
			t.Fatal(err)
		}
		err = statusHolds(c.o, all[0])
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.line, err, c.want)
		}
	}
}
