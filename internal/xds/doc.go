// Package xds serves views to Envoy by incremental xDS (delta ADS).
//
// A view is what one kind of data plane should hold: named resources of six
// types, each with a version that is a hash of its content. The package knows
// nothing of hosts, services or members: it is told a view's changes
// ([Store.Publish]) and which view an edge's proxies get ([Config.ViewOf]).
//
// What it holds true for every stream:
//
//   - At most one response per type is unanswered; what piles up meanwhile is
//     sent as one response, and only its latest content.
//   - A resource is never sent in a version the client already has, except a
//     ClusterLoadAssignment after its Cluster, without which Envoy warms the
//     cluster until a timeout.
//   - Every name subscribed to is answered, by removed_resources when absent,
//     unless the view is held for it or another stream is asked first. A view
//     may lend what it has to names that it does not have, see [Lender]; to so
//     many at a time and no more.
//   - A route, scope or listener that uses a cluster waits until the stream
//     acknowledged the cluster and its assignment; a cluster, assignment,
//     secret or route configuration leaves only after the stream acknowledged
//     what stopped using it, plus a grace. [order] and [removals] are the tables.
//   - A held name is never removed.
//   - After a NACK the resources of that response are sent in smaller parts,
//     down to one; the culprit is quarantined at its version, the rest goes on.
//   - A changed cluster, listener, scope or route configuration is sent to one
//     stream of a view first, and to the others when that one acknowledged it.
//     What it rejected no other stream is sent. One that is silent for
//     [Limits.Trial] is passed over. [rollout] is the machine; endpoints and
//     secrets never wait for it.
//   - State per stream is bounded by the names of its view, a few bits each.
//
// [Session] is the state machine, pure: no I/O, goroutine, clock or lock.
// [Store] locks a view around each step of its sessions; [Server] carries the
// steps' results over gRPC. Sources: the xDS protocol as documented by Envoy
// 1.40 ("xDS REST and gRPC protocol", incremental variant) and
// envoy.service.discovery.v3.
package xds
