package ingest

import (
	"encoding/json"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// untold are labels and annotations of a root that leaves never have, whatever is
// allowed: in a member they would say something else, or somebody there would take the
// leaf for an object of its own, and change or delete it. A name that ends in "/" is the
// beginning of names.
var untold = []string{
	"argocd.argoproj.io/",          // Argo CD would take the leaf for a part of the root's application, and prune it
	"app.kubernetes.io/instance",   // Argo CD tracks objects by it, where it is not told otherwise
	"app.kubernetes.io/managed-by", // Helm and others tell what is theirs by it
	"meta.helm.sh/",                // Helm tells by it of which release an object is
	"helm.sh/",                     // the same, and hooks of Helm
	"kustomize.toolkit.fluxcd.io/", // Flux prunes by it
	"helm.toolkit.fluxcd.io/",      // Flux prunes by it
	"objectset.rio.cattle.io/",     // Rancher's Fleet prunes by it
	"kapp.k14s.io/",                // kapp tells what is its own by it
	"config.kubernetes.io/",        // kpt and cli-utils tell what is theirs by it
	"cli-utils.sigs.k8s.io/",       // the same
	"kubectl.kubernetes.io/",       // kubectl apply would compare the leaf with what was applied to the root
	"kubernetes.io/ingress.class",  // the class of a leaf is the member's
	"kcp.io/",                      // it says in which workspace of the hub the root is
	v1alpha1.GroupName + "/",       // it is a word of ours, with another meaning in members
}

// Untold reports whether leaves never have a label or an annotation.
func Untold(name string) bool {
	return slices.ContainsFunc(untold, func(pattern string) bool { return model.Named(pattern, name) })
}

// Metadata is the part of a Whole that users write.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Only leaves the annotations that are allowed.
func (m *Metadata) Only(allowed func(name string) bool) {
	maps.DeleteFunc(m.Annotations, func(name, _ string) bool { return !allowed(name) })
}

// metadataOf is that of an object, without what leaves never have.
func metadataOf(o metav1.Object) Metadata {
	out := Metadata{Labels: maps.Clone(o.GetLabels()), Annotations: maps.Clone(o.GetAnnotations())}
	for _, m := range []map[string]string{out.Labels, out.Annotations} {
		maps.DeleteFunc(m, func(name, _ string) bool { return Untold(name) })
	}
	return out
}

// Manifest is an Ingress in full, given its JSON, if that is known.
func Manifest(o *networkingv1.Ingress, text []byte) (model.Object, model.Manifest) {
	return ManifestOf("Ingress", o, SpecIn(text, o.Spec))
}

// IngressAddresses are those that the status of an Ingress names, given as JSON.
func IngressAddresses(status []byte) (model.Texts, error) {
	var o networkingv1.Ingress
	if len(status) == 0 {
		return model.Texts{}, nil
	}
	if err := json.Unmarshal(status, &o.Status); err != nil {
		return model.Texts{}, err
	}
	return published(&o), nil
}

// leaf reads what leaves of a class look like. A class that no edge serves has none.
func (r *report) leaf(s *v1alpha1.GatewayClassConfigSpec, out *model.ConfigSpec) bool {
	ok := true
	if s.Edges != nil {
		r.invalid("spec.edges", "members serve a class with dataPlane %s, and no edges: leave edges out", v1alpha1.DataPlaneLeaf)
		ok = false
	}
	if out.Own {
		r.invalid("spec.address", "a class with dataPlane %s has no edges: leave address out", v1alpha1.DataPlaneLeaf)
		ok = false
	}
	out.Leaf = &model.LeafSpec{}
	if s.Leaf == nil {
		return ok
	}
	const field = model.Field("spec.leaf")
	out.Leaf.Class, out.Leaf.Gateways = string(s.Leaf.IngressClassName), string(s.Leaf.GatewayClassName)
	out.Leaf.TLS = r.leafTLS(field+".tls", s.Leaf.TLS)
	for i, a := range s.Leaf.Annotations {
		if r.told((field + ".annotations").Index(i), string(a)) {
			out.Leaf.Annotations = append(out.Leaf.Annotations, string(a))
		}
	}
	slices.Sort(out.Leaf.Annotations)
	out.Leaf.Annotations = slices.Compact(out.Leaf.Annotations)
	for i, m := range s.Leaf.Members {
		of := model.LeafMember{Name: model.Member(m.Name), Class: string(m.IngressClassName), Gateways: string(m.GatewayClassName), TLS: r.leafTLS((field+".members").Index(i)+".tls", m.TLS)}
		for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
			if !r.told((field+".members").Index(i)+".annotations", name) {
				continue
			}
			if of.Annotations == nil {
				of.Annotations = model.Labels{}
			}
			of.Annotations[name] = string(m.Annotations[name])
		}
		out.Leaf.Members = append(out.Leaf.Members, of)
	}
	slices.SortStableFunc(out.Leaf.Members, func(a, b model.LeafMember) int { return a.Name.Compare(b.Name) })
	out.Leaf.Members = slices.CompactFunc(out.Leaf.Members, func(a, b model.LeafMember) bool { return a.Name == b.Name })
	return ok
}

// leafTLS reads whose Secrets leaves name. What is unknown gives no key away.
func (r *report) leafTLS(field model.Field, of v1alpha1.LeafTLS) model.LeafTLS {
	switch of {
	case "", v1alpha1.LeafTLSLocal, v1alpha1.LeafTLSDistribute:
		return model.LeafTLS(of)
	}
	r.invalid(field, "%q is not used: set %s or %s; %[2]s until then", of, v1alpha1.LeafTLSLocal, v1alpha1.LeafTLSDistribute)
	return model.LeafTLSLocal
}

// told reports whether leaves may have an annotation, and says so if not.
func (r *report) told(field model.Field, name string) bool {
	if Untold(name) {
		r.invalid(field, "%s never goes along to members: take it out", name)
		return false
	}
	return true
}
