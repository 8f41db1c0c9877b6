// Package envoy turns the program's tables into Envoy resources: one file per
// resource type, each a pure function of rows. It decides nothing about
// traffic; it writes down what fleet and steer decided.
//
// It holds true: equal inputs give byte-identical resources, in every process
// and in any order of arrival; a version is a hash of the content; a resource
// refers only to names that are in the same views, or that these are about to
// get in the same commit; every resource passes its own validation.
//
// How one change costs only itself: an assignment reads its own backend's rows,
// and is made once a vantage; a route fragment is compiled once per host; what
// does not depend on a place has rows by front, and views share those.
//
// Which RouteConfigurations there are, and which listener reads which, is
// decided in scheme.go and nowhere else.
package envoy
