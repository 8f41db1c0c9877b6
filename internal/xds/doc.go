// Package xds serves views to Envoy by incremental xDS (delta ADS).
//
// A collection is a set of named resources of six types, each with a version that
// is a hash of its content. A view is what one kind of data plane should hold: the
// union of some collections. What several views have in common is kept once, and
// a view that changes in one of its collections costs that one. The package knows
// nothing of hosts, services or members: it is told, commit by commit, what
// changes in collections, which of them make a view ([Store.Commit]), and which
// view an edge's proxies get ([Config.ViewOf]).
//
// What it holds true for every stream:
//
//   - It sees each commit as a whole, whatever it touches; and whoever commits
//     waits for no client.
//   - A name is there while one of its collections has it. A list of collections
//     that changes costs those that came or went, and the client what differs.
//   - At most one response per type is unanswered; what piles up meanwhile is
//     sent as one response, and only its latest content.
//   - A resource is never sent in a version the client already has, except a
//     ClusterLoadAssignment after its Cluster, without which Envoy warms the
//     cluster until a timeout.
//   - Every name subscribed to is answered, by removed_resources when absent,
//     unless the view is held for it or another stream is asked first. What a
//     view has may answer for names that it does not have, see [Aliases]; of so
//     many for a stream, and no more.
//   - A route, scope or listener that uses a cluster waits until the stream
//     acknowledged the cluster and its assignment; a cluster, assignment,
//     secret or route configuration leaves only after the stream acknowledged
//     what stopped using it, plus a grace. [order] and [removals] are the tables.
//   - A held name is never removed.
//   - A client that has a version keeps it while the view's is unsure, made
//     without rows that should be there; one that has none is sent what there
//     is. See [Resource.Unsure] and keep.go.
//   - After a NACK the resources of that response are sent in smaller parts,
//     down to one; the culprit is quarantined at its version, the rest goes on.
//   - A changed cluster, listener, scope or route configuration is sent to one
//     stream of an edge first, and to the others when one acknowledged it. What
//     it rejected a second one is asked; what two nodes rejected the others of
//     their Envoy versions are not sent, as long as both are there. One that is
//     silent for too long is passed over. [rollout] and [refusals] are the
//     machine; endpoints and secrets never wait for it. Edges know nothing of
//     each other's refusals.
//   - State per stream is bounded: by the names of its view, a few bits each,
//     and by [Limits] for names that a client makes up. A change costs nothing to
//     streams that subscribe to few names, and not to that one.
//   - Whatever a client asks for, the store is given back after a part of it
//     ([Session.Take]), so that others wait for no more than that.
//   - A stream is sent nothing after its client may not have it any more.
//
// [Session] is the state machine, pure: no I/O, goroutine, clock or lock.
// [Store] holds itself locked for each step of a session; [Server] carries the
// steps' results over gRPC. Sources: the xDS protocol as documented by Envoy
// 1.40 ("xDS REST and gRPC protocol", incremental variant) and
// envoy.service.discovery.v3.
package xds
