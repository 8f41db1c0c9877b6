package cluster

import (
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// watched lists what is watched on the hub, and what becomes of it.
func (h *Hub) watched(core, networking, ours *rest.RESTClient) []*source {
	in := h.Inputs
	watch := func(c *rest.RESTClient, plural string, list func() runtime.Object, read func(metav1.Object) []fact) *source {
		return &source{resource: resource{client: c, plural: plural, list: list}, store: newStore(h.Mailbox, read, nil)}
	}
	own := func(kind, plural string, list func() runtime.Object, read func(metav1.Object) []fact) *source {
		s := watch(ours, plural, list, read)
		s.store.saw = h.sees(kind)
		s.defined = true
		return s
	}
	return append(h.certificates(core), []*source{
		h.ingresses(networking),
		watch(networking, "ingressclasses", func() runtime.Object { return &networkingv1.IngressClassList{} }, func(o metav1.Object) []fact {
			k, v, ok, f := ingest.IngressClass(o.(*networkingv1.IngressClass))
			return facts(in, row[model.Class, model.ClassSpec]{in.Classes, k, v}, ok, f)
		}),
		own("GatewayClassConfig", "gatewayclassconfigs", func() runtime.Object { return &v1alpha1.GatewayClassConfigList{} }, func(o metav1.Object) []fact {
			k, v, ok, f := ingest.GatewayClassConfig(o.(*v1alpha1.GatewayClassConfig))
			return facts(in, row[model.Config, model.ConfigSpec]{in.Configs, k, v}, ok, f)
		}),
		own("Edge", "edges", func() runtime.Object { return &v1alpha1.EdgeList{} }, func(o metav1.Object) []fact {
			k, v, ok, f := ingest.Edge(o.(*v1alpha1.Edge))
			return facts(in, row[model.Edge, model.EdgeSpec]{in.Edges, k, v}, ok, f)
		}),
		own("DNSZone", "dnszones", func() runtime.Object { return &v1alpha1.DNSZoneList{} }, func(o metav1.Object) []fact {
			k, v, ok, f := ingest.DNSZone(o.(*v1alpha1.DNSZone))
			return facts(in, row[model.ZoneID, model.ZoneSpec]{in.Zones, k, v}, ok, f)
		}),
		h.memberClusters(ours),
		h.kubeconfigs(core),
		watch(core, "namespaces", func() runtime.Object { return &corev1.NamespaceList{} }, func(o metav1.Object) []fact {
			k, v := ingest.Namespace(o.(*corev1.Namespace))
			return []fact{row[model.NamespaceID, model.Labels]{in.Namespaces, k, v}}
		}),
		watch(core, "configmaps", func() runtime.Object { return &corev1.ConfigMapList{} }, func(o metav1.Object) []fact {
			k, v, ok := ingest.ConfigMap(o.(*corev1.ConfigMap))
			return facts(in, row[model.Object, model.Bundle]{in.Bundles, k, v}, ok, nil)
		}),
	}...)
}

// optional are the kinds that a hub need not have: those of the Gateway API, one of
// multi-cluster services, a newer one of Kubernetes, and one of ours that came later.
func (h *Hub) optional(ours, gateway, certificates, multicluster *rest.RESTClient) []*source {
	in := h.Inputs
	own := func(kind, plural string, list func() runtime.Object, read func(metav1.Object) []fact) *source {
		s := newStore(h.Mailbox, read, nil)
		s.saw = h.sees(kind)
		return &source{resource: resource{client: gateway, plural: plural, list: list}, store: s, optional: true, defined: true}
	}
	all := []*source{
		own("GatewayClass", "gatewayclasses", func() runtime.Object { return &gatewayv1.GatewayClassList{} }, func(o metav1.Object) []fact {
			k, v, ok, f := ingest.GatewayClass(o.(*gatewayv1.GatewayClass))
			return facts(in, row[model.GatewayClass, model.GatewayClassSpec]{in.GatewayClasses, k, v}, ok, f)
		}),
		own("Gateway", "gateways", func() runtime.Object { return &gatewayv1.GatewayList{} }, func(o metav1.Object) []fact {
			k, v, f := ingest.Gateway(o.(*gatewayv1.Gateway))
			return facts(in, row[model.GatewayID, model.GatewaySpec]{in.Gateways, k, v}, true, f)
		}),
		own("ListenerSet", "listenersets", func() runtime.Object { return &gatewayv1.ListenerSetList{} }, func(o metav1.Object) []fact {
			k, v, f := ingest.ListenerSet(o.(*gatewayv1.ListenerSet))
			return facts(in, row[model.Object, model.ListenerSetSpec]{in.ListenerSets, k, v}, true, f)
		}),
		own("ReferenceGrant", "referencegrants", func() runtime.Object { return &gatewayv1.ReferenceGrantList{} }, func(o metav1.Object) []fact {
			k, v := ingest.ReferenceGrant(o.(*gatewayv1.ReferenceGrant))
			return []fact{row[model.Object, model.Grant]{in.Grants, k, v}}
		}),
		own("BackendTLSPolicy", "backendtlspolicies", func() runtime.Object { return &gatewayv1.BackendTLSPolicyList{} }, func(o metav1.Object) []fact {
			k, v, f := ingest.BackendTLSPolicy(o.(*gatewayv1.BackendTLSPolicy))
			return facts(in, row[model.Object, model.BackendTLSSpec]{in.TLSPolicies, k, v}, true, f)
		}),
	}
	for _, s := range all {
		s.store.waits = h.waits
	}
	h.gatewaysInFull(all)
	placements := own(model.PlacementKind, "placements", func() runtime.Object { return &v1alpha1.PlacementList{} }, func(o metav1.Object) []fact {
		k, v, f := ingest.Placement(o.(*v1alpha1.Placement))
		return facts(in, row[model.Object, model.PlacementSpec]{in.Placements, k, v}, true, f)
	})
	placements.client = ours
	tombstones := own(model.TombstoneKind, "membertombstones", func() runtime.Object { return &v1alpha1.MemberTombstoneList{} }, func(o metav1.Object) []fact {
		k, v := ingest.MemberTombstone(o.(*v1alpha1.MemberTombstone))
		return []fact{row[model.TombstoneID, model.Tombstone]{in.Tombstones, k, v}}
	})
	tombstones.client = ours
	all = append(all, tombstones)
	all = append(all, placements)
	globals := newStore(h.Mailbox, func(o metav1.Object) []fact {
		k, v := ingest.GlobalIngress(o.(*v1alpha1.GlobalIngress))
		return []fact{row[model.Object, model.GlobalSeen]{in.Globals, k, v}}
	}, nil)
	all = append(all, &source{
		resource: resource{client: ours, plural: "globalingresses", list: func() runtime.Object { return &v1alpha1.GlobalIngressList{} }},
		store:    globals, optional: true, defined: true,
	})
	bundles := newStore(h.Mailbox, func(o metav1.Object) []fact {
		k, v := ingest.ClusterTrustBundle(o.(*certificatesv1.ClusterTrustBundle))
		return []fact{row[model.Object, model.Bundle]{in.Bundles, k, v}}
	}, nil)
	all = append(all, &source{
		resource: resource{client: certificates, plural: "clustertrustbundles", list: func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} }},
		store:    bundles, optional: true,
	})
	imports := own(model.ImportKind, "serviceimports", func() runtime.Object { return &mcsv1beta1.ServiceImportList{} }, func(o metav1.Object) []fact {
		k, v, f := ingest.ServiceImport(o.(*mcsv1beta1.ServiceImport))
		return facts(in, row[model.Object, model.ImportSpec]{in.Imports, k, v}, true, f)
	})
	imports.client = multicluster
	all = append(all, imports)
	for _, k := range routeKinds {
		routes := &source{resource: resource{client: gateway, plural: k.plural, list: k.list}, store: h.gatewayRoutes(k), optional: true, defined: true}
		all = append(all, routes.writtenBy(h.leafyGateways.some, k.fresh))
	}
	return all
}

