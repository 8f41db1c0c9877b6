package ingest

import (
	"net/netip"
	"slices"
	"strconv"

	routev1 "github.com/openshift/api/route/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// global reads whether roots of a class have a GlobalIngress. What members serve is of
// no use to anybody who does not know where: those have.
func (r *report) global(p v1alpha1.GlobalIngressPolicy, leaf bool) bool {
	switch p {
	case v1alpha1.GlobalIngressAlways:
		return true
	case v1alpha1.GlobalIngressNever:
		return false
	case "":
	default:
		r.invalid("spec.globalIngress", "%q is not used: set %s or %s, or leave it out", p, v1alpha1.GlobalIngressAlways, v1alpha1.GlobalIngressNever)
	}
	return leaf
}

// globalGroups are the API groups and versions of roots.
var globalGroups = map[string]struct{ group, version string }{
	"Ingress":            {networkingv1.GroupName, "v1"},
	model.OpenShiftRoute: {routev1.GroupName, "v1"},
	"HTTPRoute":          {gatewayv1.GroupName, "v1"},
	"GRPCRoute":          {gatewayv1.GroupName, "v1"},
	"TLSRoute":           {gatewayv1.GroupName, "v1"},
}

// fullWeight is that of a site that serves.
const fullWeight = 100

var healths = map[model.Health]v1alpha1.GlobalHealth{
	model.Up: v1alpha1.HealthUp, model.Down: v1alpha1.HealthDown, model.Unknown: v1alpha1.HealthUnknown,
}

// GlobalIngress reads one, whoever wrote it.
func GlobalIngress(o *v1alpha1.GlobalIngress) (model.Object, model.GlobalSeen) {
	out := model.GlobalSeen{UID: string(o.UID), RootUID: o.Spec.RootRef.UID, Ours: o.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByServe, Held: model.TextsOf(o.Finalizers)}
	if o.DeletionTimestamp != nil {
		out.Leaving = o.DeletionTimestamp.Unix()
	}
	says := &out.Says
	says.Root = model.Object{Workspace: string(Workspace(o)), Kind: o.Spec.RootRef.Kind, Namespace: o.Namespace, Name: o.Spec.RootRef.Name}
	created, err := strconv.ParseInt(o.Annotations[v1alpha1.AnnotationRootCreated], 10, 64)
	says.Created, says.Hosts, says.Serving = created, model.TextsOf(o.Spec.Hosts), int(o.Spec.Serving)
	for i := range o.Spec.Sites {
		says.Sites = append(says.Sites, siteOf(&o.Spec.Sites[i]))
	}
	if n := o.Spec.Omitted; n != nil {
		says.MoreHosts, says.MoreSites, says.MoreAddresses = int(n.Hosts), int(n.Sites), int(n.Addresses)
	}
	owner := GlobalOwner(says.Root, out.RootUID)
	out.Exact = err == nil && slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(r, owner) }) &&
		equality.Semantic.DeepEqual(o.Spec, GlobalSpec(*says, out.RootUID))
	return object(model.GlobalKind, o), out
}

func siteOf(s *v1alpha1.GlobalSite) model.GlobalSite {
	out := model.GlobalSite{
		Name: s.Name, Member: s.Kind == v1alpha1.SiteMember, Region: s.Region, Zone: s.Zone,
		Serving: s.Serving, Reason: s.Reason, Drain: s.Drain, Except: model.TextsOf(s.ExceptHosts),
	}
	if c := s.Coordinates; c != nil {
		out.Located, out.Latitude, out.Longitude = true, c.Latitude, c.Longitude
	}
	var addresses []string
	for _, a := range s.Addresses {
		addresses = append(addresses, a.Value)
	}
	out.Addresses = model.TextsOf(addresses)
	for is, written := range healths {
		if s.Health == written {
			out.Health = is
		}
	}
	return out
}

// GlobalOwner is the reference by which a GlobalIngress goes with its root, though we
// are away.
func GlobalOwner(root model.Object, uid string) metav1.OwnerReference {
	of := globalGroups[root.Kind]
	return metav1.OwnerReference{APIVersion: of.group + "/" + of.version, Kind: root.Kind, Name: root.Name, UID: types.UID(uid)}
}

// GlobalSpec is what a GlobalIngress says, as the API has it.
func GlobalSpec(says model.Global, rootUID string) v1alpha1.GlobalIngressSpec {
	out := v1alpha1.GlobalIngressSpec{
		RootRef: v1alpha1.GlobalRootRef{Group: globalGroups[says.Root.Kind].group, Kind: says.Root.Kind, Name: says.Root.Name, UID: rootUID},
		Hosts:   says.Hosts.List(), Serving: int32(says.Serving), Steering: v1alpha1.SteeringNearest,
	}
	for _, s := range says.Sites {
		out.Sites = append(out.Sites, writtenSite(s))
	}
	if says.MoreHosts+says.MoreSites+says.MoreAddresses > 0 {
		out.Omitted = &v1alpha1.GlobalOmitted{Hosts: int32(says.MoreHosts), Sites: int32(says.MoreSites), Addresses: int32(says.MoreAddresses)}
	}
	return out
}

func writtenSite(s model.GlobalSite) v1alpha1.GlobalSite {
	out := v1alpha1.GlobalSite{
		Name: s.Name, Kind: v1alpha1.SiteEdge, Region: s.Region, Zone: s.Zone, Health: healths[s.Health],
		Serving: s.Serving, Reason: s.Reason, Drain: s.Drain, ExceptHosts: s.Except.List(),
	}
	if s.Member {
		out.Kind = v1alpha1.SiteMember
	}
	if s.Located {
		out.Coordinates = &v1alpha1.Coordinates{Latitude: s.Latitude, Longitude: s.Longitude}
	}
	if s.Serving {
		out.Weight = fullWeight
	}
	for _, value := range s.Addresses.List() {
		a := v1alpha1.GlobalAddress{Type: v1alpha1.AddressIP, Value: value}
		if _, err := netip.ParseAddr(value); err != nil {
			a.Type = v1alpha1.AddressHostname
		}
		out.Addresses = append(out.Addresses, a)
	}
	return out
}
