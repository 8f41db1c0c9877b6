package app

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/ui"
	"github.com/spillway-dev/spillway/internal/xds"
)

// TestTheAdminPageNamesEverything: docs/reference/admin.md says what each kind
// of objects is and what each of its fields.
func TestTheAdminPageNamesEverything(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	kinds := map[string]any{
		"members": ui.Member{}, "edges": ui.Edge{}, "fronts": ui.Front{}, "hosts": ui.Host{}, "plans": ui.Plan{}, "streams": xds.StreamStatus{}, "keys": ui.Key{}, "findings": ui.Finding{},
	}
	for kind := range new(server).objects() {
		if kinds[kind] == nil || !strings.Contains(page, "`/v1/"+kind+"`") {
			t.Errorf("the page or this test does not know %s", kind)
		}
	}
	kinds["tables"] = ui.Table{}
	for kind, object := range kinds {
		_, section, _ := strings.Cut(page, "\n### "+strings.ToUpper(kind[:1])+kind[1:]+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, field := range fields(reflect.TypeOf(object)) {
			if !strings.Contains(section, "`"+field+"`") && !strings.Contains(page, "`"+field+"`") {
				t.Errorf("%s: the page does not say what %s is", kind, field)
			}
		}
		if section == "" {
			t.Errorf("%s has no section", kind)
		}
	}
}

// fields are the names of all fields of a type as JSON has them.
func fields(typ reflect.Type) (names []string) {
	for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() == "time" {
		return nil
	}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(append(names, name), fields(f.Type)...)
	}
	return names
}
