package model

import (
	"slices"

	"sigs.k8s.io/gateway-api/pkg/features"
)

// Features are those of the Gateway API that are served, by name as a GatewayClass
// lists them and the conformance suite knows them. A name is here if and only if the
// suite's tests of it pass (make conformance), where it has some. Beside each stands
// which test of our own shows it.
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
	features.SupportClusterTrustBundle,                        // internal/ingest stories backendtlspolicy and gateway, internal/cluster TestGatewayKinds
	features.SupportGRPCRoute,                                 // internal/envoy requests calls, internal/sim stories gateways
	features.SupportGRPCRouteNamedRouteRule,                   // the suite alone
	features.SupportGRPCRouteRequestHeaderModifier,            // internal/envoy requests calls
	features.SupportGateway,                                   // internal/fleet stories gateways
	features.SupportGatewayAddressEmpty,                       // internal/ingest stories gateway
	features.SupportGatewayAddressRoutability,                 // internal/leaf stories gateways: the suite has no test of it
	features.SupportGatewayAddressRoutabilityCluster,          // the same
	features.SupportGatewayBackendClientCertificate,           // internal/envoy TestBackendIsShownACertificate
	features.SupportGatewayHTTPListenerIsolation,              // internal/fleet TestGatewaysChooseAsTheStandardSays
	features.SupportGatewayPort8080,                           // internal/fleet stories gateways
	features.SupportGatewayStaticAddresses,                    // internal/fleet stories leases, internal/leaf stories gateways
	features.SupportHTTPRoute,                                 // internal/envoy requests, internal/sim stories gateways
	features.SupportHTTPRoute303RedirectStatusCode,            // internal/envoy requests replies
	features.SupportHTTPRoute307RedirectStatusCode,            // internal/envoy requests replies
	features.SupportHTTPRoute308RedirectStatusCode,            // internal/envoy requests replies
	features.SupportHTTPRouteBackendProtocolH2C,               // internal/envoy TestBackendProtocols
	features.SupportHTTPRouteBackendProtocolWebSocket,         // internal/envoy TestWebSocket
	features.SupportHTTPRouteBackendRequestHeaderModification, // internal/envoy requests filters
	features.SupportHTTPRouteBackendTimeout,                   // internal/envoy TestTimeoutsAndRetriesOfARule
	features.SupportHTTPRouteBackendURLRewrite,                // internal/envoy requests filters
	features.SupportHTTPRouteCORS,                             // internal/envoy requests cors
	features.SupportHTTPRouteDestinationPortMatching,          // internal/fleet stories gateways
	features.SupportHTTPRouteHostRewrite,                      // internal/envoy requests filters
	features.SupportHTTPRouteMethodMatching,                   // internal/envoy requests matches
	features.SupportHTTPRouteNamedRouteRule,                   // the suite alone
	features.SupportHTTPRouteParentRefPort,                    // internal/fleet stories gateways
	features.SupportHTTPRoutePathRedirect,                     // internal/envoy requests replies
	features.SupportHTTPRoutePathRewrite,                      // internal/envoy requests filters
	features.SupportHTTPRoutePortRedirect,                     // internal/envoy requests replies
	features.SupportHTTPRouteQueryParamMatching,               // internal/envoy requests matches
	features.SupportHTTPRouteRequestMirror,                    // internal/envoy requests filters
	features.SupportHTTPRouteRequestMultipleMirrors,           // internal/envoy requests filters
	features.SupportHTTPRouteRequestPercentageMirror,          // internal/envoy TestSharesInEnvoy
	features.SupportHTTPRouteRequestTimeout,                   // internal/envoy TestTimeoutsAndRetriesOfARule
	features.SupportHTTPRouteResponseHeaderModification,       // internal/envoy requests filters
	features.SupportHTTPRouteRetryCodes,                       // internal/envoy TestTimeoutsAndRetriesOfARule
	features.SupportHTTPRouteRetryConnectionError,             // internal/envoy TestTimeoutsAndRetriesOfARule
	features.SupportHTTPRouteSchemeRedirect,                   // internal/envoy requests replies
	features.SupportListenerSet,                               // internal/fleet and leaf stories listenersets, internal/sim stories gateways
	features.SupportReferenceGrant,                            // internal/fleet stories gateways
	features.SupportTCPRoute,                                  // internal/envoy TestTCPRelays, internal/fleet stories relays
	features.SupportTLSRoute,                                  // internal/envoy TestTLSRelays, internal/fleet stories relays
	features.SupportTLSRouteModeMixed,                         // internal/envoy TestTLSRelays
	features.SupportTLSRouteModeTerminate,                     // internal/envoy TestTLSRelays
	features.SupportUDPRoute,                                  // internal/envoy TestUDPRelays, internal/fleet stories relays

	features.SupportGatewayFrontendClientCertificateValidation,                 // internal/fleet stories validation, internal/envoy TestClientsAreLetInByCertificates
	features.SupportGatewayFrontendClientCertificateValidationInsecureFallback, // the same
	features.SupportGatewayHTTPSListenerDetectMisdirectedRequests,              // internal/envoy requests misdirected
	features.SupportGatewayRouteHostnameIntersectionPrecedence,                 // internal/fleet stories layers, internal/envoy requests layers
}
