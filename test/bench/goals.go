package main

import (
	"errors"
	"fmt"
)

// goal is a limit on a figure. Where is nil for that of the largest fleet.
type goal struct {
	what  string
	name  string
	where params
	most  float64
	from  string // who asks for it
}

func at(hosts, members, streams int) params {
	return params{"hosts": hosts, "members": members, "streams": streams}
}

const (
	issue  = "must hold"
	design = "goal"
)

// goals are those of the design, and what must hold, as far as this command
// measures it.
var goals = []goal{
	{"endpoint change among 10,000 hosts: bytes", "endpoint_change.bytes", at(10_000, base, 1), 1024, issue},
	{"route change among 10,000 hosts: bytes", "route_change.bytes", at(10_000, base, 1), 1024, issue},
	{"route change among 10,000 hosts: Envoy's main thread", "route_change.envoy_main_ms", at(10_000, base, 1), 1, issue},
	{"endpoint change to 200 streams that follow 10,000 hosts: CPU", "endpoint_change.cpu_us", at(10_000, base, 200), 20_000, issue},
	{"request for an unknown host, times a known one", "request.unknown_to_known", nil, 1.5, issue},
	{"host added, from 100 to 10,000 hosts: Envoy's main thread, times what scopes alone grow", "scope_map.growth_of_added", nil, 1, issue},
	{"host removed, the same", "scope_map.growth_of_removed", nil, 1, issue},
	{"a turn of the loop at rest with 200 edges, 300 members and 3 proxies an edge, more than with 2, 3 and 3", "turn.more_at_rest_us", nil, 50, issue},
	{"nothing changes, 10,000 hosts: CPU in a second", "idle.cpu_ms_per_s", at(10_000, base, 1), 2, issue},
	{"the same, Envoy's CPU in a second", "idle.envoy_cpu_ms_per_s", at(10_000, base, 1), 20, issue},
	{"a route created among 10,000, one by one: CPU, times one among 1,000", "load_one_by_one.growth", nil, 1.2, issue},
	{"one path of an Ingress of 4,000 hosts: commit", "wide_ingress.commit_us", nil, 2000, issue},
	{"a class at an edge with 1,000 others: CPU, times one among 10", "front_change.growth_of_cpu_us", nil, 1.5, issue},
	{"the same: bytes", "front_change.growth_of_bytes", nil, 1.5, issue},
	{"the same: Envoy's main thread, but for what scopes and listeners alone grow", "front_change.growth_of_envoy_main_ms", nil, 1.5, issue},
	{"a Gateway at an edge with 1,000 others: CPU, times one among 100", "gateway_change.growth_of_cpu_us", nil, 1.5, issue},
	{"the same: bytes, but for the index of wildcards", "gateway_change.growth_of_bytes", nil, 1.5, issue},
	{"the same: allocations", "gateway_change.growth_of_allocs", nil, 1.5, issue},
	{"a listener of one of them: CPU", "listener_change.growth_of_cpu_us", nil, 1.5, issue},
	{"the same: bytes, but for the index of wildcards", "listener_change.growth_of_bytes", nil, 1.5, issue},
	{"a route of one of them: CPU", "gateway_route_change.growth_of_cpu_us", nil, 1.5, issue},
	{"the same: bytes", "gateway_route_change.growth_of_bytes", nil, 1.5, issue},
	{"1,000 Gateways of 10 routes: restart until Envoy is in sync, times one Gateway with all routes", "gateways.restart_in_sync_times_one", nil, 2, issue},
	{"the same: CPU", "gateways.restart_cpu_times_one", nil, 2, issue},
	{"1,000 HTTPRoutes applied at once: answers other than 404 and then 200", "httproutes.wrong", nil, 0, issue},
	{"an HTTPRoute edited under load: requests that fail", "httproute_edit.failed", nil, 0, issue},
	{"the same: resources that are sent, but for those of its host", "httproute_edit.others_touched", nil, 0, issue},
	{"a member more of 200 with leaves and 3,000 endpoints each: heap", "leaves.heap_per_member", nil, 314_573, issue},
	{"an edit of a root with two leaves among 200 members: CPU, times one among 10", "leaf_edit.growth_of_cpu_us", nil, 1.5, issue},
	{"a leaf's address changes among 200 members, and its root's status: CPU, times one among 10", "leaf_status.growth_of_cpu_us", nil, 1.5, issue},
	{"nothing changes: writes because of leaves", "leaves.writes_at_rest", nil, 0, issue},
	{"memory of a route with 10 endpoints, one proxy in sync", "memory.in_sync_heap_per_route", at(10_000, base, 1), 9 << 10, issue},
	{"memory of an endpoint", "memory.heap_per_endpoint", nil, 128, issue},
	{"first list until the first proxy acknowledged everything: CPU a route", "load.in_sync_cpu_us_per_route", at(10_000, base, 1), 200, issue},
	{"control-plane CPU of an endpoint change, one at a time", "endpoint_change.cpu_us", at(10_000, base, 1), 800, issue},
	{"restart until Envoy is in sync, 10,000 hosts", "restart.envoy_in_sync_ms", nil, 1500, issue},
	{"one change to 1,000 streams: CPU", "endpoint_change.cpu_us", at(baseHosts, base, 1000), 40_000, issue},
	{"memory of a stream", "stream.heap", at(baseHosts, base, 1000), 40 << 10, issue},
	{"an edge more at a place where there is one: bytes a host", "vantages.edge_more_heap_per_host", nil, 8, issue},
	{"an edge at another place: bytes a host", "vantages.further_heap_per_host", nil, 1536, issue},
	{"new host → first 200, p50", "host_change.served_ms_p50", at(10_000, base, 1), 8, design},
	{"bytes of a new host", "host_change.bytes", at(10_000, base, 1), 1200, design},
	{"bytes of a route change", "route_change.bytes", at(10_000, base, 1), 300, design},
	{"Envoy's main thread for a route change", "route_change.envoy_main_ms", at(10_000, base, 1), 0.45, design},
	{"control-plane CPU of a route change", "route_change.cpu_us", at(10_000, base, 1), 100, design},
	{"endpoint change → served, p50", "endpoint_change.served_ms_p50", at(10_000, base, 1), 4, design},
	{"endpoint change → served, p99", "endpoint_change.served_ms_p99", at(10_000, base, 1), 15, design},
	{"the same while 50 others a second change, p90", "endpoint_change_beside_50_a_second.served_ms_p90", at(10_000, base, 1), 15, design},
	{"control-plane CPU of an endpoint change, one at a time", "endpoint_change.cpu_us", at(10_000, base, 1), 50, design},
	{"the same among 5,000 a second", "replay_5000_a_second.cpu_us", nil, 50, design},
	{"5,000 endpoint changes a second: cores", "replay_5000_a_second.cores", nil, 1, design},
	{"5,000 endpoint changes a second: until a client is told, p99", "replay_5000_a_second.told_ms_p99", nil, 50, design},
	{"memory of a route with 10 endpoints", "memory.heap_per_route", at(10_000, base, 1), 1536, design},
	{"memory of an endpoint", "memory.heap_per_endpoint", nil, 128, design},
	{"10,000 routes, resident", "memory.rss_mib", at(10_000, base, 1), 64, design},
	{"bulk load, CPU a route", "load.cpu_us_per_route", at(10_000, base, 1), 150, design},
	{"restart until Envoy is in sync, 10,000 hosts", "restart.envoy_in_sync_ms", nil, 1500, design},
	{"resources sent again after a restart", "restart.resources_resent", nil, 0, design},
	{"one change to 1,000 streams: CPU", "endpoint_change.cpu_us", at(baseHosts, base, 1000), 15_000, design},
	{"memory of a stream", "stream.heap", at(baseHosts, base, 1000), 16 << 10, design},
	{"10,000 services of a member lost: last one told", "member_loss.moved_last_ms", at(10_000, base, 1), 10_000, design},
	{"meanwhile, endpoint change of others → served, p99", "member_loss.others_ms_p99", at(10_000, base, 1), 100, design},
	{"an edge moves, 10,000 hosts in another view: meanwhile, endpoint change → served, p99", "edge_move.others_ms_p99", at(10_000, base, 1), 100, design},
}

