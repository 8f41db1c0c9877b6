package v1alpha1

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Every kind in the scheme has a CRD that parses, has a status subresource,
// the category "spillway" and an Age column, and whose lists are typed.
func TestCRDsParse(t *testing.T) {
	kinds := map[string][]byte{}
	for _, doc := range CRDs() {
		var u unstructured.Unstructured
		if err := yaml.UnmarshalStrict(doc, &u.Object); err != nil {
			t.Fatalf("a CRD does not parse: %v", err)
		}
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
		if want := plural + "." + GroupName; u.GetName() != want {
			t.Errorf("%s: name %s, want %s", kind, u.GetName(), want)
		}
		categories, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "names", "categories")
		if !slices.Contains(categories, "spillway") {
			t.Errorf("%s: categories %v lack spillway", kind, categories)
		}
		versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
		if len(versions) != 1 {
			t.Fatalf("%s: %d versions, want 1", kind, len(versions))
		}
		checkVersion(t, kind, versions[0].(map[string]any))
		kinds[kind] = doc
	}

	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind := range scheme.KnownTypes(GroupVersion) {
		if _, isList := scheme.KnownTypes(GroupVersion)[kind+"List"]; isList && kinds[kind] == nil {
			t.Errorf("%s is in the scheme but has no CRD", kind)
		}
	}
	if len(kinds) != 7 {
		t.Errorf("%d CRDs, want 7", len(kinds))
	}
}

func checkVersion(t *testing.T, kind string, v map[string]any) {
	t.Helper()
	if _, ok, _ := unstructured.NestedMap(v, "subresources", "status"); !ok {
		t.Errorf("%s: no status subresource", kind)
	}
	columns, _, _ := unstructured.NestedSlice(v, "additionalPrinterColumns")
	if !slices.ContainsFunc(columns, func(c any) bool { return c.(map[string]any)["name"] == "Age" }) {
		t.Errorf("%s: no Age column", kind)
	}
	schema, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
	checkLists(t, kind, schema)
}

// checkLists reports every list without x-kubernetes-list-type: server-side
// apply would replace it whole by accident rather than by decision.
func checkLists(t *testing.T, at string, schema map[string]any) {
	t.Helper()
	inSelector := schema["x-kubernetes-map-type"] == "atomic" // metav1.LabelSelector's own
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		if !inSelector {
			checkLists(t, at+"."+name, p.(map[string]any))
		}
	}
	if schema["type"] != "array" {
		return
	}
	if schema["x-kubernetes-list-type"] == nil {
		t.Errorf("%s: a list without list type", at)
	}
	if schema["maxItems"] == nil && !strings.Contains(at, ".status.") {
		t.Errorf("%s: a list without bound", at)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		checkLists(t, at+"[]", items)
	}
}
