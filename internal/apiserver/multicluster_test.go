package apiserver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// TestMulticlusterVersion: the definitions are of the version that we say.
func TestMulticlusterVersion(t *testing.T) {
	for _, b := range []bundle{importBundle, exportBundle} {
		objects, err := documents(b.files[0])
		if err != nil {
			t.Fatal(err)
		}
		labels := objects[0].GetLabels()
		if labels[crd.ReleaseVersionLabel] != multiclusterVersion || labels[crd.CustomResourceDefinitionSchemaRevisionLabel] != "0" {
			t.Errorf("%s: %v", b.name, labels)
		}
	}
}

// TestNewerMulticluster: nothing is replaced by what may be older.
func TestNewerMulticluster(t *testing.T) {
	for _, c := range []struct {
		version, revision string
		replaced          bool
	}{
		{"v0.5.2", "0", true},
		{"v0.5.2", "", true},
		{"v0.5.2", "1", false},
		{"v0.5.2", "x", false},
		{"v0.5.1", "3", true},
		{"v0.10.0", "0", false},
		{"", "0", false},
		{"main", "0", false},
	} {
		o := &unstructured.Unstructured{}
		o.SetLabels(map[string]string{crd.ReleaseVersionLabel: c.version, crd.CustomResourceDefinitionSchemaRevisionLabel: c.revision})
		if why := newerMulticluster(o); (why == "") != c.replaced {
			t.Errorf("%s revision %q: %q", c.version, c.revision, why)
		}
	}
}

// TestMulticlusterKinds: a hub has imports and no exports, which are of members.
func TestMulticlusterKinds(t *testing.T) {
	s := sharedServer(t)
	if _, err := s.dynamic.Resource(mcsv1beta1.SchemeGroupVersion.WithResource("serviceimports")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	exports := mcsv1beta1.SchemeGroupVersion.WithResource("serviceexports")
	if _, err := s.dynamic.Resource(exports).List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "could not find") {
		t.Errorf("exports: %v", err)
	}
}