// readRoot reads a route object.
type readRoot func(metav1.Object) (model.Object, model.Root, []ingest.HostRules, model.Findings)

// routeKind is a kind of routes of the Gateway API, of which there are many objects.
type routeKind struct {
	kind, plural string
	list         func() runtime.Object
	fresh        func() metav1.Object
	read         readRoot
	leaf         readRoot // of one that only members serve; nil: the same
}

var routeKinds = []routeKind{
	routesOf("HTTPRoute", "httproutes", func() runtime.Object { return &gatewayv1.HTTPRouteList{} }, ingest.HTTPRoute).onlyLeaf(readerOf(ingest.LeafHTTPRoute)),
	routesOf("GRPCRoute", "grpcroutes", func() runtime.Object { return &gatewayv1.GRPCRouteList{} }, ingest.GRPCRoute).onlyLeaf(readerOf(ingest.LeafGRPCRoute)),
	routesOf("TLSRoute", "tlsroutes", func() runtime.Object { return &gatewayv1.TLSRouteList{} }, ingest.TLSRoute),
	routesOf("TCPRoute", "tcproutes", func() runtime.Object { return &gatewayv1.TCPRouteList{} }, ingest.TCPRoute),
	routesOf("UDPRoute", "udproutes", func() runtime.Object { return &gatewayv1.UDPRouteList{} }, ingest.UDPRoute),
}

