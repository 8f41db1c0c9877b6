package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	routev1 "github.com/openshift/api/route/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// fakeAPI is an API server that lists and watches, streams first lists, speaks
// protobuf, and fails as it is told.
type fakeAPI struct {
	*httptest.Server

	mu       sync.Mutex
	revision uint64
	objects  map[string]map[name]runtime.Object // by plural
	past     []was
	watchers map[chan watch.Event]string // -> plural
	uid      string                      // of kube-system
	status   int                         // answered to everything, if not 0
	lacks    string                      // a group of kinds that is not there
	denies   string                      // a group of kinds that nobody may see
	hides    map[string]bool             // paths that nobody may see
	future   bool                        // what it has as JSON has fields that our types lack
	unable   bool                        // it can't stream lists
	hang     bool                        // nothing is answered
	token    string                      // wanted, if not empty
	lists    int                         // served, first lists of watches included
	broken   chan struct{}               // closed to end all watches
}

// was is what an object was before a revision: nil if it was not there.
type was struct {
	revision uint64
	plural   string
	name     name
	object   runtime.Object
}

func newFakeAPI(t testing.TB) *fakeAPI {
	f := &fakeAPI{
		revision: 100, uid: "one", objects: map[string]map[name]runtime.Object{},
		watchers: map[chan watch.Event]string{}, broken: make(chan struct{}),
	}
	f.Server = httptest.NewUnstartedServer(f)
	f.EnableHTTP2 = true
	f.Config.ErrorLog = log.New(io.Discard, "", 0) // connections are cut on purpose
	f.StartTLS()
	t.Cleanup(func() {
		f.sever()
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// sever ends all watches.
func (f *fakeAPI) sever() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.broken)
	f.broken = make(chan struct{})
}

func (f *fakeAPI) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// pluralOf names the resource of an object.
func pluralOf(o runtime.Object) string {
	switch o.(type) {
	case *metav1.PartialObjectMetadata:
		return definitionsPlural
	case *corev1.Secret:
		return "secrets"
	case *corev1.Service:
		return "services"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	case *networkingv1.Ingress:
		return "ingresses"
	case *networkingv1.IngressClass:
		return "ingressclasses"
	case *v1alpha1.MemberCluster:
		return "memberclusters"
	case *v1alpha1.Edge:
		return "edges"
	case *v1alpha1.DNSZone:
		return "dnszones"
	case *v1alpha1.GatewayClassConfig:
		return "gatewayclassconfigs"
	case *v1alpha1.Placement:
		return "placements"
	case *v1alpha1.GlobalIngress:
		return "globalingresses"
	case *v1alpha1.MemberTombstone:
		return "membertombstones"
	case *routev1.Route:
		return routesPlural
	case *gatewayv1.GatewayClass:
		return "gatewayclasses"
	case *gatewayv1.Gateway:
		return "gateways"
	case *gatewayv1.HTTPRoute:
		return "httproutes"
	case *gatewayv1.GRPCRoute:
		return "grpcroutes"
	case *gatewayv1.TLSRoute:
		return "tlsroutes"
	case *gatewayv1.TCPRoute:
		return "tcproutes"
	case *gatewayv1.UDPRoute:
		return "udproutes"
	case *gatewayv1.ListenerSet:
		return "listenersets"
	case *gatewayv1.ReferenceGrant:
		return "referencegrants"
	case *corev1.Namespace:
		return "namespaces"
	case *gatewayv1.BackendTLSPolicy:
		return "backendtlspolicies"
	case *certificatesv1.ClusterTrustBundle:
		return "clustertrustbundles"
	case *corev1.ConfigMap:
		return "configmaps"
	case *mcsv1beta1.ServiceImport:
		return "serviceimports"
	case *mcsv1beta1.ServiceExport:
		return "serviceexports"
	}
	panic(fmt.Sprintf("%T", o))
}

// apply makes or changes objects.
func (f *fakeAPI) apply(objects ...runtime.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range objects {
		o = o.DeepCopyObject()
		plural, m := pluralOf(o), o.(metav1.Object)
		if f.objects[plural] == nil {
			f.objects[plural] = map[name]runtime.Object{}
		}
		event := watch.Added
		if _, ok := f.objects[plural][nameOf(m)]; ok {
			event = watch.Modified
		}
		f.next(plural, nameOf(m))
		m.SetResourceVersion(strconv.FormatUint(f.revision, 10))
		f.objects[plural][nameOf(m)] = o
		f.tell(plural, watch.Event{Type: event, Object: o})
	}
}

// remove deletes an object.
func (f *fakeAPI) remove(o runtime.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	plural, n := pluralOf(o), nameOf(o.(metav1.Object))
	old := f.objects[plural][n].DeepCopyObject()
	f.next(plural, n)
	delete(f.objects[plural], n)
	old.(metav1.Object).SetResourceVersion(strconv.FormatUint(f.revision, 10))
	f.tell(plural, watch.Event{Type: watch.Deleted, Object: old})
}

// next is another revision, at which an object changes.
func (f *fakeAPI) next(plural string, n name) {
	f.revision++
	f.past = append(f.past, was{f.revision, plural, n, f.objects[plural][n]})
}

// at is the objects of a kind as they were at a revision.
func (f *fakeAPI) at(plural string, revision uint64) map[name]runtime.Object {
	out := maps.Clone(f.objects[plural])
	for _, w := range slices.Backward(f.past) {
		if w.plural != plural || w.revision <= revision {
			continue
		}
		delete(out, w.name)
		if w.object != nil {
			out[w.name] = w.object
		}
	}
	return out
}

// exactly is the revision a list has to be of, and whether it has to be of just that
// one: a server that is asked for a page at a revision, and not told how that is to be
// matched, takes it so (legacy rules of resourceVersion with limit, Kubernetes API concepts).
func exactly(query url.Values) (uint64, bool) {
	v, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	return v, err == nil && v != 0 && query.Get("limit") != "" && query.Get("resourceVersionMatch") == ""
}

func (f *fakeAPI) tell(plural string, e watch.Event) {
	for w, p := range f.watchers {
		if p == plural {
			w <- e
		}
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	status, hang, broken, token, lacks, denies, unable := f.status, f.hang, f.broken, f.token, f.lacks, f.denies, f.unable
	hidden := f.hides[r.URL.Path]
	f.mu.Unlock()
	if hang {
		select {
		case <-r.Context().Done():
		case <-broken:
		}
		return
	}
	if status == 0 && strings.HasSuffix(r.URL.Path, "/"+definitionsPlural) && r.Header.Get("Accept") != metadataType(r.URL.Query().Get("watch") != "") {
		status = http.StatusNotAcceptable // a schema is not to be read
	}
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		status = http.StatusUnauthorized
	}
	if status == 0 && lacks != "" && strings.HasPrefix(r.URL.Path, "/apis/"+lacks+"/") {
		status = http.StatusNotFound
	}
	if status == 0 && hidden || status == 0 && denies != "" && strings.HasPrefix(r.URL.Path, "/apis/"+denies+"/") {
		status = http.StatusForbidden
	}
	if status != 0 {
		f.fail(w, status)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/readyz":
		_, _ = w.Write([]byte("ok"))
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		f.mu.Lock()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(f.uid)}}
		f.mu.Unlock()
		f.respond(w, r, ns)
	case unable && r.URL.Query().Get("sendInitialEvents") != "":
		f.fail(w, http.StatusBadRequest)
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r, parts[len(parts)-1], namespaceOf(parts))
	default:
		f.list(w, r, parts[len(parts)-1], namespaceOf(parts))
	}
}

