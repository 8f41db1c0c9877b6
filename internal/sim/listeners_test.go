package sim

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/envoy/routetest"
)

// TestConnectionsAreAsPromised: Gateways with listeners for requests and for streams,
// routes of all kinds, certificates and authorities come, go and change. In the end every
// connection becomes what the objects that are there promise, and everything is as a new
// control plane would have it.
func TestConnectionsAreAsPromised(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds; without the race detector it finds the same")
	}
	became := map[string]int{}
	hold(t, 150, drawListeners, func(s script) error {
		w, err := play(append(slices.Clone(s), comeBack...), nil)
		if err != nil {
			return err
		}
		if err := w.connectsAsPromised(became); err != nil {
			return err
		}
		return w.asFromScratch()
	})
	if os.Getenv(Seeds) != "" || t.Failed() {
		return
	}
	for _, what := range []string{routetest.Refused, "web", "api", "vault", "500", "503", "404", "passed", "ended", "let in", "turned away", nowhere, "TCP", "UDP"} {
		if became[what] == 0 {
			t.Errorf("no connection was %q: %v", what, became)
		}
	}
}

// Gateways are on ports of their own, so that each alone decides of them.
var (
	portsOf     = map[string][]int{"a": {443, 8443, 5432}, "b": {9443, 5433}}
	namesAsked  = []string{"", "x.example", "y.example", "z.y.example", "example"}
	hostsListed = []string{"", "*.example", "y.example", "*.y.example", "x.example"}
	pooled      = []string{"web", "api", "vault"} // Services with pods
)

// drawn is a script with what is there.
type drawn struct {
	t     *rapid.T
	lines script
	there map[string]bool // KIND NS/NAME
}

func drawListeners(t *rapid.T) script {
	d := &drawn{t, script{
		"edge fra region=eu zone=eu-a addresses=192.0.2.1", "edge nyc region=us zone=us-a addresses=192.0.2.2",
		"config c" + some(t, "", " ondemand"), "gatewayclass spillway config=c",
		"member eu-1 region=eu", "member us-1 region=us", "member far-1 region=us networks=far",
		"proxy fra/old", "proxy nyc/old", "tick 1s",
	}, map[string]bool{}}
	for _, name := range []string{"ours", "theirs"} {
		d.put("authorities", "shop/"+name, some(t, name, "ours"))
	}
	d.put("secret", "shop/s0", "any.example")
	for _, name := range pooled {
		d.pods("eu-1", name, min(1, rapid.IntRange(0, 3).Draw(t, "pods")))
	}
	if chance(t, 2) {
		d.policy()
	}
	for _, name := range slices.Sorted(maps.Keys(portsOf)) {
		d.gateway(name)
	}
	for range rapid.IntRange(8, 25).Draw(t, "edits") {
		d.edit()
	}
	return d.lines
}

// put writes an object.
func (d *drawn) put(kind, name string, words ...string) {
	d.there[kind+" "+name] = true
	d.lines = append(d.lines, strings.Join(append([]string{kind, name}, words...), " "))
}

// pods gives a member some pods of a Service.
func (d *drawn) pods(member, name string, n int) {
	line := "pods " + member + " shop/" + name + " udp"
	for i := range n {
		line += fmt.Sprintf(" 10.%d.%d.%d", 1+slices.Index(memberNames, member), slices.Index(pooled, name), 1+i)
	}
	d.lines = append(d.lines, line)
}

// policy says how to speak to vault.
func (d *drawn) policy() {
	d.put("policy", "shop/vault", "vault", "host=vault.internal", "ca="+some(d.t, "ours", "theirs", "none"))
}

