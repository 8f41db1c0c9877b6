package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// HubOptions are what a Hub is made of.
type HubOptions struct {
	Config    *rest.Config // of the API server users write to
	Namespace string       // where the kubeconfig Secrets of members are
	// SecretNamespaces are those whose Secrets of type kubernetes.io/tls are read; none: all.
	SecretNamespaces []string

	Inputs  *fleet.Inputs
	Tables  *Tables
	Mailbox *Mailbox
	Members *Members
	Log     *slog.Logger

	// AcceptHub takes the hub as it is, though it may be another one than the
	// checkpoint knows, or an older state of it. It holds for this start only.
	AcceptHub bool

	// Seen is told of each object that has a status of ours as it comes, with that; it may
	// be nil, must not call back, and must not keep the object.
	Seen func(model.Object, metav1.Object)

	// Known runs inside the commit after which every kind of the hub is known:
	// all were listed once. It runs once.
	Known func(*inc.Tx)
}

// Hub watches the hub.
type Hub struct {
	HubOptions
	api     *api
	core    *rest.RESTClient
	sources []*source

	secrets    *reads[model.SecretID] // that something refers to
	secretAsks *asks[model.SecretID]
	vaults     []vault
	asked      chan struct{} // there are questions to a vault

	leafy         leafy         // classes of which Ingresses and Routes are read in full
	leafyGateways leafyGateways // the same of Gateways and their routes

	mu     sync.Mutex
	uid    string // of the hub these rows are from; empty: not known
	frozen string // why deletes are stopped; empty: they are not
	known  bool
	told   tidings // what the log says of the connection
}

// tidings is what was last said of the connection to the hub.
type tidings uint8

const (
	notTold tidings = iota
	watching
	notWatching
)

// HubState is how well the hub is watched.
type HubState struct {
	Connected bool     // all kinds are watched that the hub has
	Known     bool     // all kinds were listed since the start, or are not there
	Waiting   []string // resources that are not watched, sorted
	Problem   string   // why, for the first of them
	Frozen    string   // why deletes are stopped; empty: they are not
}

func newHub(o HubOptions) *Hub {
	return &Hub{HubOptions: o, secrets: newReads[model.SecretID](time.Now), secretAsks: newAsks[model.SecretID](), asked: make(chan struct{}, 1)}
}

// NewHub prepares to watch; nothing is sent before Run.
func NewHub(o HubOptions) (*Hub, error) {
	if o.Namespace == "" {
		return nil, errors.New("hub: the namespace of serve is missing")
	}
	a, err := dial(o.Config, nil)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	core, err1 := a.group(corev1.SchemeGroupVersion)
	networking, err2 := a.group(networkingv1.SchemeGroupVersion)
	ours, err3 := a.group(v1alpha1.GroupVersion)
	gateway, err4 := a.group(gatewayAPI)
	certificates, err5 := a.group(certificatesv1.SchemeGroupVersion)
	multicluster, err6 := a.group(multiclusterAPI)
	definitions, err7 := a.group(definitionsAPI)
	openShift, err8 := a.group(openShiftAPI)
	for _, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
	}
	h := newHub(o)
	h.api, h.core = a, core
	h.sources = append(h.watched(core, networking, ours), h.optional(ours, gateway, certificates, multicluster)...)
	h.sources = append(h.sources, h.definition(definitions), h.openShiftRoutes(openShift))
	offered := newOffers()
	for _, s := range h.sources {
		s.pace, s.budget, s.told, s.offers, s.kin = usual, a.budget, h.judge, offered, h.sources
		s.pace.absent = absentFor(time.Second, 30*time.Second)
		s.check, s.store.surge = h.identify, &surge{}
		s.store.before = func(c revisionChange) { h.reached(s, c) }
		s.store.after = func() { h.listed(s); s.endAsked() }
		s.gone = func() { h.lacks(s) }
	}
	return h, nil
}

// Run watches until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range h.sources {
		all.Go(func() { s.run(ctx) })
	}
	all.Go(func() { h.answers(ctx) })
	all.Wait()
	h.api.close()
}

// State tells how well the hub is watched. Any goroutine may ask.
func (h *Hub) State() HubState {
	s := HubState{}
	for _, src := range h.sources {
		running, err := src.state()
		if running {
			continue
		}
		s.Waiting = append(s.Waiting, src.plural)
		if err != nil && s.Problem == "" {
			s.Problem = h.hint(src, err)
		}
	}
	slices.Sort(s.Waiting)
	s.Waiting = slices.Compact(s.Waiting)
	s.Connected = len(s.Waiting) == 0
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Known, s.Frozen = h.known, h.frozen
	return s
}