// routesOf is the kind whose objects are of T.
func routesOf[T any, O interface {
	*T
	metav1.Object
}](kind, plural string, list func() runtime.Object, read func(O) (model.Object, model.Root, []ingest.HostRules, model.Findings)) routeKind {
	return routeKind{kind: kind, plural: plural, list: list, fresh: fresh[T, O], read: readerOf(read)}
}

// readerOf reads objects that are O.
func readerOf[O metav1.Object](read func(O) (model.Object, model.Root, []ingest.HostRules, model.Findings)) readRoot {
	return func(o metav1.Object) (model.Object, model.Root, []ingest.HostRules, model.Findings) {
		return read(o.(O))
	}
}

func (k routeKind) onlyLeaf(read readRoot) routeKind {
	k.leaf = read
	return k
}

// fresh is an empty object of T.
func fresh[T any, O interface {
	*T
	metav1.Object
}]() metav1.Object {
	return O(new(T))
}

// gatewaysInFull has Gateways and what belongs to them kept in full.
func (h *Hub) gatewaysInFull(all []*source) {
	for _, k := range []struct {
		plural string
		leafy  func([]fact) bool
		fresh  func() metav1.Object
		full   func(o metav1.Object, text []byte) (model.Object, model.Manifest)
	}{
		{"gateways", h.leafyGateways.ofClass, fresh[gatewayv1.Gateway], func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
			return ingest.GatewayManifest(o.(*gatewayv1.Gateway), text)
		}},
		{"listenersets", h.leafyGateways.any, fresh[gatewayv1.ListenerSet], func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
			return ingest.ManifestOf(model.ListenerSetKind, o, ingest.SpecIn(text, o.(*gatewayv1.ListenerSet).Spec))
		}},
		{"referencegrants", h.leafyGateways.any, fresh[gatewayv1.ReferenceGrant], func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
			return ingest.ManifestOf("ReferenceGrant", o, ingest.SpecIn(text, o.(*gatewayv1.ReferenceGrant).Spec))
		}},
		{"backendtlspolicies", h.leafyGateways.any, fresh[gatewayv1.BackendTLSPolicy], func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
			return ingest.ManifestOf("BackendTLSPolicy", o, ingest.SpecIn(text, o.(*gatewayv1.BackendTLSPolicy).Spec))
		}},
	} {
		s := all[slices.IndexFunc(all, func(s *source) bool { return s.plural == k.plural })]
		h.inFull(s.store, k.leafy, k.full)
		s.writtenBy(h.leafyGateways.some, k.fresh)
	}
}

// ingresses are many. While members may serve some all are asked for as JSON: of what
// protobuf has and our types lack, the names are not known.
func (h *Hub) ingresses(networking *rest.RESTClient) *source {
	s := h.roots("Ingress", func(o metav1.Object) (model.Object, model.Root, []ingest.HostRules, model.Findings) {
		return ingest.Ingress(o.(*networkingv1.Ingress))
	})
	h.inFull(s, h.leafy.has, func(o metav1.Object, text []byte) (model.Object, model.Manifest) {
		return ingest.Manifest(o.(*networkingv1.Ingress), text)
	})
	h.onlyLeaves(s, h.leafy.has, readerOf(ingest.LeafIngress))
	list := func() runtime.Object { return &networkingv1.IngressList{} }
	of := &source{resource: resource{client: networking, plural: "ingresses", list: list, written: h.leafy.some}, store: s}
	return of.writtenBy(h.leafy.some, fresh[networkingv1.Ingress])
}

// roots is a store of route objects of a kind.
func (h *Hub) roots(kind string, read readRoot) *store {
	var w words
	s := newStore(h.Mailbox, func(o metav1.Object) []fact {
		id, root, rules, f := read(o)
		return append(h.rootFacts(&w, id, root, rules), facts(h.Inputs, nil, false, f)...)
	}, rootsOf(h.Inputs, kind))
	s.waits, s.saw = h.waits, h.sees(kind)
	return s
}

// waits has members and the hub be asked about what an object refers to: see Members.need.
func (h *Hub) waits(facts []fact, then func()) bool {
	w := newWaiter(then)
	h.Members.need(referred(facts), w)
	h.need(secretsIn(facts), w)
	return w.waits()
}

