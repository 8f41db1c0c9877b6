package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Where things are. The made-up endpoints have addresses of the benchmark range
// (RFC 2544), which nobody has in the private network; the endpoints that are
// requested have addresses of realNetwork (RFC 5737), where a server of ours
// listens.
const (
	realNetwork  = "192.0.2.0/24"
	backendPort  = 8080
	httpPort     = 10080
	httpsPort    = 10443
	adminAddress = "127.0.0.1:9901"
	plainPort    = 10180 // and the next
	plainAdmin   = "127.0.0.1:9902"
	class        = "spillway"
	otherConfig  = "patient"
	edge         = "fra"
	system       = "spillway-system"
	domain       = ".apps.example"
)

// spares are hosts whose Services are there from the start, and whose Ingress
// comes and goes.
const spares = 64

// size is how large a world is.
type size struct {
	hosts     int // each with an Ingress or an HTTPRoute, a Service and endpoints of its own
	endpoints int // behind each host
	members   int
	certs     int  // hosts that have a certificate; at most hosts
	fronts    int  // classes of perFront hosts each; 0: one class has all
	gateways  int  // Gateways with an equal share of the hosts each, all by HTTPRoutes; 0: none
	mixed     bool // every other host is of an HTTPRoute of one Gateway, and so are the spares
	leaves    bool // the class is of members' controllers, and no member is larger than the others
	unnamed   int  // Services of each member to which nothing refers, with as many endpoints as that of a host
}

// fleet is what the hub and its members say now: objects are made when they are
// asked for, from what was edited. Every Service of a host has one half of its
// endpoints in the first member, the large one, and the other half in one of
// the others; where hosts are of leaves, in two members in turn. Two hosts, and the spares, have endpoints that answer: "probe"
// and "tls".
type fleet struct {
	size
	spares int

	mu     sync.Mutex
	flips  map[int]int      // host -> edits of its endpoints
	paths  map[int]int      // host -> edits of its route
	marks  map[int]int      // host -> edits of what its route adds to answers
	ports  map[int]bool     // Gateways that have a second port
	turns  map[int]int      // host -> edits of its certificate
	added  map[int]bool     // spares that have an Ingress
	drain  bool             // of the large member
	moved  bool             // the edge
	edges  []*v1alpha1.Edge // others that came
	chains [2]certificate
	listed map[int]networkingv1.IngressStatus // of roots, as it was written
}

// The hosts that answer, below zero; those from size.hosts on are spares.
const (
	probeHost = -1
	tlsHost   = -2
)

func newFleet(s size, chains [2]certificate) *fleet {
	s.certs = min(s.certs, s.hosts)
	return &fleet{size: s, spares: spares, flips: map[int]int{}, paths: map[int]int{}, marks: map[int]int{}, ports: map[int]bool{}, turns: map[int]int{}, added: map[int]bool{}, chains: chains, listed: map[int]networkingv1.IngressStatus{}}
}

func namespaceOf(i int) string {
	if i < 0 {
		return "bench"
	}
	return fmt.Sprintf("team-%03d", i%200)
}

func nameOf(i int) string {
	switch i {
	case probeHost:
		return "probe"
	case tlsHost:
		return "tls"
	}
	return fmt.Sprintf("svc-%06d", i)
}

func hostOf(i int) string     { return nameOf(i) + domain }
func clusterOf(i int) string  { return namespaceOf(i) + "/" + nameOf(i) + "/http" }
func secretOf(i int) string   { return namespaceOf(i) + "/" + nameOf(i) + "-tls" }
func memberName(m int) string { return fmt.Sprintf("m-%02d", m) }

// hostsAll calls f for every host that has an Ingress or an HTTPRoute.
func (f *fleet) hostsAll(yield func(int)) {
	yield(tlsHost)
	yield(probeHost)
	for i := range f.hosts {
		yield(i)
	}
	for i := f.hosts; i < f.hosts+f.spares; i++ {
		if f.named(i) {
			yield(i)
		}
	}
}

// named reports whether something refers to the Service of a host.
func (f *fleet) named(i int) bool {
	return i < f.hosts || f.added[i] || f.fronts > 0 || f.gateways > 0
}