// growth adds what a host that comes or goes costs Envoy's main thread more
// among 10,000 than among 100, as a multiple of what a scope alone costs more,
// and what one that comes costs the control plane as a multiple of the same
// among 1,000.
func (f *figures) growth() {
	grows := func(name string, few, many params) float64 {
		low, ok1 := f.find(name, few)
		high, ok2 := f.find(name, many)
		if !ok1 || !ok2 {
			return 0
		}
		return high.Value - low.Value
	}
	for _, c := range []struct{ ours, scopes, name string }{
		{"scope_map.ours_add_envoy_main_ms", "scope_map.add_envoy_main_ms", "scope_map.growth_of_added"},
		{"scope_map.ours_remove_envoy_main_ms", "scope_map.remove_envoy_main_ms", "scope_map.growth_of_removed"},
	} {
		ours := grows(c.ours, at(100, base, 1), at(10_000, base, 1))
		if alone := grows(c.scopes, at(100, base, 1), at(10_000, base, 1)); alone > 0 && ours > 0 {
			f.add(c.name, nil, ours/alone, "times")
		}
	}
	few, ok1 := f.find("load_one_by_one.cpu_us_per_route", params{"hosts": 1000})
	many, ok2 := f.find("load_one_by_one.cpu_us_per_route", params{"hosts": 10_000})
	if ok1 && ok2 {
		f.add("load_one_by_one.growth", nil, many.Value/few.Value, "times")
	}
}