// rootFacts are what a route object gives but for findings.
func (h *Hub) rootFacts(w *words, id model.Object, root model.Root, rules []ingest.HostRules) []fact {
	in := h.Inputs
	w.root(&root)
	out := make([]fact, 0, len(rules)+2)
	out = append(out, row[model.Object, model.Root]{in.Roots, id, root})
	for _, of := range rules {
		w.rules(of.Rules)
		out = append(out, row[model.RulesID, model.Rules]{in.Rules, model.RulesID{Root: id, Host: of.Host}, of.Rules})
	}
	return out
}

// rootsOf is what route objects of a kind give: a row each, and rules by host.
func rootsOf(in *fleet.Inputs, of string) kind {
	return withParts{
		first: kindOf[model.Object, model.Root]{
			table: in.Roots,
			key:   func(n name, _ string) model.Object { return n.object(of) },
			also:  func(model.Object) string { return "" },
			sum:   sumRoot,
		},
		parts: kindOf[model.RulesID, model.Rules]{
			table: in.Rules,
			key: func(n name, host string) model.RulesID {
				return model.RulesID{Root: n.object(of), Host: model.Host(host)}
			},
			also: func(k model.RulesID) string { return string(k.Host) },
			sum:  sumRules,
		},
	}
}

// sees tells of objects of a kind that have a status of ours, as they come.
func (h *Hub) sees(kind string) func(name, metav1.Object) {
	return func(n name, o metav1.Object) {
		if h.Seen != nil {
			h.Seen(n.object(kind), o)
		}
	}
}

// memberClusters give rows, and the members their connections.
func (h *Hub) memberClusters(ours *rest.RESTClient) *source {
	s := newStore(h.Mailbox, func(o metav1.Object) []fact {
		k, v, _, ok, f := ingest.MemberCluster(o.(*v1alpha1.MemberCluster))
		return facts(h.Inputs, row[model.Member, model.MemberSpec]{h.Inputs.Members, k, v}, ok, f)
	}, nil)
	s.saw = h.sees("MemberCluster")
	s.changed = func(n name, o metav1.Object) {
		if o == nil {
			h.Members.leave(model.Member(n.name))
			return
		}
		if k, _, c, ok, _ := ingest.MemberCluster(o.(*v1alpha1.MemberCluster)); ok {
			h.Members.want(k, c)
		}
	}
	s.waits = func(facts []fact, then func()) bool {
		if len(facts) == 0 {
			return false
		}
		r, ok := facts[0].(row[model.Member, model.MemberSpec])
		return ok && h.Members.moved(r.k, r.v.Spaces, then)
	}
	list := func() runtime.Object { return &v1alpha1.MemberClusterList{} }
	return &source{resource: resource{client: ours, plural: "memberclusters", list: list}, store: s, defined: true}
}

// notKubeconfigs are types of Secrets that hold no kubeconfig, and may be many or large.
var notKubeconfigs = []string{string(corev1.SecretTypeTLS), string(corev1.SecretTypeServiceAccountToken), "helm.sh/release.v1"}

// kubeconfigs are Secrets in our own namespace. They give no rows.
func (h *Hub) kubeconfigs(core *rest.RESTClient) *source {
	s := newStore(h.Mailbox, func(metav1.Object) []fact { return nil }, nil)
	s.changed = func(n name, o metav1.Object) {
		if o == nil {
			h.Members.secret(n.name, nil)
			return
		}
		h.Members.secret(n.name, o.(*corev1.Secret).Data)
	}
	list := func() runtime.Object { return &corev1.SecretList{} }
	return &source{
		resource: resource{client: core, plural: "secrets", namespace: h.Namespace, fields: selectType("", notKubeconfigs...), list: list},
		store:    s, kubeconfigs: true,
	}
}

// hint says what is wrong with watching a resource, and what to do.
func (h *Hub) hint(s *source, err error) string {
	switch {
	case apierrors.IsNotFound(err) && s.client.APIVersion() == v1alpha1.GroupVersion:
		return fmt.Sprintf("the hub does not know %s.%s: install our CRDs", s.plural, v1alpha1.GroupName)
	case apierrors.IsForbidden(err) && s.namespace != "":
		return fmt.Sprintf("we may not list and watch %s of namespace %s: grant it to our account", s.plural, s.namespace)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("we may not list and watch %s: grant it to our account", s.plural)
	case apierrors.IsUnauthorized(err):
		return "the hub refuses our credentials: renew the kubeconfig"
	}
	return fmt.Sprintf("%s: %s", s.plural, cause(err))
}
