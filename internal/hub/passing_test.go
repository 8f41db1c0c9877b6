package hub

import (
	"fmt"
	"testing"
	"time"
)

// heldBy is what an API server notes of who wrote a condition of a Gateway and of its
// listener http.
func heldBy(manager, kind string) string {
	conditions := fmt.Sprintf(`"f:conditions": {"k:{\"type\":\"%s\"}": {".": {}, "f:status": {}}}`, kind)
	return fmt.Sprintf(`{"manager": "%s", "operation": "Apply", "subresource": "status", "fieldsType": "FieldsV1",
		"fieldsV1": {"f:status": {%s, "f:listeners": {"k:{\"name\":\"http\"}": {"f:attachedRoutes": {}, %s}}}}}`, manager, conditions, conditions)
}

// TestConditionsPass: a condition that is there only while it is True goes when it is
// not wanted any more, if we wrote it; all others stay as they are, and do not make us
// write again and again.
func TestConditionsPass(t *testing.T) {
	const (
		overlaps = "OverlappingTLSConfig"
		accepted = "Accepted=True@2 kept"
	)
	for name, c := range map[string]struct {
		by, kind, there string
		wanted          bool
		applied         string // none: it says all that it should
	}{
		"ours":                       {"spillway", overlaps, "True", false, accepted},
		"ours, of a Gateway":         {"spillway", "InsecureFrontendValidationMode", "True", false, accepted},
		"ours, of a GatewayClass":    {"spillway", "SupportedVersion", "False", false, accepted},
		"ours, and wanted":           {"spillway", overlaps, "True", true, ""},
		"another's":                  {"other", overlaps, "True", false, ""},
		"another's, and wanted":      {"other", overlaps, "False", true, accepted + ", OverlappingTLSConfig=True@2"},
		"of a type that stays":       {"spillway", "Programmed", "True", false, ""},
		"of a type that is not ours": {"spillway", "Other", "True", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			condition := func(kind, status string) string {
				return fmt.Sprintf(`{"type": "%s", "status": "%s", "reason": "Because", "message": "", "observedGeneration": 2, "lastTransitionTime": "%s"}`, kind, status, longAgo)
			}
			conditions := "[" + condition("Accepted", "True") + ", " + condition(c.kind, c.there) + "]"
			have := unstructuredOf(fromJSON(t, fmt.Sprintf(`{"metadata": {"name": "web", "generation": 2, "managedFields": [{"manager": "spillway", "operation": "Update"}, %s]},
				"status": {"conditions": %s, "listeners": [{"name": "http", "supportedKinds": [], "attachedRoutes": 0, "conditions": %s}]}}`,
				heldBy(c.by, c.kind), conditions, conditions)))
			types := []string{"Accepted=True"}
			if c.wanted {
				types = append(types, c.kind+"=True")
			}
			want := Status{Generation: 2, Conditions: wants(types...), Listeners: []Listener{{Name: "http", Conditions: wants(types...)}}, Each: true}
			status, err := want.status(have, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var of struct {
				Conditions any
				Listeners  []struct{ Conditions any }
			}
			if err := convert(status, &of); err != nil {
				t.Fatal(err)
			}
			if got := shown(of.Conditions); got != c.applied {
				t.Errorf("%q is applied, want %q", got, c.applied)
			}
			for _, l := range of.Listeners {
				if got := shown(l.Conditions); got != c.applied {
					t.Errorf("of the listener %q is applied, want %q", got, c.applied)
				}
			}
		})
	}
}

// TestWhatIsAnothersIsNotTakenOver: what we apply for another reason leaves out a
// condition of such a type that another wrote.
func TestWhatIsAnothersIsNotTakenOver(t *testing.T) {
	have := unstructuredOf(fromJSON(t, fmt.Sprintf(`{"metadata": {"name": "web", "generation": 2, "managedFields": [%s]}, "status": {"conditions": [
		{"type": "OverlappingTLSConfig", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "%s"}]}}`, heldBy("other", "OverlappingTLSConfig"), longAgo)))
	status, err := Status{Generation: 2, Conditions: wants("Accepted=True"), Each: true}.status(have, time.Now())
	var of struct{ Conditions any }
	if err == nil {
		err = convert(status, &of)
	}
	if got := shown(of.Conditions); err != nil || got != "Accepted=True@2" {
		t.Errorf("%v: %q is applied", err, got)
	}
}
