package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestChangesOfStatus(t *testing.T) {
	made := func(uid, label, status string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: object{"status": object{"is": status}}}
		o.SetUID(types.UID(uid))
		o.SetLabels(map[string]string{"label": label})
		return o
	}
	first := []*unstructured.Unstructured{made("a", "", "x"), made("b", "", "y")}
	for _, c := range []struct {
		what string
		then []*unstructured.Unstructured
		want int
	}{
		{"nothing", nil, 0},
		{"something else", []*unstructured.Unstructured{made("a", "new", "x")}, 0},
		{"a status, and back", []*unstructured.Unstructured{made("a", "", "y"), made("a", "", "x")}, 2},
		{"one that came", []*unstructured.Unstructured{made("c", "", "x")}, 1},
	} {
		if got := statusChanges(first, c.then); len(got) != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
