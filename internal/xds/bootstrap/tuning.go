package bootstrap

import (
	"fmt"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"

	metrics "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	connections "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heap "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// statPrefixes, statSuffixes and statOfHTTP are the statistics Envoy keeps. By
// default it keeps about 30 KB of them per cluster, and loading 10,000 clusters
// costs three times the CPU.
var (
	statPrefixes = []string{
		"cluster." + ClusterName + ".", "cluster_manager.", "control_plane.", "hds_delegate.",
		"listener_manager.", "load_reporter.", "main_thread.", "overload.", "server.", "workers.",
	}
	statSuffixes = []string{
		".membership_healthy", ".membership_total", ".upstream_cx_connect_fail", ".upstream_rq_retry",
		".upstream_rq_total", ".upstream_rq_5xx", ".ejections_active", ".downstream_cx_active", ".ssl.connection_error",
		".rbac.denied", // an ExternalName led to the proxy's own machine
	}
	// Those of the HTTP listeners, and not a dozen for each host's routes.
	statOfHTTP = `http\.[^.]+\.(scoped_rds\.hosts\.)?[^.]+`
)

func stats() *metrics.StatsConfig {
	list := &matcher.ListStringMatcher{}
	for _, p := range statPrefixes {
		list.Patterns = append(list.Patterns, &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_Prefix{Prefix: p}})
	}
	for _, s := range statSuffixes {
		list.Patterns = append(list.Patterns, &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_Suffix{Suffix: s}})
	}
	list.Patterns = append(list.Patterns, &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_SafeRegex{
		SafeRegex: &matcher.RegexMatcher{Regex: statOfHTTP},
	}})
	return &metrics.StatsConfig{StatsMatcher: &metrics.StatsMatcher{
		StatsMatcher: &metrics.StatsMatcher_InclusionList{InclusionList: list},
	}}
}

// heapActions are taken when the heap reaches a part of its limit.
var heapActions = []struct {
	name string
	at   float64
}{
	{"envoy.overload_actions.shrink_heap", 0.90},
	{"envoy.overload_actions.disable_http_keepalive", 0.92},
	{"envoy.overload_actions.stop_accepting_requests", 0.95},
}

const heapMonitor = "envoy.resource_monitors.fixed_heap"

func overload(maxConnections uint32, maxHeap uint64) (*overloadv3.OverloadManager, error) {
	m := &overloadv3.OverloadManager{}
	err := monitor(m, "envoy.resource_monitors.global_downstream_max_connections",
		&connections.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: int64(maxConnections)})
	if err != nil || maxHeap == 0 {
		return m, err
	}
	for _, a := range heapActions {
		m.Actions = append(m.Actions, &overloadv3.OverloadAction{Name: a.name, Triggers: []*overloadv3.Trigger{{
			Name:         heapMonitor,
			TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: a.at}},
		}}})
	}
	return m, monitor(m, heapMonitor, &heap.FixedHeapConfig{MaxHeapSizeBytes: maxHeap})
}

func monitor(m *overloadv3.OverloadManager, name string, config proto.Message) error {
	a, err := anypb.New(config)
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	m.ResourceMonitors = append(m.ResourceMonitors, &overloadv3.ResourceMonitor{
		Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: a},
	})
	return nil
}
