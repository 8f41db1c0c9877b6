package envoy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// secretFor is a Secret of a namespace with a certificate for names.
func secretFor(t *testing.T, namespace string, names ...string) *corev1.Secret {
	t.Helper()
	c, err := fleettest.SelfSigned(names...)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: c.Chain, corev1.TLSPrivateKeyKey: c.Key},
	}
}

// ingressOf reads "NAMESPACE/NAME [RULE…] [default] [tls[=HOST,…]]", a RULE is HOST/PATH.
func ingressOf(age int, text string) *networkingv1.Ingress {
	words := strings.Fields(text)
	namespace, name, _ := strings.Cut(words[0], "/")
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(int64(age), 0)}}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	for _, word := range words[1:] {
		hosts, listed := strings.CutPrefix(word, "tls")
		switch host, path, rule := strings.Cut(word, "/"); {
		case rule:
			kind := networkingv1.PathTypePrefix
			o.Spec.Rules = append(o.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/" + path, PathType: &kind, Backend: backend}}},
			}})
		case word == "default":
			o.Spec.DefaultBackend = &backend
		case listed:
			entry := networkingv1.IngressTLS{SecretName: "cert"}
			if hosts != "" {
				entry.Hosts = strings.Split(hosts[1:], ",")
			}
			o.Spec.TLS = append(o.Spec.TLS, entry)
		}
	}
	return o
}

// strangers are Ingresses, the oldest first, and what proxies present for which
// names: the namespace, or nothing.
var strangers = map[string]struct {
	ingresses []string
	want      map[string]string
	next      map[string]string // when the first Ingress is gone
}{
	"the same host and path": {
		[]string{"shop/web a.example/ tls", "odd/web a.example/ tls"},
		map[string]string{"a.example": "shop"}, map[string]string{"a.example": "odd"},
	},
	"another path": {
		[]string{"shop/web a.example/ tls", "odd/web a.example/x tls=a.example"},
		map[string]string{"a.example": "shop"}, map[string]string{"a.example": "odd"},
	},
	"a path of a host that the owner lists nowhere": {
		[]string{"shop/web a.example/", "odd/web a.example/x tls=a.example"},
		map[string]string{}, map[string]string{"a.example": "odd"},
	},
	"in tls only": {
		[]string{"shop/web a.example/ tls", "odd/web else.example/ tls=a.example"},
		map[string]string{"a.example": "shop"}, map[string]string{"a.example": "odd"},
	},
	"in tls only, and older": {
		[]string{"odd/web else.example/ tls=a.example", "shop/web a.example/ tls"},
		map[string]string{"a.example": "shop"}, map[string]string{"a.example": "shop"},
	},
	"below a wildcard, in tls only": {
		[]string{"shop/web *.a.example/ tls", "odd/web else.example/ tls=login.a.example"},
		map[string]string{"*.a.example": "shop"}, map[string]string{"login.a.example": "odd"},
	},
	"below a wildcard, with a rule": {
		[]string{"shop/web *.a.example/ tls", "odd/web login.a.example/ tls"},
		map[string]string{"*.a.example": "shop"}, map[string]string{"login.a.example": "odd"},
	},
	"above a name, and younger": {
		[]string{"shop/web login.a.example/ tls", "odd/web *.a.example/ tls"},
		map[string]string{"login.a.example": "shop", "*.a.example": "odd"}, map[string]string{"*.a.example": "odd"},
	},
	"all other names, without the default backend": {
		[]string{"shop/web default tls", "odd/web default tls"},
		map[string]string{"*.": "shop"}, map[string]string{"*.": "odd"},
	},
	"two of one namespace": {
		[]string{"shop/web a.example/ tls", "shop/more a.example/more tls", "odd/web a.example/x tls"},
		map[string]string{"a.example": "shop"}, map[string]string{"a.example": "shop"},
	},
}

// TestStrangersCertificates goes from Ingresses and Secrets to what proxies
// present, from chains and on demand.
func TestStrangersCertificates(t *testing.T) {
	all := []string{"a.example", "*.a.example", "login.a.example"}
	shop, odd := secretFor(t, "shop", all...), secretFor(t, "odd", all...)
	for name, c := range strangers {
		for _, certificates := range []delivery{static, onDemand} {
			t.Run(name+", "+certificates.String(), func(t *testing.T) {
				fw, w := newProgram()
				config := map[delivery]string{static: "config k", onDemand: "config k ondemand"}[certificates]
				if _, err := fw.Do("edge fra region=eu", config, "class spillway default config=k", "commit"); err != nil {
					t.Fatal(err)
				}
				var first model.Object
				w.g.Commit(func(tx *inc.Tx) {
					for _, s := range []*corev1.Secret{shop, odd} {
						id, row := ingest.Secret(s)
						w.p.In.Certificates.Set(tx, id, row)
					}
					for i, text := range slices.Backward(c.ingresses) { // the order of arrival says nothing
						first = setIngress(tx, w.p.In, ingressOf(i+1, text))
					}
				})
				if got := w.presents(t, certificates, shop, odd); !maps.Equal(got, c.want) {
					t.Errorf("presented %v, want %v", got, c.want)
				}
				w.g.Commit(func(tx *inc.Tx) { fleettest.DeleteRoot(tx, w.p.In, first, hostsOf(w.p, first)...) })
				if got := w.presents(t, certificates, shop, odd); !maps.Equal(got, c.next) {
					t.Errorf("without %s, presented %v, want %v", first, got, c.next)
				}
			})
		}
	}
}

