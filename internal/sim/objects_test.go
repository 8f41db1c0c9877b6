package sim

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/consts"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// args are the words of a command.
type args struct{ *fleettest.Args }

// each says something of every word.
func (a *args) each(f func(string) (string, error)) (string, error) {
	var out strings.Builder
	for _, w := range a.Words {
		text, err := f(w)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s: %s\n", w, text)
	}
	return out.String(), nil
}

// meta is the metadata of an object called NS/NAME, or NAME.
func meta(text string) metav1.ObjectMeta {
	ns, name, has := strings.Cut(text, "/")
	if !has {
		ns, name = "", text
	}
	return metav1.ObjectMeta{Namespace: ns, Name: name}
}

func (a *args) networks() []v1alpha1.NetworkName {
	var out []v1alpha1.NetworkName
	for _, n := range a.List("networks") {
		out = append(out, v1alpha1.NetworkName(n))
	}
	return out
}

func (a *args) member() *v1alpha1.MemberCluster {
	o := &v1alpha1.MemberCluster{ObjectMeta: meta(a.Word(0))}
	o.Spec.Connection.KubeconfigSecretRef = &v1alpha1.SecretKeyRef{Name: o.Name}
	o.Spec.Location.Region, o.Spec.Location.Zone = v1alpha1.PlaceName(a.Options["region"]), v1alpha1.PlaceName(a.Options["zone"])
	o.Spec.Networks, o.Spec.Drain, o.Spec.Taints = a.networks(), a.Has("drain"), []v1alpha1.Taint{}
	if text, ok := a.Options["staleafter"]; ok {
		after, err := time.ParseDuration(text)
		a.Err = errors.Join(a.Err, err)
		o.Spec.StaleAfter = &metav1.Duration{Duration: after}
	}
	for _, address := range a.List("leaves") {
		o.Spec.LeafAddresses = append(o.Spec.LeafAddresses, v1alpha1.LeafAddress(address))
	}
	for _, key := range a.List("taints") {
		o.Spec.Taints = append(o.Spec.Taints, v1alpha1.Taint{Key: key, Effect: v1alpha1.TaintNoTraffic})
	}
	return o
}

// leafID is the leaf of an Ingress, or of an object of another kind, in a member.
func (a *args) leafID() model.LeafID {
	o := meta(a.Word(1))
	return model.LeafID{Member: model.Member(a.Word(0)), Root: model.Object{Kind: cmp.Or(a.Options["of"], "Ingress"), Namespace: o.Namespace, Name: o.Name}}
}

// placementGroups are the groups of the kinds that a Placement may be for.
var placementGroups = map[string]string{"Namespace": "", "Ingress": "networking.k8s.io", "HTTPRoute": model.GatewayGroup}

func (a *args) placement() *v1alpha1.Placement {
	o := &v1alpha1.Placement{ObjectMeta: meta(a.Word(0))}
	for _, text := range a.List("for") {
		kind, name, _ := strings.Cut(text, "/")
		group, ok := placementGroups[kind]
		if !ok {
			group = model.GatewayGroup
		}
		o.Spec.TargetRefs = append(o.Spec.TargetRefs, v1alpha1.PlacementTarget{Group: group, Kind: kind, Name: name})
	}
	o.Spec.Members.Names = a.List("names")
	if a.Has("count") {
		count := int32(a.Number("count", 0))
		o.Spec.Members.Count = &count
	}
	if text, ok := a.Options["hold"]; ok {
		hold, err := time.ParseDuration(text)
		a.Err = errors.Join(a.Err, err)
		o.Spec.Members.Hold = &metav1.Duration{Duration: hold}
	}
	return o
}

func (a *args) edge() *v1alpha1.Edge {
	o := &v1alpha1.Edge{ObjectMeta: meta(a.Word(0))}
	o.Spec.Locality.Region, o.Spec.Locality.Zone = v1alpha1.PlaceName(a.Options["region"]), v1alpha1.PlaceName(a.Options["zone"])
	o.Spec.Networks, o.Spec.Drain = a.networks(), a.Has("drain")
	for _, ip := range a.List("addresses") {
		o.Spec.Addresses = append(o.Spec.Addresses, v1alpha1.EdgeAddress{Value: ip})
	}
	for _, text := range a.List("pool") {
		public, bind, _ := strings.Cut(text, "~")
		o.Spec.AddressPool = append(o.Spec.AddressPool, v1alpha1.PoolAddress{Address: public, BindAddress: bind})
	}
	if n := a.Number("hops", 0); n != 0 {
		o.Spec.ClientIP = &v1alpha1.ClientIP{TrustedHops: int32(n)}
	}
	return o
}

