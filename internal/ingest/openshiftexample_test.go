package ingest

import (
	"os"
	"strings"
	"testing"

	routev1 "github.com/openshift/api/route/v1"
	"sigs.k8s.io/yaml"
)

// TestExampleOfRoutes: nothing is wrong with the Routes that are shown to users.
func TestExampleOfRoutes(t *testing.T) {
	data, err := os.ReadFile("../../examples/openshift/route.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		var o routev1.Route
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		id, root, rules, _, found := Route(&o)
		if len(found) > 0 || root.Admit.Refused.Reason != "" || len(rules) != 1 || len(rules[0].Rules) != 1 {
			t.Errorf("%v: %+v %v", id, root.Admit, found)
		}
		names[id.Name] = true
	}
	if len(names) != 3 {
		t.Errorf("the example has %v", names)
	}
}
