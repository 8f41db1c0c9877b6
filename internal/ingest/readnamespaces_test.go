package ingest

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// TestReadNamespaces: the list is kept in order; a name that can't be one opens nothing.
func TestReadNamespaces(t *testing.T) {
	o := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu-1"}}
	for list, want := range map[string]string{"": "", "web shop web": "shop,web", "A,b": "-"} {
		o.Spec.ReadNamespaces = nil
		for _, n := range strings.Fields(list) {
			o.Spec.ReadNamespaces = append(o.Spec.ReadNamespaces, v1alpha1.NamespaceName(n))
		}
		_, _, c, _, findings := MemberCluster(o)
		told := false
		for _, f := range findings {
			told = told || strings.Contains(f.Message, "is no name of a namespace")
		}
		if c.Namespaces != want || told != (want == "-") {
			t.Errorf("%q: %q, %v", list, c.Namespaces, findings)
		}
	}
}