func (d *drawn) edit() {
	t := d.t
	name := some(t, "r0", "r1", "r2")
	switch rapid.IntRange(0, 16).Draw(t, "edit") {
	case 0, 1:
		d.gateway(some(t, "a", "a", "b"))
	case 2, 3, 4:
		d.put("tlsroute", "shop/"+name, d.parent(), "hosts="+some(t, hostsListed[1:]...), d.backends("", "web:80", "api:80", "gone:80"))
	case 5, 6, 7:
		words := []string{d.parent()}
		if h := some(t, hostsListed...); h != "" {
			words = append(words, "hosts="+h)
		}
		d.put("httproute", "shop/"+name, append(words, "/->"+some(t, "web", "api", "vault", "vault", "gone")+":80")...)
	case 8:
		d.put("tcproute", "shop/"+name, d.parent(), d.backends("", "web:80", "api:80", "gone:80"))
	case 9:
		d.put("udproute", "shop/"+name, d.parent(), d.backends("", "web:53", "api:53", "gone:53"))
	case 10:
		d.put("authorities", "shop/"+some(t, "ours", "theirs"), some(t, "ours", "theirs", "ours theirs", ""))
	case 11:
		if chance(t, 2) {
			d.put("secret", "shop/"+some(t, "s0", "s1"), "any.example")
		} else {
			d.put("identity", "shop/client", some(t, "ours", "theirs"))
		}
	case 12:
		d.policy()
	case 13:
		member, pods := some(t, "eu-1", "us-1"), some(t, pooled...)
		if chance(t, 3) {
			d.lines = append(d.lines, "gone "+member+" shop/"+pods)
		} else {
			d.pods(member, pods, rapid.IntRange(0, 2).Draw(t, "pods"))
		}
	case 14:
		d.lines = append(d.lines, some(t, "restart", "restart last", "proxy fra/old", "away fra/old", "back fra/old", "tick 1s", "answers eu-1 not", "config c", "config c ondemand"))
	default:
		if there := slices.Sorted(maps.Keys(d.there)); len(there) > 0 {
			gone := some(t, there...)
			delete(d.there, gone)
			d.lines = append(d.lines, "delete "+strings.Replace(gone, "identity", "secret", 1))
		}
	}
}

// parent is a Gateway, or a listener of it.
func (d *drawn) parent() string {
	gw := some(d.t, "a", "a", "b")
	if chance(d.t, 2) {
		return "to=" + gw
	}
	return fmt.Sprintf("to=%s/p%d-%d", gw, rapid.SampledFrom(portsOf[gw]).Draw(d.t, "port"), rapid.IntRange(0, 2).Draw(d.t, "listener"))
}

// backends are one or two, with weights.
func (d *drawn) backends(of string, names ...string) string {
	out := of + some(d.t, names...) + some(d.t, "", "*0", "*3")
	if chance(d.t, 3) {
		out += " " + of + some(d.t, names...)
	}
	return out
}

// gateway writes one, with listeners on some of its ports.
func (d *drawn) gateway(name string) {
	t := d.t
	var words, clients []string
	for _, port := range portsOf[name] {
		if port < 6000 && port != 443 {
			words = append(words, fmt.Sprintf("p%d-0:%s:%d", port, some(t, "TCP", "UDP"), port))
			continue
		}
		hosts := rapid.Permutation(hostsListed).Draw(t, "hosts")
		for i, host := range hosts[:rapid.IntRange(1, 3).Draw(t, "listeners")] {
			words = append(words, fmt.Sprintf("p%d-%d:%s:%d:%s%s", port, i, some(t, "HTTPS", "TLS"), port, host, "@"+some(t, "s0", "s0", "s1")))
			if last := &words[len(words)-1]; strings.Contains(*last, ":TLS:") && chance(t, 2) {
				*last, _, _ = strings.Cut(*last, "@")
			}
		}
		if chance(t, 3) {
			clients = append(clients, fmt.Sprintf("%d:%s", port, some(t, "-", "ours", "theirs!", "ours+theirs", "none")))
		}
	}
	if chance(t, 2) {
		clients = append(clients, some(t, "ours", "theirs", "ours!"))
	}
	if clients != nil {
		words = append(words, "clients="+strings.Join(clients, ","))
	}
	if chance(t, 3) {
		words = append(words, "client=client")
	}
	if len(words) > 0 {
		d.put("gateway", "shop/"+name, words...)
	}
}

// connectsAsPromised asks old proxies everything, and counts what became of it.
func (w *world) connectsAsPromised(became map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(portsOf)) {
		g, there := w.hub["gateways"]["shop/"+name].(*gatewayv1.Gateway)
		if !there {
			g = &gatewayv1.Gateway{ObjectMeta: meta("shop/" + name)}
		}
		for _, port := range portsOf[name] {
			for _, a := range asksAt(g, port) {
				want := w.promised(g, a)
				for _, p := range []string{"fra/old", "nyc/old"} {
					got, err := w.turns(w.proxies[p], a)
					if err != nil {
						return fmt.Errorf("%s: %s: %w", p, a.Line, err)
					}
					if !slices.Contains(want.answers, strings.Join(got, "|")) {
						return fmt.Errorf("%s: %s becomes %v, promised is one of %q", p, a.Line, got, want.answers)
					}
					for _, what := range append(got, want.how...) {
						became[what]++
					}
				}
			}
		}
	}
	return nil
}