// reasons of failures, by status code.
var reasons = map[int]metav1.StatusReason{
	400: metav1.StatusReasonBadRequest, 401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 410: metav1.StatusReasonExpired,
}

func (f *fakeAPI) fail(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(status), Reason: reasons[status],
	})
}

func namespaceOf(parts []string) string {
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		return parts[i+1]
	}
	return ""
}

// wanted applies namespace and the field selectors: on a name, and on the type of a Secret.
func wanted(o runtime.Object, namespace string, query url.Values) bool {
	if name, ok := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name="); ok && name != o.(metav1.Object).GetName() {
		return false
	}
	if namespace != "" && o.(metav1.Object).GetNamespace() != namespace {
		return false
	}
	if selector, err := labels.Parse(query.Get("labelSelector")); err != nil || !selector.Matches(labels.Set(o.(metav1.Object).GetLabels())) {
		return false
	}
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return true
	}
	for term := range strings.SplitSeq(query.Get("fieldSelector"), ",") {
		if v, not := strings.CutPrefix(term, "type!="); not && v == string(secret.Type) {
			return false
		} else if v, is := strings.CutPrefix(term, "type="); is && v != string(secret.Type) {
			return false
		} else if v, is := strings.CutPrefix(term, "metadata.name="); is && v != secret.Name {
			return false
		}
	}
	return true
}

