// Package sim is for tests only: the whole program in one goroutine, without
// sockets, between a hub, members, proxies and resolvers that are made up.
//
// Objects of the hub and of members go in as internal/cluster takes them. What
// comes out is what proxies hold after a conversation with internal/xds, judged
// by what becomes of requests ([routetest]), what DNS answers, and what is
// written into statuses. Between them runs internal/app as it serves, see
// [app.Offline]. Time is a number that a test moves.
//
// A world is driven by short commands, one a line: see the comment of commands.
// Stories in testdata are made of them, and so are the random scripts of the
// properties, so that one that fails can be kept as a story.
//
// It may import everything; nothing imports it.
//
// [routetest]: github.com/spillway-dev/spillway/internal/envoy/routetest
// [app.Offline]: github.com/spillway-dev/spillway/internal/app
package sim
