package model

import (
	"slices"

	"sigs.k8s.io/gateway-api/pkg/features"
)

// Features are those of the Gateway API that are served, by name as a GatewayClass
// lists them and the conformance suite knows them. A name is here if and only if the
// suite's tests of it pass (make conformance): beside each stands where tests of our
// own show it, too.
func Features() []string {
	out := make([]string, len(served))
	for i, f := range served {
		out[i] = string(f)
	}
	slices.Sort(out)
	return out
}

var served = []features.FeatureName{
	features.SupportBackendTLSPolicy,                          // internal/fleet and leaf stories backendtls, internal/envoy TestBackendOverTLS
	features.SupportBackendTLSPolicySANValidation,             // internal/envoy TestBackendOverTLS
	features.SupportGateway,                                   // internal/fleet stories gateway*
	features.SupportGatewayBackendClientCertificate,           // internal/envoy TestBackendIsShownACertificate
	features.SupportGatewayHTTPListenerIsolation,              // internal/envoy requests gateway-listener*
	features.SupportGatewayPort8080,                           // internal/demo: the port is 8080
	features.SupportHTTPRoute,                                 // internal/envoy requests httproute*
	features.SupportHTTPRoute303RedirectStatusCode,            // internal/ingest httproute
	features.SupportHTTPRoute307RedirectStatusCode,            // internal/ingest httproute
	features.SupportHTTPRoute308RedirectStatusCode,            // internal/ingest httproute
	features.SupportHTTPRouteBackendProtocolH2C,               // internal/envoy
	features.SupportHTTPRouteBackendProtocolWebSocket,         // internal/envoy
	features.SupportHTTPRouteBackendRequestHeaderModification, // internal/envoy requests
	features.SupportHTTPRouteBackendTimeout,                   // internal/envoy requests
	features.SupportHTTPRouteBackendURLRewrite,                // internal/envoy requests
	features.SupportHTTPRouteCORS,                             // internal/envoy requests
	features.SupportHTTPRouteHostRewrite,                      // internal/envoy requests
	features.SupportHTTPRouteMethodMatching,                   // internal/envoy requests
	features.SupportHTTPRouteNamedRouteRule,                   // internal/envoy
	features.SupportHTTPRouteParentRefPort,                    // internal/fleet
	features.SupportHTTPRoutePathRedirect,                     // internal/envoy requests
	features.SupportHTTPRoutePathRewrite,                      // internal/envoy requests
	features.SupportHTTPRoutePortRedirect,                     // internal/envoy requests
	features.SupportHTTPRouteQueryParamMatching,               // internal/envoy requests
	features.SupportHTTPRouteRequestMirror,                    // internal/envoy requests
	features.SupportHTTPRouteRequestMultipleMirrors,           // internal/envoy requests
	features.SupportHTTPRouteRequestPercentageMirror,          // internal/envoy
	features.SupportHTTPRouteRequestTimeout,                   // internal/envoy requests
	features.SupportHTTPRouteResponseHeaderModification,       // internal/envoy requests
	features.SupportHTTPRouteRetryCodes,                       // internal/envoy requests
	features.SupportHTTPRouteRetryConnectionError,             // internal/envoy
	features.SupportHTTPRouteSchemeRedirect,                   // internal/envoy requests
	features.SupportReferenceGrant,                            // internal/fleet
}
