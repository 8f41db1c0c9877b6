package envoy

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Applications believe what these headers say of a client, or of the request that
// it made to a proxy before: many take the first address of X-Forwarded-For, or
// write X-Forwarded-Host in links. Pods see X-Forwarded-For, with one address, and
// X-Forwarded-Proto, both as the proxy knows them, and none of the others.
const forwardedFor = "x-forwarded-for"

var claims = []string{
	"forwarded", "x-client-ip", "x-forwarded-by", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix",
	"x-forwarded-scheme", "x-forwarded-server", "x-forwarded-ssl", "x-real-ip",
}

// believe makes a connection manager take a client's address from the connection,
// or from as many proxies in front as are trusted. Envoy itself appends where the
// connection is from to what X-Forwarded-For had, of which nothing is left if no
// proxy is trusted.
func believe(m *hcmv3.HttpConnectionManager, hops uint8) (taken []*mutationv3.HeaderMutation) {
	m.XffNumTrustedHops = uint32(hops)
	for _, name := range claims {
		taken = append(taken, removed(name))
	}
	if hops == 0 {
		return append(taken, removed(forwardedFor))
	}
	m.HttpFilters = append([]*hcmv3.HttpFilter{clientFilter()}, m.HttpFilters...)
	return taken
}

func removed(name string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}}
}

// clientFilter leaves of X-Forwarded-For the client: what is before it is the
// client's own, and what is behind it are our proxies.
func clientFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: "client", ConfigType: &hcmv3.HttpFilter_TypedConfig{
		TypedConfig: pack(&headersv3.HeaderMutation{Mutations: &headersv3.Mutations{RequestMutations: []*mutationv3.HeaderMutation{
			overwritten(forwardedFor, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
		}}}),
	}}
}

func overwritten(name, value string) *mutationv3.HeaderMutation {
	return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}