func pick(objects map[name]runtime.Object, namespace string, query url.Values) []runtime.Object {
	var out []runtime.Object
	for _, o := range objects {
		if wanted(o, namespace, query) {
			out = append(out, o.DeepCopyObject()) // the encoder writes into it
		}
	}
	slices.SortFunc(out, func(a, b runtime.Object) int {
		return nameOf(a.(metav1.Object)).compare(nameOf(b.(metav1.Object)))
	})
	return out
}

var lists = map[string]func() runtime.Object{
	definitionsPlural:     func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
	"secrets":             func() runtime.Object { return &corev1.SecretList{} },
	"services":            func() runtime.Object { return &corev1.ServiceList{} },
	"endpointslices":      func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
	"ingresses":           func() runtime.Object { return &networkingv1.IngressList{} },
	"ingressclasses":      func() runtime.Object { return &networkingv1.IngressClassList{} },
	"memberclusters":      func() runtime.Object { return &v1alpha1.MemberClusterList{} },
	"edges":               func() runtime.Object { return &v1alpha1.EdgeList{} },
	"dnszones":            func() runtime.Object { return &v1alpha1.DNSZoneList{} },
	"gatewayclassconfigs": func() runtime.Object { return &v1alpha1.GatewayClassConfigList{} },
	"globalingresses":     func() runtime.Object { return &v1alpha1.GlobalIngressList{} },
	"placements":          func() runtime.Object { return &v1alpha1.PlacementList{} },
	"membertombstones":    func() runtime.Object { return &v1alpha1.MemberTombstoneList{} },
	routesPlural:          func() runtime.Object { return &routev1.RouteList{} },
	"gatewayclasses":      func() runtime.Object { return &gatewayv1.GatewayClassList{} },
	"gateways":            func() runtime.Object { return &gatewayv1.GatewayList{} },
	"httproutes":          func() runtime.Object { return &gatewayv1.HTTPRouteList{} },
	"grpcroutes":          func() runtime.Object { return &gatewayv1.GRPCRouteList{} },
	"tlsroutes":           func() runtime.Object { return &gatewayv1.TLSRouteList{} },
	"tcproutes":           func() runtime.Object { return &gatewayv1.TCPRouteList{} },
	"udproutes":           func() runtime.Object { return &gatewayv1.UDPRouteList{} },
	"listenersets":        func() runtime.Object { return &gatewayv1.ListenerSetList{} },
	"referencegrants":     func() runtime.Object { return &gatewayv1.ReferenceGrantList{} },
	"backendtlspolicies":  func() runtime.Object { return &gatewayv1.BackendTLSPolicyList{} },
	"clustertrustbundles": func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },
	"serviceimports":      func() runtime.Object { return &mcsv1beta1.ServiceImportList{} },
	"serviceexports":      func() runtime.Object { return &mcsv1beta1.ServiceExportList{} },
	"configmaps":          func() runtime.Object { return &corev1.ConfigMapList{} },
	"namespaces":          func() runtime.Object { return &corev1.NamespaceList{} },
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request, plural, namespace string) {
	f.mu.Lock()
	f.lists++
	list, objects, revision := lists[plural](), f.objects[plural], f.revision
	if v, ok := exactly(r.URL.Query()); ok {
		objects, revision = f.at(plural, v), v
	}
	err := meta.SetList(list, pick(objects, namespace, r.URL.Query()))
	list.(metav1.ListInterface).SetResourceVersion(strconv.FormatUint(revision, 10))
	f.mu.Unlock()
	if err != nil {
		panic(err)
	}
	f.respond(w, r, list)
}

// ofFuture has objects in JSON have fields that our types lack.
type ofFuture struct{ runtime.Encoder }

func (e ofFuture) Encode(o runtime.Object, w io.Writer) error {
	var text bytes.Buffer
	if err := e.Encoder.Encode(o, &text); err != nil {
		return err
	}
	out := text.String()
	for _, field := range []string{`"spec":{`, `"rules":[{`} {
		out = strings.ReplaceAll(out, field, field+`"future":{"a":1},`)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(out, ",}", "}"))
	return err
}