// goalTable says which are met.
func (f figures) goalTable() table {
	t := table{}
	t.row("", "limit", "measured", "")
	for _, g := range goals {
		one, ok := f.find(g.name, g.where)
		limit := figure{Value: g.most, Unit: one.Unit}
		switch {
		case !ok:
			t.row(g.what, number(g.most), "not measured", "")
		case one.Value <= g.most:
			t.row(g.what, withUnit(limit), withUnit(one), "met")
		default:
			t.row(g.what, withUnit(limit), withUnit(one), "**missed**, "+number(one.Value/g.most)+" times")
		}
	}
	return t
}

// limits on figures that no load of the machine can excuse, in every world.
var limits = []struct {
	name string
	most float64
}{
	{"endpoint_change.bytes", 1024},
	{"route_change.bytes", 1024},
	// One, and a few that belong to what went before: among many proxies some
	// are only now told of the clusters that left after their grace.
	{"endpoint_change.responses", 1.1},
	{"route_change.responses", 1.1},
	{"certificate_change.responses", 1.1},
	{"restart.resources_resent", 0},
	{"gateway_change.growth_of_bytes", 1.5},
	{"listener_change.growth_of_bytes", 1.5},
	{"gateway_route_change.growth_of_bytes", 1.5},
	{"gateways.restart.resources_resent", 0},
	{"beside.httproute_change.bytes", 1024},
	{"beside.httproute_change.responses", 1.1},
	{"httproutes.wrong", 0},
	{"httproute_edit.failed", 0},
	{"httproute_edit.others_touched", 0},
	{"httproute_edit.responses", 1.1},
	{"leaves.writes_at_rest", 0},
	{"services.rows_per_unreferenced", 0},
	{"leaf_edit.writes_in_members", 2},
	{"leaf_edit.writes_on_the_hub", 0},
	{"leaf_status.writes_in_members", 0},
	{"leaf_status.writes_on_the_hub", 1},
}

// flat are figures that must not grow with the number of hosts. What grows is
// the length of numbers in names and addresses.
// How many clusters leave in one response, after their grace, is chance: what a
// removal takes is not among them.
var flat = []string{"endpoint_change.bytes", "route_change.bytes", "certificate_change.bytes", "host_change.bytes"}

const flatWithin = 1.05

// check returns what is broken. A figure that is not there is broken, too.
func (f figures) check() error {
	var errs []error
	for _, l := range limits {
		found := false
		for _, one := range f {
			if one.Name != l.name {
				continue
			}
			found = true
			if one.Value > l.most {
				errs = append(errs, fmt.Errorf("%s is %s with %v: the limit is %s", l.name, number(one.Value), one.Params, number(l.most)))
			}
		}
		if !found {
			errs = append(errs, fmt.Errorf("%s was not measured", l.name))
		}
	}
	for _, name := range flat {
		sweeps := f.sweeps(name)
		if len(sweeps) == 0 || sweeps[0].key != "hosts" {
			errs = append(errs, fmt.Errorf("%s was not measured with different numbers of hosts", name))
			continue
		}
		s := sweeps[0]
		few, many := s.values[0], s.values[len(s.values)-1]
		low, _ := f.find(name, s.at(few))
		high, _ := f.find(name, s.at(many))
		if high.Value > flatWithin*low.Value {
			errs = append(errs, fmt.Errorf("%s grows from %s with %d hosts to %s with %d", name, number(low.Value), few, number(high.Value), many))
		}
	}
	return errors.Join(errs...)
}
