package ingest

import (
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// frontend reads which clients are let in by their certificates. A port that is named
// twice has what is said first.
func (g *gateway) frontend(field model.Field, f *gatewayv1.FrontendTLSConfig) (out []model.Validation) {
	if v := f.Default.Validation; v != nil {
		out = append(out, g.validation(field+".default.validation", v))
	}
	for i, p := range f.PerPort {
		at := (field + ".perPort").Index(i)
		if p.Port < 1 || p.Port > 65535 {
			g.invalid(at+".port", "%d is no port: use 1 to 65535", p.Port)
			continue
		}
		if slices.ContainsFunc(out, func(v model.Validation) bool { return v.Port == uint16(p.Port) }) {
			g.invalid(at+".port", "port %d is named before: name it once", p.Port)
			continue
		}
		var says model.Validation
		if v := p.TLS.Validation; v != nil {
			says = g.validation(at+".tls.validation", v)
		}
		says.Port = uint16(p.Port)
		out = append(out, says)
	}
	return out
}

func (g *gateway) validation(field model.Field, v *gatewayv1.FrontendTLSValidation) (out model.Validation) {
	switch v.Mode {
	case "", gatewayv1.AllowValidOnly:
	case gatewayv1.AllowInsecureFallback:
		out.Fallback = true
	default:
		g.invalid(field+".mode", "%q is not used: set %s or %s; %[2]s until then", v.Mode, gatewayv1.AllowValidOnly, gatewayv1.AllowInsecureFallback)
	}
	if len(v.CACertificateRefs) == 0 {
		out.Broken = g.refuse(field+".caCertificateRefs", gatewayv1.ListenerReasonInvalidCACertificateRef, "no ConfigMap is named: name one that has certificates of authorities under %s", bundleKey)
	}
	for i, ref := range v.CACertificateRefs {
		local := gatewayv1.LocalObjectReference{Group: ref.Group, Kind: ref.Kind, Name: ref.Name}
		o, ok := authorities(g.Object.Workspace, otherwise(ref.Namespace, g.Object.Namespace), local)
		if !ok {
			at := (field + ".caCertificateRefs").Index(i)
			out.Broken = g.refuse(at, gatewayv1.ListenerReasonInvalidCACertificateKind, noAuthorities, ref.Kind)
			out.Broken.Message = fmt.Sprintf("%s: %s", at, out.Broken.Message)
			continue
		}
		out.Bundles = append(out.Bundles, o)
	}
	return out
}
