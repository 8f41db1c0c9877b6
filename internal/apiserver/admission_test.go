package apiserver

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// An admission case is a title after "== ", an object in YAML, "----", and
// what is expected: "accepted" and lines "field.path = JSON" of the stored
// object, or "refused" and lines that the message contains.
type admissionCase struct {
	title   string
	object  *unstructured.Unstructured
	verdict string
	expect  []string
}

func readCases(t *testing.T, path string) []admissionCase {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []admissionCase
	for _, block := range strings.Split("\n"+string(b), "\n== ")[1:] {
		title, rest, _ := strings.Cut(block, "\n")
		doc, expect, ok := strings.Cut(rest, "\n----\n")
		if !ok {
			t.Fatalf("%s: %s: no ----", path, title)
		}
		c := admissionCase{title: title, object: &unstructured.Unstructured{}}
		if err := yaml.Unmarshal([]byte(doc), &c.object.Object); err != nil {
			t.Fatalf("%s: %s: %v", path, title, err)
		}
		lines := strings.Split(strings.TrimSpace(expect), "\n")
		c.verdict, c.expect = lines[0], lines[1:]
		cases = append(cases, c)
	}
	return cases
}

// Validation and defaults are those of a real API server.
func TestAdmission(t *testing.T) {
	s := sharedServer(t)
	for _, c := range readCases(t, "testdata/admission.txt") {
		t.Run(c.title, func(t *testing.T) {
			got, err := resource(t, s, c.object).Create(t.Context(), c.object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch c.verdict {
			case "accepted":
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				for _, line := range c.expect {
					checkField(t, got, line)
				}
			case "refused":
				if err == nil {
					t.Fatal("accepted")
				}
				for _, part := range c.expect {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the message lacks %q:\n%v", part, err)
					}
				}
			default:
				t.Fatalf("verdict %q", c.verdict)
			}
		})
	}
}

// resource is the client for obj's kind and namespace.
func resource(t *testing.T, s *server, obj *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(s.client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	gvk := obj.GroupVersionKind()
	m, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return s.dynamic.Resource(m.Resource).Namespace(metav1.NamespaceDefault)
	}
	return s.dynamic.Resource(m.Resource)
}

// checkField checks a line "a.b.c = JSON".
func checkField(t *testing.T, obj *unstructured.Unstructured, line string) {
	t.Helper()
	path, want, _ := strings.Cut(line, " = ")
	v, _, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(path, ".")...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s = %s, want %s", path, got, want)
	}
}

// A member that has left spillway.dev/joining behind does not fall back to it
// because somebody replaced it by a manifest without taints.
func TestJoiningDoesNotComeBack(t *testing.T) {
	s := sharedServer(t)
	manifest := func() *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		doc := "apiVersion: spillway.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: back}\nspec: {connection: {kubeconfigSecretRef: {name: back}}}"
		if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	members := resource(t, s, manifest())
	obj, err := members.Create(t.Context(), manifest(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkField(t, obj, `spec.taints = [{"effect":"NoTraffic","key":"spillway.dev/joining"}]`)
	obj, err = members.Patch(t.Context(), "back", types.MergePatchType, []byte(`{"spec":{"drain":true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("a member that is joining can't be changed: %v", err)
	}
	checkField(t, obj, `spec.taints = [{"effect":"NoTraffic","key":"spillway.dev/joining"}]`)
	obj, err = members.Patch(t.Context(), "back", types.MergePatchType, []byte(`{"spec":{"taints":[]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkField(t, obj, `spec.taints = []`)

	replace := manifest()
	replace.SetResourceVersion(obj.GetResourceVersion())
	_, err = members.Update(t.Context(), replace, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), "write `taints: []`") {
		t.Errorf("replaced by a manifest without taints: %v", err)
	}
	_, err = members.Apply(t.Context(), "back", manifest(), metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Errorf("applied again: %v", err)
	}
}
