package ingest

import (
	"encoding/json"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// Roots of which there are leaves only are read for what Spillway needs of them: hosts,
// parents, backends, keys, and what each asks for. What is done with requests is up to
// controllers of members, so nothing is refused for that.

// LeafHTTPRoute reads an HTTPRoute so.
func LeafHTTPRoute(o *gatewayv1.HTTPRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	return readHTTPRoute(o, true)
}

// LeafGRPCRoute reads a GRPCRoute so.
func LeafGRPCRoute(o *gatewayv1.GRPCRoute) (model.Object, model.Root, []HostRules, model.Findings) {
	return readGRPCRoute(o, true)
}

// LeafIngress reads an Ingress so.
func LeafIngress(o *networkingv1.Ingress) (model.Object, model.Root, []HostRules, model.Findings) {
	return readIngress(o, true)
}

// opaque is a match that can't be read: two of the same words ask for the same.
func opaque(m any) model.Match {
	text, err := json.Marshal(m)
	if err != nil {
		panic("a match can't be written as JSON: " + err.Error())
	}
	return model.Match{Kind: model.PathRegex, Path: string(text)}
}

// What edges would have to do, and can't, is no fault of a route that they do not serve.

func (in *httpRoute) invalid(field model.Field, format string, args ...any) {
	if !in.leaf {
		in.report.invalid(field, format, args...)
	}
}

func (in *httpRoute) unsupported(field model.Field, format string, args ...any) {
	if !in.leaf {
		in.report.unsupported(field, format, args...)
	}
}

func (in *httpRoute) refuse(field model.Field, format string, args ...any) {
	if !in.leaf {
		in.route.refuse(field, format, args...)
	}
}