// turns is what a proxy does with a question, asked from ports enough that each backend
// with a weight has some.
func (w *world) turns(p *proxy, a asked) ([]string, error) {
	var all []string
	for _, from := range a.ports() {
		a.From = from
		out, lacks, err := p.route(a.Request(), w.greet)
		switch {
		case err != nil:
			return nil, err
		case len(lacks) > 0 && !slices.ContainsFunc(lacks, func(what string) bool { return what != leadsNowhere }):
			all = append(all, nowhere)
		case len(lacks) > 0:
			return nil, fmt.Errorf("it lacks %v", lacks)
		default:
			all = append(all, out.Said(w.serviceAt)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// nowhere is where a request goes whose backend can't be trusted: to a cluster that is not
// there, on purpose. The model of Envoy does not know what the route has that answered with.
const (
	nowhere      = "nowhere"
	leadsNowhere = "a route leads to cluster nobody, which is not there"
)

// asksAt are all questions of a port: as its listeners say, requests and other TLS by
// name and certificate, or what has no name.
func asksAt(g *gatewayv1.Gateway, number int) (out []asked) {
	p := &routetest.Port{Number: number, Protocol: "HTTPS"}
	for _, l := range g.Spec.Listeners {
		if int(l.Port) == number && (l.Protocol == gatewayv1.TCPProtocolType || l.Protocol == gatewayv1.UDPProtocolType) {
			p.Protocol = string(l.Protocol)
			return append(out, asked{routetest.Ask{Port: p, Line: p.String()}})
		}
	}
	for _, sni := range namesAsked {
		for _, as := range []string{"", "ours", "theirs"} {
			out = append(out, asked{routetest.Ask{Port: p, SNI: sni, As: as, Line: fmt.Sprintf("%v %s as %s", p, sni, as)}})
		}
	}
	return out
}

type asked struct{ routetest.Ask }

// ports are those of clients. Weights of datagrams are dealt out by the last two digits.
func (a asked) ports() (out []int) {
	if a.Port.Protocol != "UDP" {
		return []int{20042}
	}
	for i := range 10 {
		out = append(out, 20000+11*i)
	}
	return out
}

// promise is what may become of a connection, and what that shows.
type promise struct{ answers, how []string }

func promiseOf(how string, answers ...string) promise { return promise{answers, []string{how}} }

// promised is what the objects say, looked up in the plainest way.
func (w *world) promised(g *gatewayv1.Gateway, a asked) promise {
	g = w.accepted(g)
	if a.Port.Protocol != "HTTPS" {
		return promiseOf(a.Port.Protocol, w.handed(w.routeOf(g, closestOf(g, a.Port.Number, ""), a.Port.Protocol, "")))
	}
	l := closestOf(g, a.Port.Number, a.SNI)
	if w.onDemand() {
		if s := closestOf(streamsOf(g), a.Port.Number, a.SNI); s != nil {
			l = s // no listener has a list of names with certificates, which would be closer
		}
	}
	switch {
	case l == nil && w.presentable(g, nil, a):
		return promise{answers: []string{routetest.Refused, "404"}}
	case l == nil:
		return promise{answers: []string{routetest.Refused}}
	case l.Protocol == gatewayv1.TLSProtocolType:
		return w.streams(g, l, a)
	}
	authorities, fallback, says := w.trusted(g, a.Port.Number)
	away := says && !fallback && !slices.Contains(authorities, a.As)
	requests := w.requested(w.routeOf(g, l, "HTTPS", a.SNI))
	switch {
	case !w.certified(g, l) && away:
		return w.without(g, l, a, routetest.Refused)
	case !w.certified(g, l):
		return w.without(g, l, a, requests)
	case away:
		return promiseOf("turned away", routetest.Refused)
	case !says:
		return promise{answers: []string{requests}}
	}
	return promiseOf("let in", requests)
}

// accepted is a Gateway with the listeners that are not refused: TLS of all names is where
// certificates come on demand, and HTTPS where clients need a certificate of nobody's.
func (w *world) accepted(g *gatewayv1.Gateway) *gatewayv1.Gateway {
	return with(g, func(l gatewayv1.Listener) bool {
		switch l.Protocol {
		case gatewayv1.TLSProtocolType:
			return l.Hostname != nil || !w.onDemand()
		case gatewayv1.HTTPSProtocolType:
			authorities, _, says := w.trusted(g, int(l.Port))
			return !says || len(authorities) > 0
		}
		return true
	})
}

// streamsOf is a Gateway with its listeners for TLS that is handed on alone.
func streamsOf(g *gatewayv1.Gateway) *gatewayv1.Gateway {
	return with(g, func(l gatewayv1.Listener) bool { return l.Protocol == gatewayv1.TLSProtocolType })
}

// with is a Gateway with some of its listeners.
func with(g *gatewayv1.Gateway, of func(gatewayv1.Listener) bool) *gatewayv1.Gateway {
	g = g.DeepCopy()
	g.Spec.Listeners = slices.DeleteFunc(g.Spec.Listeners, func(l gatewayv1.Listener) bool { return !of(l) })
	return g
}

// streams is what becomes of a connection to a listener for TLS.
func (w *world) streams(g *gatewayv1.Gateway, l *gatewayv1.Listener, a asked) promise {
	to := w.handed(w.routeOf(g, l, "TLS", a.SNI))
	switch {
	case l.TLS.Mode != nil:
		return promiseOf("passed", to)
	case !w.certified(g, l):
		return w.without(g, l, a, to)
	}
	return promiseOf("ended", to)
}

// without is what may become of a connection to a listener without a certificate: nothing,
// or what a wider listener does with it. If another listener's certificate is for the name,
// that may be presented, and the listener is served.
func (w *world) without(g *gatewayv1.Gateway, l *gatewayv1.Listener, a asked, served string) promise {
	out := promise{answers: append(w.promised(with(g, func(o gatewayv1.Listener) bool { return o.Name != l.Name }), a).answers, routetest.Refused)}
	if w.presentable(g, l, a) {
		out.answers = append(out.answers, served)
	}
	return out
}

// presentable tells whether some listener, other than one, has a certificate that may be
// presented for a name. Where certificates come on demand, those of all ports are one set.
func (w *world) presentable(g *gatewayv1.Gateway, but *gatewayv1.Listener, a asked) bool {
	for _, o := range w.hub["gateways"] {
		o := w.accepted(o.(*gatewayv1.Gateway))
		for i := range o.Spec.Listeners {
			l := &o.Spec.Listeners[i]
			here := o.Name == g.Name && int(l.Port) == a.Port.Number
			switch {
			case l.TLS == nil, l.TLS.Mode != nil, !here && !w.onDemand(), here && but != nil && l.Name == but.Name:
			case closeness(hostname(l), a.SNI) > 0 && w.certified(o, l):
				return true
			}
		}
	}
	return false
}

// onDemand tells whether proxies ask for certificates by the names that clients ask for.
func (w *world) onDemand() bool {
	c, ok := w.hub["gatewayclassconfigs"]["/c"].(*v1alpha1.GatewayClassConfig)
	return ok && c.Spec.TLS.Certificates == v1alpha1.CertificatesOnDemand
}

func (w *world) certified(g *gatewayv1.Gateway, l *gatewayv1.Listener) bool {
	return w.hub["secrets"][g.Namespace+"/"+string(l.TLS.CertificateRefs[0].Name)] != nil
}

// closestOf is the listener of a port whose name is closest to another name.
func closestOf(g *gatewayv1.Gateway, port int, name string) (best *gatewayv1.Listener) {
	for i := range g.Spec.Listeners {
		l := &g.Spec.Listeners[i]
		if int(l.Port) != port {
			continue
		}
		if n := closeness(hostname(l), name); n > 0 && (best == nil || n > closeness(hostname(best), name)) {
			best = l
		}
	}
	return best
}

func hostname(l *gatewayv1.Listener) string {
	if l.Hostname == nil {
		return ""
	}
	return string(*l.Hostname)
}

// closeness is how close a pattern is to a name; 0: it is not for that.
func closeness(pattern, name string) int {
	switch {
	case pattern == "":
		return 1
	case pattern == name:
		return 1000
	case strings.HasPrefix(pattern, "*.") && strings.HasSuffix(name, pattern[1:]):
		return 1 + len(pattern)
	}
	return 0
}

// trusted are the authorities by which clients are let in at a port.
func (w *world) trusted(g *gatewayv1.Gateway, port int) (names []string, fallback, says bool) {
	f := g.Spec.TLS.Frontend
	if f == nil {
		return nil, false, false
	}
	v := f.Default.Validation
	for _, p := range f.PerPort {
		if int(p.Port) == port {
			v = p.TLS.Validation
		}
	}
	if v == nil {
		return nil, false, false
	}
	for _, ref := range v.CACertificateRefs {
		names = append(names, w.authoritiesOf(string(ref.Name))...)
	}
	return names, v.Mode == gatewayv1.AllowInsecureFallback, true
}

// authoritiesOf are those in a ConfigMap.
func (w *world) authoritiesOf(name string) (out []string) {
	o, ok := w.hub["configmaps"]["shop/"+name].(*corev1.ConfigMap)
	for _, of := range []string{"ours", "theirs"} {
		if ok && strings.Contains(o.Data["ca.crt"], string(routetest.Authority(of).CertPEM())) {
			out = append(out, of)
		}
	}
	return out
}

// attached is a route, as far as it counts here.
type attached struct {
	own      int // closeness of its hostname
	created  metav1.Time
	name     string
	backends []gatewayv1.BackendRef
}

// routeOf is the route of a listener that has what comes for a name: that whose own
// hostname is the closest, and the oldest of those. Names of a closer listener are that
// one's. Nil: there is none.
func (w *world) routeOf(g *gatewayv1.Gateway, l *gatewayv1.Listener, protocol, name string) *attached {
	var all []*attached
	for _, o := range w.hub[map[string]string{"HTTPS": "httproutes", "TLS": "tlsroutes", "TCP": "tcproutes", "UDP": "udproutes"}[protocol]] {
		at := &attached{created: o.GetCreationTimestamp(), name: o.GetName()}
		var parents []gatewayv1.ParentReference
		var hosts []gatewayv1.Hostname
		switch o := o.(type) {
		case *gatewayv1.HTTPRoute:
			parents, hosts = o.Spec.ParentRefs, o.Spec.Hostnames
			for _, b := range o.Spec.Rules[0].BackendRefs {
				at.backends = append(at.backends, b.BackendRef)
			}
		case *gatewayv1.TLSRoute:
			parents, hosts, at.backends = o.Spec.ParentRefs, o.Spec.Hostnames, o.Spec.Rules[0].BackendRefs
		case *gatewayv1.TCPRoute:
			parents, at.backends = o.Spec.ParentRefs, o.Spec.Rules[0].BackendRefs
		case *gatewayv1.UDPRoute:
			parents, at.backends = o.Spec.ParentRefs, o.Spec.Rules[0].BackendRefs
		}
		is := func(p gatewayv1.ParentReference) bool {
			return string(p.Name) == g.Name && (p.SectionName == nil || *p.SectionName == l.Name)
		}
		if len(hosts) == 0 {
			hosts = []gatewayv1.Hostname{""}
		}
		at.own = closeness(string(hosts[0]), name)
		if slices.ContainsFunc(parents, is) && at.own > 0 && w.owns(g, l, string(hosts[0])) {
			all = append(all, at)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *attached) int {
		return cmp.Or(cmp.Compare(b.own, a.own), a.created.Compare(b.created.Time), cmp.Compare(a.name, b.name))
	})
}

// owns tells whether what a route's hostname has in common with a listener's is that
// listener's, not a closer one's.
func (w *world) owns(g *gatewayv1.Gateway, l *gatewayv1.Listener, host string) bool {
	if closeness(hostname(l), host) == 0 {
		host = hostname(l)
	}
	all := w.accepted(w.hub["gateways"][g.Namespace+"/"+g.Name].(*gatewayv1.Gateway))
	return closestOf(all, int(l.Port), host).Name == l.Name
}

// has tells whether a Service is in some member, and whether it has pods there.
func (w *world) has(service string) (there, pods bool) {
	for id, m := range w.members {
		_, is := m.services["shop/"+service]
		there = there || is && w.hub["memberclusters"]["/"+string(id)] != nil
		pods = pods || is && len(w.podsIn(m, "shop/"+service)) > 0
	}
	return there, pods
}

// handed is what becomes of what a route hands on.
func (w *world) handed(r *attached) string {
	if r == nil {
		return routetest.Refused
	}
	var out []string
	for _, b := range r.backends {
		if b.Weight != nil && *b.Weight == 0 {
			continue
		}
		if _, pods := w.has(string(b.Name)); pods {
			out = append(out, string(b.Name))
		} else {
			out = append(out, routetest.Refused)
		}
	}
	if len(out) == 0 {
		return routetest.Refused
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), "|")
}

// requested is what becomes of a request.
func (w *world) requested(r *attached) string {
	if r == nil {
		return "404"
	}
	name := string(r.backends[0].Name)
	there, pods := w.has(name)
	policy, _ := w.hub["backendtlspolicies"]["shop/"+name].(*gatewayv1.BackendTLSPolicy)
	switch {
	case !there:
		return "500"
	case policy != nil && len(w.authoritiesOf(string(policy.Spec.Validation.CACertificateRefs[0].Name))) == 0:
		return nowhere
	case !pods:
		return "503"
	}
	return name
}