// first is the member that has one half of a host's endpoints.
func (f *fleet) first(i int) int {
	if f.leaves {
		return max(i, 0) % f.members
	}
	return 0
}

// second is the member that has the other half of a host's endpoints.
func (f *fleet) second(i int) int {
	switch {
	case f.members == 1:
		return 0
	case f.leaves:
		return (f.first(i) + 1) % f.members
	}
	return 1 + max(i, 0)%(f.members-1)
}

// inMember calls f for every host whose Service a member has.
func (f *fleet) inMember(m int, yield func(int)) {
	for i := tlsHost; i < f.hosts+f.spares; i++ {
		if f.second(i) == m || i >= 0 && f.first(i) == m {
			yield(i)
		}
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Generation: 1, UID: types.UID("uid-" + namespace + "-" + name),
		CreationTimestamp: metav1.Unix(1_700_000_000, 0),
	}
}

func (f *fleet) ingress(i int) *networkingv1.Ingress {
	o := &networkingv1.Ingress{ObjectMeta: named(namespaceOf(i), nameOf(i))}
	name := f.frontOf(i)
	o.Spec.IngressClassName = &name
	o.Spec.Rules = []networkingv1.IngressRule{ruleOf(i, pathAfter(f.paths[i]))}
	if f.hasCert(i) {
		o.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{hostOf(i)}, SecretName: nameOf(i) + "-tls"}}
	}
	o.Status = f.listed[i]
	return o
}

// list is that the status of a root was written.
func (f *fleet) list(i int, status networkingv1.IngressStatus) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed[i] = status
	return f.told(watch.Modified, i)
}

// rootNow is the Ingress of a host.
func (f *fleet) rootNow(i int) *networkingv1.Ingress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ingress(i)
}

// ruleOf sends a path of host i to its Service.
func ruleOf(i int, path string) networkingv1.IngressRule {
	kind := networkingv1.PathTypePrefix
	return networkingv1.IngressRule{Host: hostOf(i), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{
			Path: path, PathType: &kind,
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: nameOf(i), Port: networkingv1.ServiceBackendPort{Name: "http"}}},
		}},
	}}}
}

func (f *fleet) hasCert(i int) bool { return i == tlsHost || i >= 0 && i < f.certs }

func (f *fleet) secret(i int) *corev1.Secret {
	c := f.chains[f.turns[i]%2]
	return &corev1.Secret{ObjectMeta: named(namespaceOf(i), nameOf(i)+"-tls"), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: c.chain, corev1.TLSPrivateKeyKey: c.key}}
}

func (f *fleet) service(i int) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(namespaceOf(i), nameOf(i)), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
}

// slice has the endpoints of host i in member m. An edit of a made-up host
// replaces one address, one of a real host all of them.
func (f *fleet) slice(i, m int) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{ObjectMeta: named(namespaceOf(i), nameOf(i)+"-x7k2p"), AddressType: discoveryv1.AddressTypeIPv4}
	o.Labels = map[string]string{discoveryv1.LabelServiceName: nameOf(i), "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
	name, port, protocol := "http", int32(backendPort), corev1.ProtocolTCP
	o.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}
	n, zone, yes := f.endpoints, regionOf(m)+"-a", true
	if i >= 0 && f.members > 1 {
		n = f.endpoints / 2
	}
	for e := range n {
		node := fmt.Sprintf("node-%d", e)
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{f.address(i, m, e, n)}, Zone: &zone, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: namespaceOf(i), Name: fmt.Sprintf("%s-5d8f7c9b4-%05d", nameOf(i), e)},
		})
	}
	return o
}

func (f *fleet) address(i, m, e, n int) string {
	if i < 0 || i >= f.hosts {
		return fmt.Sprintf("192.0.2.%d", 100*(f.flips[i]%2)+10+e%80)
	}
	at := (i*2*f.endpoints + min(m, 1)*f.endpoints + e) % (1 << 16)
	if e == n-1 && m == f.second(i) { // 198.19.0.0/16 is for what was flipped
		if flips := f.flips[i]; flips > 0 {
			return fmt.Sprintf("198.19.%d.%d", flips>>8&255, flips&255)
		}
	}
	return fmt.Sprintf("198.18.%d.%d", at>>8, at&255)
}

