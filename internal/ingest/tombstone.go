package ingest

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// MemberTombstone reads a MemberTombstone.
func MemberTombstone(o *v1alpha1.MemberTombstone) (model.TombstoneID, model.Tombstone) {
	out := model.Tombstone{
		Created: created(o), Generation: o.Generation, Member: model.Member(o.Spec.Member), Proxied: o.Spec.AllowProxy,
		Cluster: model.ClusterID(o.Spec.ClusterUID), Hub: o.Spec.HubUID, Leaves: -1,
	}
	if ref := o.Spec.Connection.KubeconfigSecretRef; ref != nil {
		out.Secret, out.Key = ref.Name, cmp.Or(ref.Key, v1alpha1.DefaultKubeconfigKey)
	}
	if o.Spec.Leaves != nil {
		out.Leaves = int(*o.Spec.Leaves)
	}
	if o.Spec.Keys != nil {
		out.Keys = int(*o.Spec.Keys)
	}
	spaces := slices.Clone(o.Spec.KeyNamespaces)
	slices.Sort(spaces)
	out.KeySpaces = model.TextsOf(slices.Compact(spaces))
	return model.TombstoneID(o.Name), out
}

// allMembers stands for all members.
const allMembers = "*"

// consents are the members in which a root takes over an object of its name, and whether
// its leaves stay when they are wanted no more.
func consents(o metav1.Object) (adopts model.Texts, orphans bool) {
	a := o.GetAnnotations()
	var names []string
	for name := range strings.SplitSeq(a[v1alpha1.AnnotationAdopt], ",") {
		switch name = strings.TrimSpace(name); name {
		case "", "false":
		case "true":
			names = append(names, allMembers)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return model.TextsOf(slices.Compact(names)), a[v1alpha1.AnnotationLeafDeletion] == string(v1alpha1.LeafOrphan)
}

// Adopts reports whether a root takes over an object of its name in a member.
func Adopts(in model.Manifest, m model.Member) bool {
	return in.Adopts.Has(allMembers) || in.Adopts.Has(string(m))
}
