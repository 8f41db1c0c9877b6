package main

import (
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// routeOf is the name of the route configuration that a listener's first
// filter chain asks for.
func routeOf(r *discovery.Resource) string {
	var l listener.Listener
	if err := r.GetResource().UnmarshalTo(&l); err != nil {
		panic(err)
	}
	for _, chain := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			var h hcm.HttpConnectionManager
			if filter.GetTypedConfig().UnmarshalTo(&h) == nil {
				return h.GetRds().GetRouteConfigName()
			}
		}
	}
	panic("bench: listener " + r.GetName() + " asks for no routes")
}