// answersNow reports whether an address is one that the probed host has now.
func (f *fleet) answersNow(at string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var last int
	_, err := fmt.Sscanf(at, "192.0.2.%d", &last)
	return err == nil && last/100 == f.flips[probeHost]%2
}

// path is where a host has its route now.
func (f *fleet) path(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pathAfter(f.paths[i])
}

func pathAfter(edits int) string { return fmt.Sprintf("/v%d", edits) }

// serial is that of the certificate that a host has now.
func (f *fleet) serial(i int) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.chains[f.turns[i]%2].serial
}

func regionOf(m int) string { return [...]string{"eu", "us"}[m%2] }

func (f *fleet) memberCluster(m int) *v1alpha1.MemberCluster {
	o := &v1alpha1.MemberCluster{ObjectMeta: named("", memberName(m))}
	o.Finalizers = []string{v1alpha1.FinalizerMember} // which serve would put there; this API takes none
	o.Spec.Connection.KubeconfigSecretRef = &v1alpha1.SecretKeyRef{Name: memberName(m)}
	o.Spec.Location.Region = v1alpha1.PlaceName(regionOf(m))
	o.Spec.Taints = []v1alpha1.Taint{}
	o.Spec.Drain = m == 0 && f.drain
	if f.leaves {
		o.Spec.LeafAddresses = leafAddresses
		o.Finalizers = append(o.Finalizers, v1alpha1.FinalizerLeaves)
	}
	return o
}

// hub returns what the hub has of a resource. base is where the members' APIs are.
func (f *fleet) hub(plural, namespace string, kubeconfig func(member int) []byte) []runtime.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []runtime.Object
	switch plural {
	case "ingresses", "httproutes":
		f.hostsAll(func(i int) {
			if of, o := f.root(i); of == plural {
				out = append(out, o)
			}
		})
	case "gateways":
		return f.gatewayObjects()
	case "secrets":
		if namespace == "" {
			f.hostsAll(func(i int) {
				if f.hasCert(i) {
					out = append(out, f.secret(i))
				}
			})
			return out
		}
		for m := range f.members {
			out = append(out, &corev1.Secret{ObjectMeta: named(system, memberName(m)), Data: map[string][]byte{"kubeconfig": kubeconfig(m)}})
		}
	case "memberclusters":
		for m := range f.members {
			out = append(out, f.memberCluster(m))
		}
	case "gatewayclassconfigs":
		if f.leaves {
			return []runtime.Object{leafConfig()}
		}
		return constant(plural)
	case "edges":
		out = append(out, f.edge())
		for _, e := range f.edges {
			out = append(out, e)
		}
	default:
		out = constant(plural)
		if plural == "ingressclasses" {
			for i := range f.fronts {
				out = append(out, front(i, class))
			}
		}
	}
	return out
}

// edge is without addresses that all share: no status lists it, and nobody probes it.
func (f *fleet) edge() *v1alpha1.Edge {
	o := &v1alpha1.Edge{ObjectMeta: named("", edge)}
	o.Spec.Locality = v1alpha1.Locality{Region: "eu", Zone: "eu-a"}
	if n := max(f.fronts, f.gateways); n > 1 {
		o.Spec.AddressPool = frontPool(n)
	}
	if f.moved {
		o.Spec.Locality = v1alpha1.Locality{Region: "us"}
	}
	return o
}

// root is what a host's routes are of, and the resource that it is of.
func (f *fleet) root(i int) (string, runtime.Object) {
	if f.routed(i) {
		return "httproutes", f.httpRoute(i)
	}
	return "ingresses", f.ingress(i)
}

// told is that something happened to what a host's routes are of.
func (f *fleet) told(typ watch.EventType, i int) edit {
	plural, o := f.root(i)
	return edit{place{member: hub, plural: plural}, typ, o}
}

// leafConfig is the configuration of a class of members' controllers.
func leafConfig() *v1alpha1.GatewayClassConfig {
	o := &v1alpha1.GatewayClassConfig{ObjectMeta: named("", class)}
	o.Spec.DataPlane, o.Spec.Leaf = v1alpha1.DataPlaneLeaf, &v1alpha1.LeafOptions{IngressClassName: "local"}
	return o
}

