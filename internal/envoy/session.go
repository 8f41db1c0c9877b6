package envoy

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statefulv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	cookiestatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Routes may have clients go back to the endpoint that answered them before. The filter
// for that is in every listener, as that of CORS, and does nothing by itself. It is the
// last before the router: the endpoint is one of the cluster that the route has chosen,
// of any tier, and only as long as it is there and healthy. An attempt that follows
// another goes where the others did not, so that it begins a new session.

const sessionFilterName = "session"

func sessionFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: sessionFilterName, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(&statefulv3.StatefulSession{})}}
}

// keeps is what the filter does for requests to a backend; nil: nothing.
func keeps(s model.Session, b model.Backend) *anypb.Any {
	if s == (model.Session{}) {
		return nil
	}
	state := &corev3.TypedExtensionConfig{} // Envoy finds these by their names
	if s.Header {
		state.Name, state.TypedConfig = "envoy.http.stateful_session.header", brief(&headerstatev3.HeaderBasedSessionState{Name: s.Of(b)})
	} else {
		state.Name, state.TypedConfig = "envoy.http.stateful_session.cookie", brief(&cookiestatev3.CookieBasedSessionState{Cookie: cookieOf(s, b)})
	}
	return brief(&statefulv3.StatefulSessionPerRoute{Override: &statefulv3.StatefulSessionPerRoute_StatefulSession{
		StatefulSession: &statefulv3.StatefulSession{SessionState: state},
	}})
}

// cookieOf is the cookie of a backend. Envoy makes it HttpOnly. Strict in place of Lax
// would leave it out of the first request that comes by a link of another site, which
// would end the session. It is Secure only where browsers take no other: the same rule
// may serve clients without TLS.
func cookieOf(s model.Session, b model.Backend) *cookiev3.Cookie {
	out := &cookiev3.Cookie{Name: s.Of(b), Path: s.Path, Attributes: []*cookiev3.CookieAttribute{{Name: "SameSite", Value: "Lax"}}}
	if s.Age > 0 {
		out.Ttl = durationpb.New(time.Duration(s.Age) * time.Second)
	}
	if model.SecureCookie(s.Name) {
		out.Attributes = append(out.Attributes, &cookiev3.CookieAttribute{Name: "Secure"})
	}
	return out
}

// goBack has the clients of a route go back to endpoints of its clusters.
func goBack(route *routev3.Route, to []weighted) {
	if !slices.ContainsFunc(to, func(w weighted) bool { return w.session != nil }) {
		return
	}
	first, alike := to[0].session, true
	for _, w := range to {
		alike = alike && proto.Equal(w.session, first)
	}
	if alike {
		route.TypedPerFilterConfig = addSession(route.TypedPerFilterConfig, first)
		return
	}
	for i, c := range route.GetRoute().GetWeightedClusters().GetClusters() {
		c.TypedPerFilterConfig = addSession(nil, to[i].session)
	}
}

// hasSessions reports whether clients of a host may go back to endpoints.
func hasSessions(h fleet.Host) bool {
	found := false
	eachTarget(h, func(t fleet.Target) { found = found || t.Filters.Session() != (model.Session{}) })
	return found
}

// scatteredOf tells the roots whose clients do not go back to endpoints, since a backend
// is in parts. Which part a request goes to is chosen before the filter, by chance, and
// the cluster that leads to it is one of others, for which Envoy looks up no endpoint.
func (d *derivation) scatteredOf(r *inc.Reader, key model.HostKey) (model.Findings, bool) {
	host, _ := d.p.Hosts.Get(r, key)
	var out model.Findings
	eachTarget(host, func(t fleet.Target) {
		if t.Filters.Session() == (model.Session{}) || t.Reply != nil {
			return
		}
		for _, b := range t.Used() {
			if n, _ := d.clusterNames.Get(r, b.Backend); n.parts > 1 {
				out = append(out, model.WarningOf(t.Root, "spec.rules", model.ReasonUnsupported,
					"requests to %s go to any endpoint, whatever sessionPersistence says: it has so many that proxies have it in %d parts; have fewer endpoints in a Service, or leave sessionPersistence out", b.Backend, n.parts))
			}
		}
	})
	return out.Sorted(), len(out) > 0
}

func addSession(all map[string]*anypb.Any, session *anypb.Any) map[string]*anypb.Any {
	if session == nil {
		return all
	}
	if all == nil {
		all = map[string]*anypb.Any{}
	}
	all[sessionFilterName] = session
	return all
}
