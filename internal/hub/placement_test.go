package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestEditsOfPlacements: they are in the status as the kind has them, and where there is
// none nothing is.
func TestEditsOfPlacements(t *testing.T) {
	edit := leaf.PlacedEdit{
		Of: model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "web"}, Token: "1f0c9a2b.1", Reason: v1alpha1.ReasonStopped,
		Wave: 1, Waves: 3, Having: 2, Members: 5, Returnable: true, Message: strings.Repeat("x", 2*maxMemberMessage),
	}
	for _, c := range []struct {
		edits []leaf.PlacedEdit
		there []any
		want  string
	}{
		{nil, nil, "unchanged"},
		{[]leaf.PlacedEdit{edit}, nil, "HTTPRoute shop web 1f0c9a2b.1 Stopped 1 3 2 5 true 1024"},
		{nil, []any{map[string]any{"kind": "Ingress"}}, "none"},
	} {
		status := map[string]any{"chosen": int64(0), "total": int64(0), "members": []any{}}
		if c.there != nil {
			status["edits"] = c.there
		}
		now, err := placementStatus(&leaf.PlacementStatus{Edits: c.edits}).status(&unstructured.Unstructured{Object: map[string]any{"status": status}}, time.Time{})
		got := "unchanged"
		if now != nil {
			got = "none"
		}
		if list, ok := now["edits"].([]v1alpha1.PlacementEdit); ok {
			e := list[0]
			got = fmt.Sprint(e.Kind, " ", e.Namespace, " ", e.Name, " ", e.Token, " ", e.Reason, " ", e.Wave, " ", e.Waves, " ", e.Having, " ", e.Members, " ", e.Returnable, " ", len(e.Message))
		}
		if err != nil || got != c.want {
			t.Errorf("%v: %s, want %s (%v)", c.edits, got, c.want, err)
		}
	}
}