func (a *args) class() *networkingv1.IngressClass {
	o := &networkingv1.IngressClass{ObjectMeta: meta(a.Word(0))}
	o.Spec.Controller = v1alpha1.ControllerIngress
	if a.Has("default") {
		o.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	if c := a.Options["config"]; c != "" {
		group := v1alpha1.GroupName
		o.Spec.Parameters = &networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: "GatewayClassConfig", Name: c}
	}
	return o
}

func (a *args) config() *v1alpha1.GatewayClassConfig {
	o := &v1alpha1.GatewayClassConfig{ObjectMeta: meta(a.Word(0))}
	o.Spec.Listeners.HTTP, o.Spec.Listeners.HTTPS = int32(a.Number("http", 80)), int32(a.Number("https", 443))
	if names := a.List("edges"); names != nil {
		o.Spec.Edges = &v1alpha1.EdgeSelection{Names: names}
	}
	for _, zone := range a.List("zones") {
		namespace, name, _ := strings.Cut(zone, "/")
		o.Spec.Zones = append(o.Spec.Zones, v1alpha1.DNSZoneRef{Namespace: namespace, Name: name})
	}
	if a.Has("external") {
		o.Spec.ExternalNames = v1alpha1.ExternalNamesAllow
	}
	if a.Has("leaf") {
		o.Spec.DataPlane, o.Spec.Leaf = v1alpha1.DataPlaneLeaf, &v1alpha1.LeafOptions{GatewayClassName: "contour"}
	}
	if a.Has("alone") {
		o.Spec.Address = v1alpha1.AddressOwn
	}
	if a.Has("ondemand") {
		o.Spec.TLS.Certificates = v1alpha1.CertificatesOnDemand
	}
	return o
}

// zone names all edges in an answer.
func (a *args) zone() *v1alpha1.DNSZone {
	o, all := &v1alpha1.DNSZone{ObjectMeta: meta(a.Word(0))}, int32(16)
	o.Spec.Domain, o.Spec.AnswersPerQuery = v1alpha1.DomainName(a.Word(1)), &all
	o.Spec.NameServers = []v1alpha1.NameServer{{Host: "ns." + o.Spec.Domain, Addresses: []v1alpha1.IPAddress{"192.0.2.53"}}}
	o.Spec.AllowedNamespaces, o.Spec.DelegatesTo = a.List("namespaces"), a.List("delegates")
	return o
}

func (a *args) ingress() *networkingv1.Ingress {
	o := &networkingv1.Ingress{ObjectMeta: meta(a.Word(0))}
	if c := a.Options["class"]; c != "" {
		o.Spec.IngressClassName = &c
	}
	if d := a.Options["default"]; d != "" {
		o.Spec.DefaultBackend = backend(d)
	}
	for _, text := range strings.FieldsFunc(a.Options["tls"], func(r rune) bool { return r == ';' }) {
		secret, hosts, _ := strings.Cut(text, "@")
		o.Spec.TLS = append(o.Spec.TLS, networkingv1.IngressTLS{SecretName: secret, Hosts: strings.FieldsFunc(hosts, func(r rune) bool { return r == ',' })})
	}
	for _, text := range a.Rest(1) {
		o.Spec.Rules = append(o.Spec.Rules, rule(text))
	}
	return o
}

// rule reads "shop.example=/login->web:http"; each has one path, or none.
func rule(text string) networkingv1.IngressRule {
	from, to, has := strings.Cut(text, "->")
	host, rest, _ := strings.Cut(from, "/")
	if host == "*" || host == "*=" {
		host = strings.TrimPrefix(host, "*")
	}
	if !has {
		return networkingv1.IngressRule{Host: host}
	}
	kind := networkingv1.PathTypePrefix
	if strings.HasSuffix(host, "=") {
		host, kind = strings.TrimSuffix(host, "="), networkingv1.PathTypeExact
	}
	p := networkingv1.HTTPIngressPath{Path: "/" + rest, PathType: &kind}
	if to != "" {
		p.Backend = *backend(to)
	}
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{p}},
	}}
}

// backend reads "web:http" or "web:80".
func backend(text string) *networkingv1.IngressBackend {
	name, port, _ := strings.Cut(text, ":")
	out := &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name}}
	if n, err := strconv.Atoi(port); err == nil {
		out.Service.Port.Number = int32(n)
	} else {
		out.Service.Port.Name = port
	}
	return out
}

