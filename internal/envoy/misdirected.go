package envoy

import (
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// On a port of Gateways a connection is for the listener that the name in the client's
// handshake belongs to, and what was agreed there holds for no other: a request on it
// for a host of another listener is answered 421, and its client opens a connection for
// that (RFC 9110, 15.5.20; Gateway API, Listener.hostname). A name belongs to the
// listener of the port with the closest host, whichever Gateway it is of. What is not of
// a Gateway is as a listener for all names.
//
// Which listeners there are is asked of an index, a RouteConfiguration with a virtual
// host for each listener, so that Envoy finds the one that the request is for; its routes
// say whether the name of the handshake belongs there, too. Envoy's listener does not
// change with them. Where handshake and request have one name nobody asks. While there
// is no index every request for another name is answered 421, which is no more than that.

// namesHost stands for the index among the hosts of a collection. No request is for it:
// a "," is denied.
const namesHost model.Host = ","

// nameHeader holds the name of the handshake while the index is asked.
const nameHeader = "x-spillway-sni"

// namesIn makes the index of a collection.
func (d *derivation) namesIn(r *inc.Reader, in model.Collection) *index {
	var all []model.Host
	for _, class := range fleet.ClassesOf(in.Classes()) {
		hosts, ofGateway := d.p.ListenerHosts.Get(r, class)
		if !ofGateway {
			hosts = inc.List[model.Host]{""}
		}
		all = append(all, hosts...)
	}
	slices.Sort(all)
	return namesOf(slices.Compact(all))
}

// namesOf makes an index of the hosts of listeners, which are sorted. A virtual host
// has a route without a name for each listener right below it, whose names are not its
// own, and behind these a route for what is.
func namesOf(hosts []model.Host) *index {
	below := map[model.Host][]model.Host{}
	for _, h := range hosts {
		for up := range h.Wider() {
			if _, has := slices.BinarySearch(hosts, up); has {
				below[up] = append(below[up], h)
				break
			}
		}
	}
	c := &routev3.RouteConfiguration{
		IgnorePortInHostMatching: true,
		ValidateClusters:         wrapperspb.Bool(false), // there are none
	}
	if _, has := slices.BinarySearch(hosts, ""); !has {
		// No listener has it, so it is answered 404.
		c.VirtualHosts = append(c.VirtualHosts, &routev3.VirtualHost{Name: "*", Domains: []string{"*"}, Routes: []*routev3.Route{nameRoute("here", "")}})
	}
	for _, h := range hosts {
		name := domain(model.Host(h.Written()))
		vh := &routev3.VirtualHost{Name: name, Domains: []string{name}}
		for _, other := range below[h] {
			vh.Routes = append(vh.Routes, nameRoute("", other))
		}
		vh.Routes = append(vh.Routes, nameRoute("here", h))
		c.VirtualHosts = append(c.VirtualHosts, vh)
	}
	mustBeValid(c)
	return &index{encode(c)}
}

// nameRoute is a route of an index for handshakes with names of a listener; an empty host:
// with all.
func nameRoute(name string, of model.Host) *routev3.Route {
	out := &routev3.Route{Name: name, Match: match(model.Everything), Action: nothing.Action}
	text := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: string(of)}}
	switch {
	case of == "":
		return out
	case of.Wildcard():
		text.MatchPattern = &matcherv3.StringMatcher_Suffix{Suffix: strings.TrimPrefix(of.Written(), "*")}
	}
	out.Match.Headers = []*routev3.HeaderMatcher{{Name: nameHeader, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: text}}}
	return out
}
