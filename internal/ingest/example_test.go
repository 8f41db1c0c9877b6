package ingest

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/examples"
)

// TestExamplePlacements: what users are shown has nothing wrong.
func TestExamplePlacements(t *testing.T) {
	docs := strings.Split(string(examples.Placement), "\n---\n")
	for _, doc := range docs {
		var o v1alpha1.Placement
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		_, spec, found := Placement(&o)
		if len(found) > 0 || len(spec.Targets) == 0 || spec.Broken || !spec.Limited {
			t.Errorf("%s: %+v %v", o.Name, spec, found)
		}
	}
	if len(docs) != 2 {
		t.Errorf("%d examples", len(docs))
	}
}