// service reads NS/NAME [app=PROTOCOL] [IP…].
func (a *args) service() (*corev1.Service, *discoveryv1.EndpointSlice) {
	service := &corev1.Service{ObjectMeta: meta(a.Word(1))}
	port := corev1.ServicePort{Name: "http", Port: 80}
	if app := a.Options["app"]; app != "" {
		port.AppProtocol = &app
	}
	service.Spec.Ports = []corev1.ServicePort{port}
	number, datagrams, udp := int32(8080), "dns", corev1.ProtocolUDP
	if a.Has("udp") {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: datagrams, Port: 53, Protocol: udp})
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta(a.Word(1)), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port.Name, Port: &number}}}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: slice.Name}
	if a.Has("udp") {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &datagrams, Port: &number, Protocol: &udp})
	}
	for _, text := range a.Rest(2) {
		ip, drains := strings.CutSuffix(text, "~")
		e := discoveryv1.Endpoint{Addresses: []string{ip}}
		if yes, no := true, false; drains {
			e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return service, slice
}

// export reads NS/NAME of a member.
func (a *args) export() *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: meta(a.Word(1))}
}

// serviceImport reads NS/NAME and ports by number, all called http.
func (a *args) serviceImport() *mcsv1beta1.ServiceImport {
	o := &mcsv1beta1.ServiceImport{ObjectMeta: meta(a.Word(0))}
	o.Spec.Type = mcsv1beta1.ClusterSetIP
	for _, text := range a.Rest(1) {
		n, err := strconv.Atoi(text)
		a.Err = errors.Join(a.Err, err)
		o.Spec.Ports = append(o.Spec.Ports, mcsv1beta1.ServicePort{Name: "http", Port: int32(n)})
	}
	return o
}

// nameOf says whose pod has, or had, an address: "shop/web@eu-1".
func (w *world) nameOf(ip string) string { return cmp.Or(w.owners[ip], "nobody") }

func (w *world) condition(a *args) (string, error) {
	o, ok := w.hub["memberclusters"]["/"+a.Word(0)].(*v1alpha1.MemberCluster)
	if !ok {
		return "", fmt.Errorf("there is no member %s", a.Word(0))
	}
	var out strings.Builder
	for _, c := range o.Status.Conditions {
		fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
	}
	return out.String(), nil
}

// placed is what the status of a Placement says of members.
func (w *world) placed(a *args) (string, error) {
	namespace, name, _ := strings.Cut(a.Word(0), "/")
	id := model.Object{Kind: model.PlacementKind, Namespace: namespace, Name: name}
	row, ok := w.plane.Tables().Leaf.Placements.Get(nil, id)
	if !ok {
		return "", fmt.Errorf("there is no %s", id)
	}
	var out strings.Builder
	for _, m := range row.Members {
		fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%s %v %s %s", m.Name, m.Chosen, m.Reason, m.Message)))
	}
	return out.String(), nil
}

// certificates are made once for each set of names: that is slow, and a world
// that is told twice should be the same.
var certificates sync.Map

func (a *args) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(a.Word(0)), Type: corev1.SecretTypeTLS, Data: a.certificate(a.Rest(1)...)}
}

// certificate is one for these names, and its key, as Secrets have them.
func (a *args) certificate(names ...string) map[string][]byte {
	key := strings.Join(names, " ")
	made, ok := certificates.Load(key)
	if !ok {
		c, err := fleettest.SelfSigned(names...)
		if err != nil {
			a.Fail("%w", err)
			return nil
		}
		made, _ = certificates.LoadOrStore(key, map[string][]byte{corev1.TLSCertKey: c.Chain, corev1.TLSPrivateKeyKey: c.Key})
	}
	return made.(map[string][]byte)
}

// memberOf is the member that has a pod.
func (w *world) memberOf(ip string) model.Member {
	_, m, _ := strings.Cut(w.nameOf(ip), "@")
	return model.Member(m)
}

func (a *args) gatewayClass() *gatewayv1.GatewayClass {
	o := &gatewayv1.GatewayClass{ObjectMeta: meta(a.Word(0))}
	o.Spec.ControllerName = v1alpha1.ControllerGateway
	if c := a.Options["config"]; c != "" {
		o.Spec.ParametersRef = &gatewayv1.ParametersReference{Group: v1alpha1.GroupName, Kind: "GatewayClassConfig", Name: c}
	}
	return o
}

