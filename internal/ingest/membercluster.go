package ingest

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// Connection says where the way to a member's API is written: a key of a
// Secret in the namespace of `spillway serve`, and whether that may lead over a
// proxy.
type Connection struct {
	Secret, Key string
	Proxied     bool
	Namespaces  string // that are read, sorted, with commas; empty: all
}

// MemberCluster reads a MemberCluster: what it says, and apart from it, since
// no decision depends on it, how to reach it. One whose name can't be part of a
// locality gives no row.
func MemberCluster(o *v1alpha1.MemberCluster) (model.Member, model.MemberSpec, Connection, bool, model.Findings) {
	r := reportOf(object("MemberCluster", o))
	if !r.label(o.Name) {
		return model.Member(o.Name), model.MemberSpec{}, Connection{}, false, r.Findings()
	}
	out := model.MemberSpec{
		Created:    created(o),
		Generation: o.Generation,
		Place: model.Place{
			Provider: string(o.Spec.Location.Provider),
			Region:   string(o.Spec.Location.Region),
			Zone:     string(o.Spec.Location.Zone),
		},
		Networks: networks(o.Spec.Networks),
		Labels:   o.Labels,
		Taints:   r.taints(o.Spec.Taints),
		Drain:    o.Spec.Drain,
		Leaving:  o.DeletionTimestamp != nil,
		Forced:   o.Annotations[v1alpha1.AnnotationForceDelete] == "true",
		Seen:     seen(&o.Status),
		Guarded:  slices.Contains(o.Finalizers, v1alpha1.FinalizerLeaves),
		Stays:    slices.Contains(o.Finalizers, v1alpha1.FinalizerMember),
	}
	if o.Spec.StaleAfter != nil {
		out.StaleAfter = o.Spec.StaleAfter.Duration
	}
	out.Fenced, out.PodRanges = len(o.Spec.PodRanges) > 0, r.podRanges(o.Spec.PodRanges)
	out.Leaves = r.leafAddresses(o.Spec.LeafAddresses)
	out.Spaces, out.Makes = r.spaces(o.Spec.Namespaces), o.Spec.CreateNamespaces
	out.Prunes, out.Orphans = o.Annotations[v1alpha1.AnnotationDeleteLeaves] == "true", o.Spec.LeafDeletionPolicy == v1alpha1.LeafOrphan
	r.locate("spec.location.coordinates", o.Spec.Location.Coordinates, &out.Place)
	var c Connection
	if ref := o.Spec.Connection.KubeconfigSecretRef; ref != nil && ref.Name != "" {
		c = Connection{Secret: ref.Name, Key: cmp.Or(ref.Key, v1alpha1.DefaultKubeconfigKey), Proxied: o.Annotations[v1alpha1.AnnotationAllowProxy] == "true"}
	} else {
		r.invalid("spec.connection", "there is no way to reach the member: set kubeconfigSecretRef")
	}
	c.Namespaces = r.readNamespaces(o.Spec.ReadNamespaces)
	return model.Member(o.Name), out, c, true, r.Findings()
}

// noNamespace is the list of none: no namespace is called so.
const noNamespace = "-"