// constant are the objects of the hub that never change.
func constant(plural string) []runtime.Object {
	switch plural {
	case "gatewayclasses":
		return gatewayClasses()
	case "ingressclasses":
		group, kind := v1alpha1.GroupName, "GatewayClassConfig"
		o := &networkingv1.IngressClass{ObjectMeta: named("", class)}
		o.Spec.Controller = v1alpha1.ControllerIngress
		o.Spec.Parameters = &networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: kind, Name: class}
		return []runtime.Object{o}
	case "gatewayclassconfigs":
		o := &v1alpha1.GatewayClassConfig{ObjectMeta: named("", class)}
		o.Spec.Listeners = v1alpha1.ListenerPorts{HTTP: httpPort, HTTPS: httpsPort}
		other := &v1alpha1.GatewayClassConfig{ObjectMeta: named("", otherConfig)}
		other.Spec.Listeners = o.Spec.Listeners
		other.Spec.Timeouts.PerTry = &metav1.Duration{Duration: 4 * time.Second}
		out := []runtime.Object{o, other}
		for _, shared := range []*v1alpha1.GatewayClassConfig{o, other} {
			alone := shared.DeepCopy()
			alone.Name += own
			alone.Spec.Address = v1alpha1.AddressOwn
			out = append(out, alone)
		}
		return out
	}
	return nil
}

// member returns what a member has of a resource.
func (f *fleet) member(m int, plural string) []runtime.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []runtime.Object
	add := func(i int) {
		switch plural {
		case "services":
			out = append(out, f.service(i))
		case "endpointslices":
			out = append(out, f.slice(i, m))
		}
	}
	f.inMember(m, add)
	for i := range f.unnamed {
		add(f.hosts + f.spares + i)
	}
	return out
}

// edit is one change of the fleet: what is told to whom.
type edit struct {
	at     place
	typ    watch.EventType
	object runtime.Object
}

// flipEndpoint replaces an endpoint of a host, all of them if they answer.
func (f *fleet) flipEndpoint(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flips[i]++
	m := f.second(i)
	return edit{place{member: m, plural: "endpointslices"}, watch.Modified, f.slice(i, m)}
}

// changePath changes the route of a host.
func (f *fleet) changePath(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths[i]++
	return f.told(watch.Modified, i)
}

// rotate gives a host the other certificate.
func (f *fleet) rotate(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns[i]++
	return edit{place{member: hub, plural: "secrets"}, watch.Modified, f.secret(i)}
}

// addHost adds a spare.
func (f *fleet) addHost(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added[i] = true
	return f.told(watch.Added, i)
}

// grow adds a host: its Services with their slices, then its Ingress. A fleet
// that grows has no spares, which would be among its hosts.
func (f *fleet) grow() []edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.hosts
	f.hosts++
	var out []edit
	for _, m := range slices.Compact([]int{0, f.second(i)}) {
		out = append(out,
			edit{place{member: m, plural: "services"}, watch.Added, f.service(i)},
			edit{place{member: m, plural: "endpointslices"}, watch.Added, f.slice(i, m)})
	}
	return append(out, edit{place{member: hub, plural: "ingresses"}, watch.Added, f.ingress(i)})
}

// removeHost takes it away.
func (f *fleet) removeHost(i int) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.added, i)
	return f.told(watch.Deleted, i)
}

// across counts the hosts whose endpoints are in both regions: which are nearer
// depends on where the edge is.
func (f *fleet) across() (n int) {
	for i := range f.hosts {
		if regionOf(f.second(i)) != regionOf(0) {
			n++
		}
	}
	return n
}

// moveEdge has the edge in the other region, or back.
func (f *fleet) moveEdge(moved bool) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = moved
	return edit{place{member: hub, plural: "edges"}, watch.Modified, f.edge()}
}

// drainLarge takes the large member out of service, or back.
func (f *fleet) drainLarge(drain bool) edit {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drain = drain
	return edit{place{member: hub, plural: "memberclusters"}, watch.Modified, f.memberCluster(0)}
}
