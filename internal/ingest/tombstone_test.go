package ingest

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestConsents: where a root takes over an object of its name, and what becomes of its
// leaves.
func TestConsents(t *testing.T) {
	for _, c := range []struct {
		adopt, policy    string
		eu1, eu2, orphan bool
	}{
		{"", "", false, false, false},
		{"false", "Delete", false, false, false},
		{"true", "Orphan", true, true, true},
		{"eu-1", "orphan", true, false, false},
		{" eu-2 , eu-1,", "", true, true, false},
		{"eu", "", false, false, false},
	} {
		_, m := Manifest(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAdopt: c.adopt, v1alpha1.AnnotationLeafDeletion: c.policy}}}, nil)
		if Adopts(m, "eu-1") != c.eu1 || Adopts(m, "eu-2") != c.eu2 || m.Orphans != c.orphan {
			t.Errorf("%q, %q: %+v", c.adopt, c.policy, m)
		}
	}
}

// TestMemberTombstone: what it says is a row.
func TestMemberTombstone(t *testing.T) {
	o := &v1alpha1.MemberTombstone{Spec: v1alpha1.MemberTombstoneSpec{
		Member: "eu-1", Connection: v1alpha1.MemberConnection{KubeconfigSecretRef: &v1alpha1.SecretKeyRef{Name: "s"}}, ClusterUID: "c", HubUID: "h", AllowProxy: true,
	}}
	o.Name = "eu-1-x"
	k, v := MemberTombstone(o)
	want := model.Tombstone{Created: v.Created, Member: "eu-1", Secret: "s", Key: "kubeconfig", Proxied: true, Cluster: "c", Hub: "h", Leaves: -1}
	if k != "eu-1-x" || v != want {
		t.Errorf("%s %+v", k, v)
	}
	o.Spec.Leaves, o.Spec.Keys, o.Spec.KeyNamespaces = new(int32(0)), new(int32(2)), []string{"shop", "certs"}
	if _, v = MemberTombstone(o); v.Leaves != 0 || v.Keys != 2 || v.KeySpaces != model.TextsOf([]string{"certs", "shop"}) {
		t.Errorf("%+v", v)
	}
}
