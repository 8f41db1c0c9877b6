package ingest

import (
	"slices"
	"testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestSpacesOfMembers: what a MemberCluster says of namespaces, and what of that can't be
// used, though no server checked it.
func TestSpacesOfMembers(t *testing.T) {
	o := &v1alpha1.MemberCluster{}
	o.Name = "eu-1"
	o.Spec.Connection.KubeconfigSecretRef = &v1alpha1.SecretKeyRef{Name: "s"}
	o.Spec.CreateNamespaces = true
	o.Spec.Namespaces = []v1alpha1.MemberNamespace{
		{Namespace: "shop", As: "team-shop"},
		{Workspace: "eu", Namespace: "pay", As: "pay"},
		{Namespace: "shop", As: "again"},
		{Namespace: "twin", As: "team-shop"},
		{Namespace: "bad", As: "Team"},
		{Namespace: "system", As: "kube-system"},
		{Namespace: "own", As: "spillway-system"},
	}
	_, spec, _, ok, findings := MemberCluster(o)
	want := model.Spaces{{Of: "bad"}, {Of: "eu--pay", As: "pay"}, {Of: "own"}, {Of: "shop", As: "team-shop"}, {Of: "system"}, {Of: "twin"}}
	if !ok || !spec.Spaces.Equal(want) || !spec.Makes {
		t.Errorf("read as %+v", spec.Spaces)
	}
	var fields []string
	for _, f := range findings {
		fields = append(fields, string(f.Field))
	}
	slices.Sort(fields)
	if !slices.Equal(fields, []string{"spec.namespaces[2]", "spec.namespaces[3].as", "spec.namespaces[4].as", "spec.namespaces[5].as", "spec.namespaces[6].as"}) {
		t.Errorf("told of %v", fields)
	}
}