// presents is the namespaces whose certificates each name has in a proxy; "*."
// is the names without a chain.
func (w *world) presents(t *testing.T, certificates delivery, secrets ...*corev1.Secret) map[string]string {
	t.Helper()
	out := map[string]string{}
	if certificates == onDemand {
		for _, k := range w.t.Secrets.Keys() {
			res, _ := w.t.Secrets.Get(nil, k)
			chain := decode(t, res).(*tlsv3.Secret).GetTlsCertificate().CertificateChain.GetInlineBytes()
			i := slices.IndexFunc(secrets, func(s *corev1.Secret) bool { return string(s.Data[corev1.TLSCertKey]) == string(chain) })
			out[k.Name] = secrets[i].Namespace
		}
		return out
	}
	for _, k := range w.t.Listeners.Keys() {
		res, _ := w.t.Listeners.Get(nil, k)
		for _, c := range decode(t, res).(*listenerv3.Listener).FilterChains {
			names := c.GetFilterChainMatch().GetServerNames()
			if c.TransportSocket != nil && len(names) == 0 {
				names = []string{nameless}
			}
			for _, name := range names {
				out[name] = strings.Join(slices.Compact(namespacesOf(t, c)), " ")
			}
		}
	}
	return out
}

func namespacesOf(t *testing.T, c *listenerv3.FilterChain) []string {
	t.Helper()
	var tls tlsv3.DownstreamTlsContext
	if err := c.TransportSocket.GetTypedConfig().UnmarshalTo(&tls); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range tls.CommonTlsContext.TlsCertificateSdsSecretConfigs {
		out = append(out, secretOf(s.Name).Namespace)
	}
	return out
}

// TestSharedPortsHaveOneOwner: an Ingress of a younger class presents nothing
// for a name whose requests go by an older class that has the same port.
func TestSharedPortsHaveOneOwner(t *testing.T) {
	for _, certificates := range []delivery{static, onDemand} {
		fw, w := newProgram()
		lines := []string{
			"edge fra region=eu", map[delivery]string{static: "config k", onDemand: "config k ondemand"}[certificates],
			"class blue default config=k", "class green config=k",
			"secret odd/cert a.example *.w.example login.w.example mine.example", "secret shop/cert a.example *.w.example",
			"ingress shop/web a.example/->web:80", "ingress shop/wild *.w.example/->web:80",
			"ingress odd/web class=green tls=cert@a.example,login.w.example,mine.example a.example/->web:80 login.w.example/->web:80 mine.example/->web:80",
			"commit",
		}
		if _, err := fw.Do(lines...); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.names(t)); got != "[mine.example]" {
			t.Errorf("%s: presented %s", certificates, got)
		}
		for _, told := range []string{"Ingress odd/web: spec.tls Conflict: a.example belongs to Ingress shop/web", "Ingress odd/web: spec.tls Conflict: login.w.example belongs to Ingress shop/wild", "Ingress shop/wild: Warning Conflict: others of younger classes"} {
			if !strings.Contains(w.findings(), told) {
				t.Errorf("%s: nobody says %q:\n%s", certificates, told, w.findings())
			}
		}
	}
}

// names are the TLS names of all listeners and secrets on demand.
func (w *world) names(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, k := range w.t.Secrets.Keys() {
		if isDemanded(k.Name) {
			out = append(out, k.Name)
		}
	}
	for _, k := range w.t.Listeners.Keys() {
		res, _ := w.t.Listeners.Get(nil, k)
		for _, c := range decode(t, res).(*listenerv3.Listener).FilterChains {
			out = append(out, c.GetFilterChainMatch().GetServerNames()...)
		}
	}
	return out
}

// TestSecondCertificateOnDemand: the owner of one that is not presented is told.
func TestSecondCertificateOnDemand(t *testing.T) {
	fw, w := newProgram()
	if _, err := fw.Do("edge fra region=eu", "config k ondemand", "class spillway default config=k",
		"secret shop/one a.example", "secret shop/two a.example",
		"ingress shop/first tls=one a.example/->web:80", "ingress shop/second tls=two a.example/x->web:80", "commit"); err != nil {
		t.Fatal(err)
	}
	const want = "Ingress shop/second: spec.tls[0].secretName Conflict: a.example is presented with the certificate in Secret shop/one, and not with that in Secret shop/two: certificates on demand are one for a name\n"
	if got := w.findings(); got != want {
		t.Errorf("got %q", got)
	}
	if _, err := fw.Do("config k", "commit"); err != nil {
		t.Fatal(err)
	}
	if got := w.findings(); got != "" {
		t.Errorf("both are presented, and yet %q", got)
	}
}

// setIngress writes what an Ingress gives.
func setIngress(tx *inc.Tx, in fleet.Inputs, o *networkingv1.Ingress) model.Object {
	id, root, rules, _ := ingest.Ingress(o)
	byHost := map[model.Host]model.Rules{}
	for _, r := range rules {
		byHost[r.Host] = r.Rules
	}
	fleettest.SetRoot(tx, in, id, root, byHost)
	return id
}

// hostsOf are those that a root has rules for.
func hostsOf(p *fleet.Program, root model.Object) []model.Host {
	var out []model.Host
	for _, k := range p.RulesOf.Keys(nil, root) {
		out = append(out, k.Host)
	}
	return out
}
