package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// api plays the API servers of the hub (below /hub) and of its members (below
// /m/NUMBER) for one fleet, over TLS and HTTP/2, in protobuf where a server
// would: it lists, streams first lists, and sends what is told to those who
// watch. It takes no writes but those about leaves: whoever asks for a single object
// hears that there is none.
type api struct {
	fleet *fleet
	base  string // https://ADDRESS
	http  *http.Server

	mu       sync.Mutex
	revision uint64
	watchers map[*watcher]struct{}
	ready    map[place][]byte // first lists as streams, of this revision: see prepare
	leaves   *leafAPI         // nil: there are none
}

// watcher is a watch that is open.
type watcher struct {
	at     place
	frames chan []byte
}

// place is a collection: of the hub (member -1), or of a member.
type place struct {
	member    int
	plural    string
	namespace string
}

const hub = -1

// backlog is how many events may wait for one watch: more than any burst here.
const backlog = 1 << 17

func serveAPI(f *fleet) (*api, error) {
	pair, err := f.chains[0].pair()
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &api{fleet: f, base: "https://" + l.Addr().String(), revision: 1000, watchers: map[*watcher]struct{}{}}
	if f.leaves {
		a.leaves = newLeafAPI(a)
	}
	a.http = &http.Server{Handler: a, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		if err := a.http.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	return a, nil
}

func (a *api) close() { _ = a.http.Close() }

// kubeconfig is how to reach the API below a path.
func (a *api) kubeconfig(path string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
`, a.base+path)
}

// objects are those of a collection, in the order of their names, as etcd has
// them.
func (a *api) objects(p place) []runtime.Object {
	var all []runtime.Object
	if p.member == hub {
		all = a.fleet.hub(p.plural, p.namespace, func(m int) []byte { return a.kubeconfig(fmt.Sprintf("/m/%d", m)) })
	} else {
		all = a.fleet.member(p.member, p.plural)
	}
	slices.SortFunc(all, func(a, b runtime.Object) int {
		x, y := a.(metav1.Object), b.(metav1.Object)
		return cmp.Or(strings.Compare(x.GetNamespace(), y.GetNamespace()), strings.Compare(x.GetName(), y.GetName()))
	})
	return all
}

// tell sends an edit to those who watch where it happened.
func (a *api) tell(e edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revision++
	a.ready = nil
	e.object.(metav1.Object).SetResourceVersion(strconv.FormatUint(a.revision, 10))
	frame := encodeEvent(e.at.plural, e.typ, e.object)
	for w := range a.watchers {
		if w.at == e.at {
			w.frames <- frame
		}
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	p := place{member: hub}
	if parts[0] == "m" {
		p.member, _ = strconv.Atoi(parts[1])
		parts = parts[1:]
	}
	parts = parts[1:]
	if a.leaves != nil && a.leaves.serve(w, r, p.member, parts) {
		return
	}
	p.plural = parts[len(parts)-1]
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		p.namespace = parts[i+1]
	}
	_, known := lists[p.plural]
	switch {
	case p.plural == "readyz":
		_, _ = io.WriteString(w, "ok")
	case !known || r.Method != http.MethodGet:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.URL.Query().Get("watch") != "":
		a.watch(w, r, p)
	default:
		a.list(w, p, r.URL.Query().Get("labelSelector"))
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

// lists are the resources there are: those of the Gateway API are installed, as they
// are in the hub that comes with Spillway.
var lists = map[string]struct{ list, object func() runtime.Object }{
	"secrets":             {func() runtime.Object { return &corev1.SecretList{} }, func() runtime.Object { return &corev1.Secret{} }},
	"services":            {func() runtime.Object { return &corev1.ServiceList{} }, func() runtime.Object { return &corev1.Service{} }},
	"endpointslices":      {func() runtime.Object { return &discoveryv1.EndpointSliceList{} }, func() runtime.Object { return &discoveryv1.EndpointSlice{} }},
	"ingresses":           {func() runtime.Object { return &networkingv1.IngressList{} }, func() runtime.Object { return &networkingv1.Ingress{} }},
	"ingressclasses":      {func() runtime.Object { return &networkingv1.IngressClassList{} }, func() runtime.Object { return &networkingv1.IngressClass{} }},
	"memberclusters":      {func() runtime.Object { return &v1alpha1.MemberClusterList{} }, func() runtime.Object { return &v1alpha1.MemberCluster{} }},
	"edges":               {func() runtime.Object { return &v1alpha1.EdgeList{} }, func() runtime.Object { return &v1alpha1.Edge{} }},
	"dnszones":            {func() runtime.Object { return &v1alpha1.DNSZoneList{} }, func() runtime.Object { return &v1alpha1.DNSZone{} }},
	"globalingresses":     {func() runtime.Object { return &v1alpha1.GlobalIngressList{} }, func() runtime.Object { return &v1alpha1.GlobalIngress{} }},
	"placements":          {func() runtime.Object { return &v1alpha1.PlacementList{} }, func() runtime.Object { return &v1alpha1.Placement{} }},
	"membertombstones":    {func() runtime.Object { return &v1alpha1.MemberTombstoneList{} }, func() runtime.Object { return &v1alpha1.MemberTombstone{} }},
	"configmaps":          {func() runtime.Object { return &corev1.ConfigMapList{} }, func() runtime.Object { return &corev1.ConfigMap{} }},
	"namespaces":          {func() runtime.Object { return &corev1.NamespaceList{} }, func() runtime.Object { return &corev1.Namespace{} }},
	"gatewayclassconfigs": {func() runtime.Object { return &v1alpha1.GatewayClassConfigList{} }, func() runtime.Object { return &v1alpha1.GatewayClassConfig{} }},
	"gatewayclasses":      {func() runtime.Object { return &gatewayv1.GatewayClassList{} }, func() runtime.Object { return &gatewayv1.GatewayClass{} }},
	"gateways":            {func() runtime.Object { return &gatewayv1.GatewayList{} }, func() runtime.Object { return &gatewayv1.Gateway{} }},
	"listenersets":        {func() runtime.Object { return &gatewayv1.ListenerSetList{} }, func() runtime.Object { return &gatewayv1.ListenerSet{} }},
	"referencegrants":     {func() runtime.Object { return &gatewayv1.ReferenceGrantList{} }, func() runtime.Object { return &gatewayv1.ReferenceGrant{} }},
	"backendtlspolicies":  {func() runtime.Object { return &gatewayv1.BackendTLSPolicyList{} }, func() runtime.Object { return &gatewayv1.BackendTLSPolicy{} }},
	"httproutes":          {func() runtime.Object { return &gatewayv1.HTTPRouteList{} }, func() runtime.Object { return &gatewayv1.HTTPRoute{} }},
	"grpcroutes":          {func() runtime.Object { return &gatewayv1.GRPCRouteList{} }, func() runtime.Object { return &gatewayv1.GRPCRoute{} }},
	"tlsroutes":           {func() runtime.Object { return &gatewayv1.TLSRouteList{} }, func() runtime.Object { return &gatewayv1.TLSRoute{} }},
	"tcproutes":           {func() runtime.Object { return &gatewayv1.TCPRouteList{} }, func() runtime.Object { return &gatewayv1.TCPRoute{} }},
	"udproutes":           {func() runtime.Object { return &gatewayv1.UDPRouteList{} }, func() runtime.Object { return &gatewayv1.UDPRoute{} }},
	"serviceimports":      {func() runtime.Object { return &mcsv1beta1.ServiceImportList{} }, func() runtime.Object { return &mcsv1beta1.ServiceImport{} }},
}

func (a *api) version() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strconv.FormatUint(a.revision, 10)
}

func (a *api) list(w http.ResponseWriter, p place, selector string) {
	list := lists[p.plural].list()
	list.(metav1.ListInterface).SetResourceVersion(a.version())
	labelled, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	all := slices.DeleteFunc(a.objects(p), func(o runtime.Object) bool {
		m := o.(metav1.Object)
		return selector != "" && (m.GetNamespace() != p.namespace || !labelled.Matches(labels.Set(m.GetLabels())))
	})
	for _, o := range all {
		o.(metav1.Object).SetResourceVersion(list.(metav1.ListInterface).GetResourceVersion())
	}
	if err := meta.SetList(list, all); err != nil {
		panic(err)
	}
	c := codecOf(p.plural)
	w.Header().Set("Content-Type", c.media)
	_ = c.object.Encode(list, w)
}

// watch streams the first list if it is asked for, then events.
func (a *api) watch(w http.ResponseWriter, r *http.Request, p place) {
	query := r.URL.Query()
	first := query.Get("sendInitialEvents") == "true"
	me := &watcher{at: p, frames: make(chan []byte, backlog)}
	a.mu.Lock()
	now := strconv.FormatUint(a.revision, 10)
	if !first && query.Get("resourceVersion") != now {
		a.mu.Unlock() // what happened in between is forgotten
		refuse(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	a.watchers[me] = struct{}{}
	ready := a.ready[p]
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, me)
	}()
	w.Header().Set("Content-Type", codecOf(p.plural).watchMedia)
	switch {
	case first && ready != nil:
		_, _ = w.Write(ready)
	case first:
		a.stream(w, p, now)
	}
	me.pump(w, r)
}

// stream writes a first list, as of a revision.
func (a *api) stream(w io.Writer, p place, now string) {
	for _, o := range a.objects(p) {
		o.(metav1.Object).SetResourceVersion(now)
		_, _ = w.Write(encodeEvent(p.plural, watch.Added, o))
	}
	end := lists[p.plural].object()
	end.(metav1.Object).SetResourceVersion(now)
	end.(metav1.Object).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	_, _ = w.Write(encodeEvent(p.plural, watch.Bookmark, end))
}

// prepare has the first lists of all that is watched ready, until something changes. API
// servers have machines of their own: what theirs cost here would count as a restart's.
func (a *api) prepare() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = map[place][]byte{}
	now := strconv.FormatUint(a.revision, 10)
	for w := range a.watchers {
		if a.ready[w.at] == nil {
			var b bytes.Buffer
			a.stream(&b, w.at, now)
			a.ready[w.at] = b.Bytes()
		}
	}
}

// pump writes events as they come; those that wait go together.
func (w *watcher) pump(to http.ResponseWriter, r *http.Request) {
	flush := to.(http.Flusher)
	flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case frame := <-w.frames:
			_, _ = to.Write(frame)
		}
		for more := true; more; {
			select {
			case frame := <-w.frames:
				_, _ = to.Write(frame)
			default:
				more = false
			}
		}
		flush.Flush()
	}
}

// codec is how objects of a resource are written.
type codec struct {
	media, watchMedia string
	object, stream    runtime.Encoder
	framer            runtime.Framer
}

var protobufCodec, jsonCodec = func() (codec, codec) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme, gatewayv1.Install, mcsv1beta1.Install} {
		utilruntime.Must(add(s))
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	factory := serializer.NewCodecFactory(s)
	groups := schema.GroupVersions{corev1.SchemeGroupVersion, networkingv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, v1alpha1.GroupVersion, schema.GroupVersion(gatewayv1.GroupVersion), schema.GroupVersion(mcsv1beta1.GroupVersion)}
	build := func(media, watchMedia string) codec {
		for _, info := range factory.SupportedMediaTypes() {
			if info.MediaType == media {
				return codec{media, watchMedia, factory.EncoderForVersion(info.Serializer, groups),
					factory.EncoderForVersion(info.StreamSerializer.Serializer, groups), info.StreamSerializer.Framer}
			}
		}
		panic(media)
	}
	const protobuf, json = "application/vnd.kubernetes.protobuf", "application/json"
	return build(protobuf, protobuf+";stream=watch"), build(json, json)
}()

// native are the resources that have a protobuf form. Those of CRDs have none.
var native = []string{"secrets", "services", "endpointslices", "ingresses", "ingressclasses", "configmaps", "namespaces"}

func codecOf(plural string) codec {
	if slices.Contains(native, plural) {
		return protobufCodec
	}
	return jsonCodec
}

// encodeEvent is an event as a frame of a watch.
func encodeEvent(plural string, typ watch.EventType, o runtime.Object) []byte {
	c := codecOf(plural)
	var b bytes.Buffer
	if err := restwatch.NewEncoder(streaming.NewEncoder(c.framer.NewFrameWriter(&b), c.stream), c.object).Encode(&watch.Event{Type: typ, Object: o}); err != nil {
		panic(err)
	}
	return b.Bytes()
}