func (f *fakeAPI) encoder(r *http.Request) (string, runtime.Encoder, runtime.Encoder, runtime.Framer) {
	media, e, stream, framer := encoder(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.future && media == jsonType {
		e = ofFuture{e}
	}
	return media, e, stream, framer
}

func encoder(r *http.Request) (mediaType string, e runtime.Encoder, stream runtime.Encoder, framer runtime.Framer) {
	media := jsonType
	if strings.HasPrefix(r.Header.Get("Accept"), protobufType) {
		media = protobufType
	}
	for _, info := range codecs.SupportedMediaTypes() {
		if info.MediaType == media {
			gvs := schema.GroupVersions{corev1.SchemeGroupVersion, networkingv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, v1alpha1.GroupVersion, gatewayAPI, multiclusterAPI, routev1.GroupVersion, certificatesv1.SchemeGroupVersion, metav1.SchemeGroupVersion}
			return media, codecs.EncoderForVersion(info.Serializer, gvs), codecs.EncoderForVersion(info.StreamSerializer.Serializer, gvs), info.StreamSerializer.Framer
		}
	}
	panic("no " + media)
}

func (f *fakeAPI) respond(w http.ResponseWriter, r *http.Request, o runtime.Object) {
	media, e, _, _ := f.encoder(r)
	w.Header().Set("Content-Type", media)
	if err := e.Encode(o, w); err != nil {
		panic(err)
	}
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, plural, namespace string) {
	query := r.URL.Query()
	media, e, stream, framer := f.encoder(r)
	if media == protobufType {
		media += ";stream=watch"
	}
	w.Header().Set("Content-Type", media)
	events := make(chan watch.Event, 64)
	out := restwatch.NewEncoder(streaming.NewEncoder(framer.NewFrameWriter(w), stream), e)
	f.mu.Lock()
	if v, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64); err == nil && v < f.revision && query.Get("sendInitialEvents") == "" {
		f.mu.Unlock() // what happened in between is forgotten
		f.fail(w, http.StatusGone)
		return
	}
	broken := f.broken
	var first []runtime.Object
	var end runtime.Object
	if query.Get("sendInitialEvents") == "true" {
		f.lists++
		first = pick(f.objects[plural], namespace, query)
		end = f.bookmark(plural)
	}
	f.watchers[events] = plural
	f.mu.Unlock()
	defer f.do(func() { delete(f.watchers, events) })
	for _, o := range first {
		must(out.Encode(&watch.Event{Type: watch.Added, Object: o}))
	}
	if end != nil {
		must(out.Encode(&watch.Event{Type: watch.Bookmark, Object: end}))
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-broken:
			return
		case ev := <-events:
			ev.Object = ev.Object.DeepCopyObject()
			if wanted(ev.Object, namespace, query) {
				must(out.Encode(&ev))
				w.(http.Flusher).Flush()
			}
		}
	}
}

// must panics, which ends the request and shows in the test's log.
func must(err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (f *fakeAPI) bookmark(plural string) runtime.Object {
	o := map[string]runtime.Object{
		definitionsPlural: &metav1.PartialObjectMetadata{},
		"secrets":         &corev1.Secret{}, "services": &corev1.Service{}, "endpointslices": &discoveryv1.EndpointSlice{},
		"ingresses": &networkingv1.Ingress{}, "ingressclasses": &networkingv1.IngressClass{}, "memberclusters": &v1alpha1.MemberCluster{},
		"edges": &v1alpha1.Edge{}, "dnszones": &v1alpha1.DNSZone{}, "gatewayclassconfigs": &v1alpha1.GatewayClassConfig{}, "placements": &v1alpha1.Placement{}, "globalingresses": &v1alpha1.GlobalIngress{}, "membertombstones": &v1alpha1.MemberTombstone{},
		"gatewayclasses": &gatewayv1.GatewayClass{}, "gateways": &gatewayv1.Gateway{}, "httproutes": &gatewayv1.HTTPRoute{}, "grpcroutes": &gatewayv1.GRPCRoute{}, "tlsroutes": &gatewayv1.TLSRoute{}, "tcproutes": &gatewayv1.TCPRoute{}, "udproutes": &gatewayv1.UDPRoute{},
		"referencegrants": &gatewayv1.ReferenceGrant{}, "namespaces": &corev1.Namespace{}, "configmaps": &corev1.ConfigMap{},
		"backendtlspolicies": &gatewayv1.BackendTLSPolicy{}, "listenersets": &gatewayv1.ListenerSet{}, "clustertrustbundles": &certificatesv1.ClusterTrustBundle{},
		routesPlural: &routev1.Route{}, "serviceimports": &mcsv1beta1.ServiceImport{}, "serviceexports": &mcsv1beta1.ServiceExport{},
	}[plural]
	m := o.(metav1.Object)
	m.SetResourceVersion(strconv.FormatUint(f.revision, 10))
	m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return o
}

// kubeconfig is how to reach the fake.
func (f *fakeAPI) kubeconfig(token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
`, f.URL, token)
}

func nameOf(o metav1.Object) name { return name{o.GetNamespace(), o.GetName()} }