// judge logs a change of the connection as a whole, once each way.
func (h *Hub) judge() {
	s := h.State()
	h.mu.Lock()
	was := h.told
	switch {
	case s.Connected:
		h.told = watching
	case s.Problem != "":
		h.told = notWatching
	}
	now := h.told
	h.mu.Unlock()
	switch now {
	case was:
	case watching:
		h.Log.Info("hub: watching", "server", h.api.host())
	case notWatching:
		h.Log.Warn("hub: not watching; what is known stays in use", "server", h.api.host(), "resources", strings.Join(s.Waiting, ","), "problem", s.Problem)
	}
}

// lacks is called when the hub does not have a kind that it need not have, or does not
// let us read it.
func (h *Hub) lacks(s *source) {
	if s.hidden() {
		h.Log.Warn("hub: we may not list and watch "+s.plural+": grant it to our account; nothing else waits for it", "server", h.api.host(), "fields", s.fields)
		h.listed(s)
		return
	}
	h.Log.Info("hub: it does not have "+s.plural+"; they are watched when it does", "server", h.api.host(), "group", s.client.APIVersion().Group)
	h.listed(s)
}

// listed is called after each list of a resource.
func (h *Hub) listed(of *source) {
	if of.kubeconfigs {
		h.Members.secretsListed()
	}
	for _, s := range h.sources {
		if !s.settled() {
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known {
		return
	}
	h.known = true
	type knownKey struct{}
	// Bulk keeps its order, so every row of the lists is in the tables by the end of
	// that commit; not inside it, where those of the same commit are not seen yet.
	h.Mailbox.Put(Bulk, knownKey{}, func(tx *inc.Tx) {
		if h.Known != nil {
			h.Known(tx)
		}
	})
}

// Adopt takes over the rows of a checkpoint. Call it before Run.
func (h *Hub) Adopt(past Past) {
	in := h.Inputs
	h.leafy.set(leafyOf(past, in))
	h.leafyGateways.now.Store(leafyGatewaysOf(past, in))
	for _, r := range rows(past, in.Problems) {
		if plural := troubled(r.k.Kind); r.k.Member == "" && plural != "" {
			h.source(plural).store.adopt(nameIn(r.k.Workspace, r.k.Namespace, r.k.Name), r)
		}
	}
	for _, r := range rows(past, in.Manifests) { // first: see store.adopt
		if plural := troubled(r.k.Kind); plural != "" {
			h.source(plural).store.adopt(nameIn(r.k.Workspace, r.k.Namespace, r.k.Name), r)
		}
	}
	h.adoptRoots(past, "ingresses", "Ingress")
	h.adoptRoots(past, routesPlural, model.OpenShiftRoute)
	for _, k := range routeKinds {
		h.adoptRoots(past, k.plural, k.kind)
	}
	adopt(h, past, "gatewayclasses", in.GatewayClasses, func(k model.GatewayClass) name { return nameIn(k.Object().Workspace, "", k.Object().Name) })
	adopt(h, past, "gateways", in.Gateways, func(k model.GatewayID) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "listenersets", in.ListenerSets, func(k model.Object) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "referencegrants", in.Grants, func(k model.Object) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "namespaces", in.Namespaces, func(k model.NamespaceID) name { return nameIn(k.Workspace, "", k.Name) })
	adopt(h, past, "backendtlspolicies", in.TLSPolicies, func(k model.Object) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "placements", in.Placements, func(k model.Object) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "globalingresses", in.Globals, func(k model.Object) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "membertombstones", in.Tombstones, func(k model.TombstoneID) name { return name{"", string(k)} })
	for _, r := range rows(past, in.Bundles) {
		h.source(plurals[r.k.Kind]).store.adopt(nameIn(r.k.Workspace, r.k.Namespace, r.k.Name), r)
	}
	adopt(h, past, "serviceimports", in.Imports, func(k model.Object) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, definitionsPlural, in.Releases, func(k model.Object) name { return nameIn(k.Workspace, "", k.Name) })
	adopt(h, past, "ingressclasses", in.Classes, func(k model.Class) name { return nameIn(k.Object().Workspace, "", k.Object().Name) })
	adopt(h, past, "gatewayclassconfigs", in.Configs, func(k model.Config) name { return nameIn(k.Object().Workspace, "", k.Object().Name) })
	adopt(h, past, "edges", in.Edges, func(k model.Edge) name { return name{"", string(k)} })
	adopt(h, past, "dnszones", in.Zones, func(k model.ZoneID) name { return nameIn(k.Workspace, k.Namespace, k.Name) })
	adopt(h, past, "memberclusters", in.Members, func(k model.Member) name { return name{"", string(k)} })
	for _, r := range rows(past, in.Certificates) {
		of, n := h.secretsOf(r.k.Namespace), r.k.Name
		if route, inline := r.k.Inline(); inline {
			of, n = h.source(routesPlural), route
		}
		if of == nil { // they are not read any more
			drop(h.Mailbox, Urgent, in.Certificates, r.k)
			continue
		}
		of.store.adopt(nameIn(r.k.Workspace, r.k.Namespace, n), r)
	}
	if _, stale := values(past, in.Problems)[hubObject]; stale {
		drop(h.Mailbox, Urgent, in.Problems, hubObject) // said again if it is still so
	}
	if h.AcceptHub {
		return
	}
	for _, r := range rows(past, h.Tables.Identities) {
		h.uid = r.v.UID
		if s := h.source(string(r.k)); s != nil {
			s.store.revision = r.v.Revision
		}
	}
}

// troubled is the resource of a kind whose objects may have problems; empty: there is
// none.
func troubled(kind string) string {
	for _, k := range routeKinds {
		if k.kind == kind {
			return k.plural
		}
	}
	return plurals[kind]
}

// plurals are those of the kinds that are no routes of the Gateway API.
var plurals = map[string]string{
	"Ingress": "ingresses", "IngressClass": "ingressclasses", "GatewayClassConfig": "gatewayclassconfigs",
	"Edge": "edges", "DNSZone": "dnszones", "MemberCluster": "memberclusters",
	"GatewayClass": "gatewayclasses", "Gateway": "gateways", "ListenerSet": "listenersets", "ReferenceGrant": "referencegrants",
	model.OpenShiftRoute: routesPlural, "BackendTLSPolicy": "backendtlspolicies", "Placement": "placements", model.TombstoneKind: "membertombstones", "ConfigMap": "configmaps", "ClusterTrustBundle": "clustertrustbundles", "ServiceImport": "serviceimports",
}

func adopt[K inc.Key[K], V inc.Value[V]](h *Hub, past Past, plural string, t *inc.Table[K, V], of func(K) name) {
	s := h.source(plural).store
	for _, r := range rows(past, t) {
		s.adopt(of(r.k), r)
	}
}

// adoptRoots takes over route objects of a kind with their rules.
func (h *Hub) adoptRoots(past Past, plural, kind string) {
	rules := map[model.Object][]fact{}
	for _, r := range rows(past, h.Inputs.Rules) {
		if r.k.Root.Kind == kind {
			rules[r.k.Root] = append(rules[r.k.Root], r)
		}
	}
	s := h.source(plural).store
	for _, r := range rows(past, h.Inputs.Roots) {
		if r.k.Kind != kind {
			continue
		}
		s.adopt(nameIn(r.k.Workspace, r.k.Namespace, r.k.Name), append([]fact{r}, rules[r.k]...)...)
	}
}

// source finds a resource that gives rows.
func (h *Hub) source(plural string) *source {
	for _, s := range h.sources {
		if s.plural == plural && !s.kubeconfigs {
			return s
		}
	}
	return nil
}

// secretsOf finds the Secrets of a namespace; nil: they are not read.
func (h *Hub) secretsOf(namespace string) *source {
	for _, s := range h.sources {
		if s.plural == "secrets" && !s.kubeconfigs && (s.namespace == "" || s.namespace == namespace) {
			return s
		}
	}
	return nil
}

// errNoObject is what is wrong with JSON of something else: see errNoList.
var errNoObject = errors.New("the answer is no Namespace")

// identifyTimeout bounds the question which cluster this is.
const identifyTimeout = 5 * time.Second

// uidOf asks which cluster a server is of: the UID of namespace kube-system; empty
// if it can't or won't tell, as kcp.
func uidOf(ctx context.Context, core *rest.RESTClient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	var ns corev1.Namespace
	err := core.Get().Resource("namespaces").Name(metav1.NamespaceSystem).MaxRetries(0).Do(ctx).Into(&ns)
	if silent(err) {
		return "", nil
	}
	if err == nil && ns.UID == "" {
		err = errNoObject
	}
	return string(ns.UID), err
}
