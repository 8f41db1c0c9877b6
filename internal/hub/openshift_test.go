package hub

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/model"
)

const (
	otherEntry = `{"routerName": "default", "host": "shop.example", "conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "x": 1}`
	ourEntry   = `{"routerName": "spillway", "host": "shop.example", "wildcardPolicy": "None", "conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}]}`
)

func openShiftRoute(t *testing.T, entries ...string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	text := `{"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}, "status": {"ingress": [` + strings.Join(entries, ",") + `]}}`
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestAdmissionPatch: our entry is what is wanted, those of other routers stay as they are
// and where they are, a time stays while its status does, and what is there already is not
// written.
func TestAdmissionPatch(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	yes := &model.Admission{Host: "shop.example", Admitted: true}
	no := &model.Admission{Host: "shop.example", Reason: "HostAlreadyClaimed", Message: strings.Repeat("older ", 1000)}
	const then, after = `"2026-01-02T00:00:00Z"`, `"2026-03-04T05:06:07Z"`
	for name, c := range map[string]struct {
		have []string
		want *model.Admission
		says string // names of the routers, and the time of our entry; empty: nothing is written
	}{
		"first":                   {nil, yes, "spillway " + after},
		"beside another":          {[]string{otherEntry}, yes, "default spillway " + after},
		"there":                   {[]string{otherEntry, ourEntry}, yes, ""},
		"in place":                {[]string{ourEntry, otherEntry}, no, "spillway default " + after},
		"a name more":             {[]string{ourEntry}, &model.Admission{Host: "shop.example", Admitted: true, Canonical: "edges.example"}, "spillway " + then},
		"a wildcard":              {[]string{ourEntry}, &model.Admission{Host: "shop.example", Admitted: true, Subdomain: true}, "spillway " + then},
		"twice":                   {[]string{ourEntry, otherEntry, ourEntry}, yes, "spillway default " + then},
		"left":                    {[]string{ourEntry, otherEntry}, nil, "default"},
		"left, and nothing of us": {[]string{otherEntry}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			have := openShiftRoute(t, c.have...)
			data, err := admission{c.want}.patch(have, now)
			if err != nil {
				t.Fatal(err)
			}
			if c.says == "" {
				if data != nil || !(admission{c.want}).says(have) {
					t.Errorf("it is written: %s", data)
				}
				return
			}
			var got struct {
				Metadata struct{ ResourceVersion string }
				Status   struct{ Ingress []map[string]any }
			}
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if got.Metadata.ResourceVersion != "7" {
				t.Error("the patch does not hold only for what was read")
			}
			var said []string
			var at string
			for _, e := range got.Status.Ingress {
				said = append(said, e["routerName"].(string))
				if e["routerName"] == "spillway" {
					condition := e["conditions"].([]any)[0].(map[string]any)
					at = " \"" + condition["lastTransitionTime"].(string) + "\""
				} else if e["x"] != 1.0 {
					t.Errorf("the entry of another router is now %v", e)
				}
			}
			if text := strings.Join(said, " ") + at; text != c.says {
				t.Errorf("got %s, want %s", text, c.says)
			}
			if err := json.Unmarshal(data, &have.Object); err != nil {
				t.Fatal(err)
			}
			if again, err := (admission{c.want}).patch(have, now); again != nil || err != nil {
				t.Errorf("once written it is written again: %s, %v", again, err)
			}
		})
	}
}