// readNamespaces are those that are read. One that can't be a name is none, and of such
// alone nothing is read: a mistake never opens the others.
func (r *report) readNamespaces(list []v1alpha1.NamespaceName) string {
	var out []string
	for i, n := range list {
		if len(validation.IsDNS1123Label(string(n))) > 0 {
			r.invalid(model.Field("spec.readNamespaces").Index(i), "%q is no name of a namespace, and nothing is read there: use a DNS label (a-z, 0-9 and -, at most 63 characters)", n)
			continue
		}
		out = append(out, string(n))
	}
	if len(out) == 0 && len(list) > 0 {
		return noNamespace
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// seen reports whether the member's objects were once read: its status counts them.
func seen(s *v1alpha1.MemberClusterStatus) bool { return s.Services != nil || s.Endpoints != nil }

// podRanges are where a member's endpoints may be. One that can't be read allows
// nothing: left out, it would open the fence that somebody meant to close.
func (r *report) podRanges(list []v1alpha1.CIDR) []netip.Prefix {
	var out []netip.Prefix
	for i, s := range list {
		p, err := netip.ParsePrefix(string(s))
		if err != nil || p.Addr().Is4In6() {
			r.invalid(model.Field("spec.podRanges").Index(i), "%q is no range of addresses and allows no endpoint: write it as 10.1.0.0/16 or 2001:db8:1::/48", s)
			continue
		}
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// leafAddresses are what a member's controllers may name. What can't be read allows
// nothing.
func (r *report) leafAddresses(list []v1alpha1.LeafAddress) model.LeafAddresses {
	var out model.LeafAddresses
	for i, a := range list {
		s := string(a)
		if strings.Contains(s, "/") {
			p, err := netip.ParsePrefix(s)
			if err != nil || p.Addr().Is4In6() {
				r.invalid(model.Field("spec.leafAddresses").Index(i), "%q is no range of addresses, and allows none: write it as 192.0.2.0/24 or 2001:db8:1::/48", s)
				continue
			}
			out.Ranges = append(out.Ranges, p.Masked())
			continue
		}
		_, otherwise := netip.ParseAddr(s)
		if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(s, "*.")); otherwise == nil || len(problems) > 0 {
			r.invalid(model.Field("spec.leafAddresses").Index(i), "%q is neither, and allows none: write a range of addresses such as 192.0.2.7/32, a host name, or *.example.com for all below it", s)
			continue
		}
		out.Names = append(out.Names, s)
	}
	slices.SortFunc(out.Ranges, netip.Prefix.Compare)
	slices.Sort(out.Names)
	out.Ranges, out.Names = slices.Compact(out.Ranges), slices.Compact(out.Names)
	return out
}

// spaces are the namespaces that a member calls otherwise. One of which what is said can't
// be used is in none there: under the hub's name somebody else's may be.
func (r *report) spaces(list []v1alpha1.MemberNamespace) model.Spaces {
	var out model.Spaces
	for i, n := range list {
		field := model.Field("spec.namespaces").Index(i)
		of, as := model.MemberNamespace(n.Workspace, n.Namespace), n.As
		told := slices.ContainsFunc(out, func(s model.Space) bool { return s.Of == of })
		other, given := out.Has(as)
		switch {
		case told:
			r.invalid(field, "namespace %s is listed twice: the first counts", of)
			continue
		case len(validation.IsDNS1123Label(as)) > 0:
			r.invalid(field+".as", "%q is no name of a namespace: use a-z, 0-9 and -, at most 63 characters; nothing of %s is in the member until then", as, of)
			as = ""
		case strings.HasPrefix(as, "kube-"), as == ownNamespace:
			r.invalid(field+".as", "%s has no leaves: name another namespace; nothing of %s is in the member until then", as, of)
			as = ""
		case given:
			r.invalid(field+".as", "%s is what the member calls %s: give %s a name of its own; nothing of it is in the member until then", as, other, of)
			as = ""
		}
		out = append(out, model.Space{Of: of, As: as})
	}
	slices.SortFunc(out, func(a, b model.Space) int { return strings.Compare(a.Of, b.Of) })
	return out
}

// ownNamespace is where Spillway itself is by default, in members by the roles that we ship.
const ownNamespace = "spillway-system"

// taints are those that keep traffic away. Left out, which is not the same
// as empty, a member is joining.
func (r *report) taints(list []v1alpha1.Taint) []string {
	if list == nil {
		return []string{v1alpha1.TaintJoining}
	}
	var out []string
	for i, t := range list {
		if t.Effect != v1alpha1.TaintNoTraffic {
			r.unsupported(model.Field("spec.taints").Index(i)+".effect", "%q is not supported: use %s", t.Effect, v1alpha1.TaintNoTraffic)
			continue
		}
		if t.Value != "" {
			out = append(out, t.Key+"="+t.Value)
			continue
		}
		out = append(out, t.Key)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