func (a *args) release() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: meta(model.GatewayDefinition("").Name)}
	o.Annotations = map[string]string{}
	for i, key := range []string{consts.BundleVersionAnnotation, consts.ChannelAnnotation} {
		if i < len(a.Words) {
			o.Annotations[key] = a.Words[i]
		}
	}
	return o
}

// gateway and listenerSet read listeners such as "https:HTTPS:443:*.shop.example@SECRET".
func (a *args) gateway() *gatewayv1.Gateway {
	o := &gatewayv1.Gateway{ObjectMeta: meta(a.Word(0))}
	o.Spec.GatewayClassName = gatewayv1.ObjectName(cmp.Or(a.Options["class"], "spillway"))
	if from := gatewayv1.FromNamespaces(a.Options["sets"]); from != "" {
		o.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: &from}}
	}
	o.Spec.Listeners = a.listeners()
	o.Spec.TLS = a.gatewayTLS()
	return o
}

func (a *args) listenerSet() *gatewayv1.ListenerSet {
	o := &gatewayv1.ListenerSet{ObjectMeta: meta(a.Word(0))}
	namespace, name, _ := strings.Cut(a.Options["to"], "/")
	ns := gatewayv1.Namespace(namespace)
	o.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: &ns, Name: gatewayv1.ObjectName(name)}
	for _, l := range a.listeners() {
		o.Spec.Listeners = append(o.Spec.Listeners, gatewayv1.ListenerEntry(l))
	}
	return o
}

func (a *args) listeners() (out []gatewayv1.Listener) {
	for _, text := range a.Rest(1) {
		text, secret, tls := strings.Cut(text, "@")
		parts := append(strings.Split(text, ":"), "", "", "")
		port, err := strconv.Atoi(parts[2])
		a.Err = errors.Join(a.Err, err)
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(parts[0]), Protocol: gatewayv1.ProtocolType(parts[1]), Port: gatewayv1.PortNumber(port)}
		if h := gatewayv1.Hostname(parts[3]); h != "" {
			l.Hostname = &h
		}
		if tls {
			l.TLS = &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(secret)}}}
		} else if pass := gatewayv1.TLSModePassthrough; l.Protocol == gatewayv1.TLSProtocolType {
			l.TLS = &gatewayv1.ListenerTLSConfig{Mode: &pass}
		}
		out = append(out, l)
	}
	return out
}

// grpcRoute reads rules such as "shop.Cart/Add->web:80".
func (a *args) grpcRoute() *gatewayv1.GRPCRoute {
	h := a.httpRoute()
	o := &gatewayv1.GRPCRoute{ObjectMeta: h.ObjectMeta}
	o.Spec.CommonRouteSpec, o.Spec.Hostnames = h.Spec.CommonRouteSpec, h.Spec.Hostnames
	for _, r := range h.Spec.Rules {
		service, method, _ := strings.Cut(*r.Matches[0].Path.Value, "/")
		rule := gatewayv1.GRPCRouteRule{Matches: []gatewayv1.GRPCRouteMatch{{Method: &gatewayv1.GRPCMethodMatch{Service: &service, Method: &method}}}}
		for _, b := range r.BackendRefs {
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.GRPCBackendRef{BackendRef: b.BackendRef})
		}
		o.Spec.Rules = append(o.Spec.Rules, rule)
	}
	return o
}

// httpRoute reads rules such as "/a->web:80".
func (a *args) httpRoute() *gatewayv1.HTTPRoute {
	o := &gatewayv1.HTTPRoute{ObjectMeta: meta(a.Word(0))}
	o.Spec.ParentRefs = a.parents()
	for _, h := range a.List("hosts") {
		o.Spec.Hostnames = append(o.Spec.Hostnames, gatewayv1.Hostname(h))
	}
	for _, text := range a.Rest(1) {
		path, to, _ := strings.Cut(text, "->")
		name, number, _ := strings.Cut(to, ":")
		n, err := strconv.Atoi(number)
		a.Err = errors.Join(a.Err, err)
		port := gatewayv1.PortNumber(n)
		rule := gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}}}
		ref := gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name), Port: &port}
		if imported, is := strings.CutPrefix(name, "^"); is {
			group, kind := gatewayv1.Group(model.ImportGroup), gatewayv1.Kind(model.ImportKind)
			ref.Group, ref.Kind, ref.Name = &group, &kind, gatewayv1.ObjectName(imported)
		}
		rule.BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: ref}}}
		o.Spec.Rules = append(o.Spec.Rules, rule)
	}
	return o
}
