package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/rbac/matchers/upstream_ip_port/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

// outside are the filters of a cluster that looks its endpoints up: what a name
// leads to is only known to the proxy, so the proxy itself refuses (403) what
// ingest refuses in an EndpointSlice. They run for each attempt, when its
// endpoint is chosen and before anything is sent to it.
func outside() []*hcmv3.HttpFilter {
	var nowhere []*rbacv3.Permission
	for _, r := range model.NotPods {
		nowhere = append(nowhere, &rbacv3.Permission{Rule: &rbacv3.Permission_Matcher{Matcher: &corev3.TypedExtensionConfig{
			Name: "u",
			TypedConfig: brief(&upstreamv3.UpstreamIpPortMatcher{UpstreamIp: &corev3.CidrRange{
				AddressPrefix: r.Prefix.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(r.Prefix.Bits())),
			}}),
		}}})
	}
	rules := &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{"nowhere": {
		Permissions: nowhere,
		Principals:  []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
	}}}
	return []*hcmv3.HttpFilter{
		{Name: "envoy.filters.http.upstream_rbac", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: brief(&filterv3.RBAC{Rules: rules})}},
		{Name: "envoy.filters.http.upstream_codec", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: brief(&codecv3.UpstreamCodec{})}},
	}
}
