package sim

import (
	"errors"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/model"
)

// parents are the Gateways and ListenerSets that a route names.
func (a *args) parents() (out []gatewayv1.ParentReference) {
	for _, of := range []struct {
		option string
		kind   gatewayv1.Kind
	}{{"to", model.GatewayKind}, {"sets", model.ListenerSetKind}} {
		for _, text := range a.List(of.option) {
			name, section, has := strings.Cut(text, "/")
			p := gatewayv1.ParentReference{Kind: &of.kind, Name: gatewayv1.ObjectName(name)}
			if s := gatewayv1.SectionName(section); has {
				p.SectionName = &s
			}
			out = append(out, p)
		}
	}
	return out
}

// backends read SERVICE:PORT[*WEIGHT].
func (a *args) backends() (out []gatewayv1.BackendRef) {
	for _, text := range a.Rest(1) {
		text, weight, weighted := strings.Cut(text, "*")
		name, number, _ := strings.Cut(text, ":")
		n, err := strconv.Atoi(number)
		port := gatewayv1.PortNumber(n)
		ref := gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name), Port: &port}}
		if weighted {
			n, wrong := strconv.Atoi(weight)
			w := int32(n)
			ref.Weight, err = &w, errors.Join(err, wrong)
		}
		a.Err = errors.Join(a.Err, err)
		out = append(out, ref)
	}
	return out
}

func (a *args) tlsRoute() *gatewayv1.TLSRoute {
	o := &gatewayv1.TLSRoute{ObjectMeta: meta(a.Word(0))}
	o.Spec.ParentRefs = a.parents()
	for _, h := range a.List("hosts") {
		o.Spec.Hostnames = append(o.Spec.Hostnames, gatewayv1.Hostname(h))
	}
	o.Spec.Rules = []gatewayv1.TLSRouteRule{{BackendRefs: a.backends()}}
	return o
}

func (a *args) tcpRoute() *gatewayv1.TCPRoute {
	o := &gatewayv1.TCPRoute{ObjectMeta: meta(a.Word(0))}
	o.Spec.ParentRefs = a.parents()
	o.Spec.Rules = []gatewayv1.TCPRouteRule{{BackendRefs: a.backends()}}
	return o
}

func (a *args) udpRoute() *gatewayv1.UDPRoute {
	o := &gatewayv1.UDPRoute{ObjectMeta: meta(a.Word(0))}
	o.Spec.ParentRefs = a.parents()
	o.Spec.Rules = []gatewayv1.UDPRouteRule{{BackendRefs: a.backends()}}
	return o
}

// gatewayTLS is what the options clients and client say.
func (a *args) gatewayTLS() *gatewayv1.GatewayTLSConfig {
	out := &gatewayv1.GatewayTLSConfig{}
	if name := a.Options["client"]; name != "" {
		out.Backend = &gatewayv1.GatewayBackendTLS{ClientCertificateRef: &gatewayv1.SecretObjectReference{Name: gatewayv1.ObjectName(name)}}
	}
	for _, text := range a.List("clients") {
		if out.Frontend == nil {
			out.Frontend = &gatewayv1.FrontendTLSConfig{}
		}
		port, says, of := strings.Cut(text, ":")
		if !of {
			out.Frontend.Default.Validation = validation(text)
			continue
		}
		n, err := strconv.Atoi(port)
		a.Err = errors.Join(a.Err, err)
		at := gatewayv1.TLSPortConfig{Port: gatewayv1.PortNumber(n)}
		at.TLS.Validation = validation(says)
		out.Frontend.PerPort = append(out.Frontend.PerPort, at)
	}
	return out
}

func validation(text string) *gatewayv1.FrontendTLSValidation {
	if text == "-" {
		return nil
	}
	text, fallback := strings.CutSuffix(text, "!")
	out := &gatewayv1.FrontendTLSValidation{}
	if fallback {
		out.Mode = gatewayv1.AllowInsecureFallback
	}
	for name := range strings.SplitSeq(text, "+") {
		out.CACertificateRefs = append(out.CACertificateRefs, gatewayv1.ObjectReference{Kind: "ConfigMap", Name: gatewayv1.ObjectName(name)})
	}
	return out
}

func (a *args) authorities() *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: meta(a.Word(0)), Data: map[string]string{"ca.crt": ""}}
	for _, name := range a.Rest(1) {
		o.Data["ca.crt"] += string(routetest.Authority(name).CertPEM())
	}
	return o
}

func (a *args) identity() *corev1.Secret {
	pair := routetest.Signed(a.Word(1))
	key, err := pair.KeyPEM()
	a.Err = errors.Join(a.Err, err)
	return &corev1.Secret{ObjectMeta: meta(a.Word(0)), Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: pair.CertPEM(), corev1.TLSPrivateKeyKey: key}}
}

func (a *args) policy() *gatewayv1.BackendTLSPolicy {
	o := &gatewayv1.BackendTLSPolicy{ObjectMeta: meta(a.Word(0))}
	ref := gatewayv1.LocalPolicyTargetReferenceWithSectionName{}
	ref.Kind, ref.Name = "Service", gatewayv1.ObjectName(a.Word(1))
	http := gatewayv1.SectionName("http")
	ref.SectionName = &http
	o.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{ref}
	o.Spec.Validation.Hostname = gatewayv1.PreciseHostname(a.Options["host"])
	for _, name := range a.List("ca") {
		o.Spec.Validation.CACertificateRefs = append(o.Spec.Validation.CACertificateRefs, gatewayv1.LocalObjectReference{Kind: "ConfigMap", Name: gatewayv1.ObjectName(name)})
	}
	return o
}
