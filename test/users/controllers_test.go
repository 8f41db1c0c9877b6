package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// version is a route of a generation, with our entry of a generation and one of the
// other controller's entries; 0: none.
func version(generation, observed int64, his int) *unstructured.Unstructured {
	var parents []any
	if observed > 0 {
		parents = append(parents, object{"controllerName": ourController, "conditions": []any{object{"type": "Accepted", "observedGeneration": observed}}})
	}
	if his > 0 {
		parents = append(parents, hisEntry(his, 1))
	}
	return &unstructured.Unstructured{Object: object{"metadata": object{"name": "edited", "generation": generation}, "status": object{"parents": parents}}}
}

func TestHistoryCountsWhoWrote(t *testing.T) {
	h := history{wrote: []object{hisEntry(1, 1), hisEntry(2, 1)}}
	for _, v := range []*unstructured.Unstructured{version(1, 1, 0), version(1, 1, 1), version(2, 1, 1), version(2, 1, 2), version(2, 2, 2)} {
		h.next(v)
	}
	if len(h.wrong) > 0 || h.versions != 5 || h.edits != 1 || h.his != 2 || h.ours != 1 {
		t.Errorf("%+v", h)
	}
}

func TestHistoryTellsWhatWasLost(t *testing.T) {
	for _, c := range []struct {
		what string
		bad  *unstructured.Unstructured
	}{
		{"the other's entry", version(2, 2, 0)},
		{"ours", version(2, 0, 2)},
		{"his went back", version(2, 2, 1)},
		{"ours went back", version(2, 1, 2)},
		{"ours is of an edit to come", version(2, 3, 2)},
		{"he did not write that", version(2, 2, 3)},
	} {
		h := history{wrote: []object{hisEntry(1, 1), hisEntry(2, 1)}}
		h.next(version(2, 2, 2))
		if h.next(c.bad); len(h.wrong) != 1 {
			t.Errorf("%s: %v", c.what, h.wrong)
		}
	}
}
