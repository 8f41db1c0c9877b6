package routetest

import (
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statefulv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	cookiestatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// session is what the filter of that name does for the requests to a cluster.
type session struct {
	cookie *cookiev3.Cookie
	header string
	at     string // the endpoint that the client goes back to; empty: it names none
}

// hasSessions reports whether the last filter before the router is that of sessions.
func hasSessions(m *hcmv3.HttpConnectionManager) bool {
	return m.HttpFilters[len(m.HttpFilters)-2].Name == "session"
}

// clusterOf is a cluster of a route, and what is done for it.
type clusterOf struct {
	Name    string
	session *anypb.Any
}

func clustersOf(route *routev3.Route) []clusterOf {
	own := route.TypedPerFilterConfig["session"]
	w := route.GetRoute().GetWeightedClusters()
	if w == nil {
		return []clusterOf{{route.GetRoute().GetCluster(), own}}
	}
	var out []clusterOf
	for _, c := range w.Clusters {
		of := own
		if closer := c.TypedPerFilterConfig["session"]; closer != nil {
			of = closer
		}
		out = append(out, clusterOf{c.Name, of})
	}
	return out
}

// sessionOf is that of a request; nil: nothing is done, as for one to which a client
// would not show the cookie.
func (s *Proxy) sessionOf(c clusterOf, header http.Header, uri string) *session {
	if c.session == nil || !s.sessions {
		return nil
	}
	var per statefulv3.StatefulSessionPerRoute
	s.unpack(c.session.Value, &per)
	of := per.GetStatefulSession()
	if of == nil || of.Strict {
		s.Fail("the model does not know %v", &per)
		return nil
	}
	out := &session{}
	shown := ""
	switch state := of.SessionState; state.Name {
	case "envoy.http.stateful_session.cookie":
		var c cookiestatev3.CookieBasedSessionState
		s.unpack(state.TypedConfig.Value, &c)
		if out.cookie = c.Cookie; !underPath(uri, c.Cookie.Path) {
			return nil
		}
		if got, err := (&http.Request{Header: header}).Cookie(c.Cookie.Name); err == nil {
			shown = got.Value
		}
	case "envoy.http.stateful_session.header":
		var h headerstatev3.HeaderBasedSessionState
		s.unpack(state.TypedConfig.Value, &h)
		out.header = h.Name
		shown = header.Get(h.Name)
	default:
		s.Fail("the model does not know %s", state.Name)
	}
	raw, err := base64.StdEncoding.DecodeString(shown)
	if err != nil {
		return out
	}
	if out.at = string(raw); out.cookie != nil {
		out.at = addressIn(raw)
	}
	return out
}

// underPath reports whether a path is that of a cookie, or below it (RFC 6265, 5.1.4).
func underPath(uri, of string) bool {
	rest, under := strings.CutPrefix(uri, of)
	return under && (rest == "" || strings.HasSuffix(of, "/") || strings.ContainsRune("/?", rune(rest[0])))
}

// only leaves the endpoint that the client goes back to, if the cluster has it.
func (a *session) only(balanced, all []string) []string {
	if a != nil && slices.Contains(all, a.at) {
		return []string{a.at}
	}
	return balanced
}

// then is how an answer is changed for a client: where it is not the endpoint that the
// client named it gets its name.
func (a *session) then(one Sent) func(http.Header) {
	return func(h http.Header) {
		one.Respond(h)
		switch {
		case a == nil || a.at == one.Endpoint:
		case a.cookie != nil:
			c := http.Cookie{Name: a.cookie.Name, Value: SessionCookie(one.Endpoint), Path: a.cookie.Path, MaxAge: int(a.cookie.Ttl.AsDuration() / time.Second), HttpOnly: true}
			h.Add("Set-Cookie", c.String())
		default:
			h.Set(a.header, SessionHeader(one.Endpoint))
		}
	}
}

// SessionHeader is what names an endpoint in a header.
func SessionHeader(endpoint string) string {
	return base64.StdEncoding.EncodeToString([]byte(endpoint))
}

// SessionCookie is what names an endpoint in a cookie without an end: a message of Envoy's
// own, whose field 1 is the address.
func SessionCookie(endpoint string) string {
	raw := protowire.AppendTag(nil, 1, protowire.BytesType)
	return base64.StdEncoding.EncodeToString(protowire.AppendString(raw, endpoint))
}

// addressIn is the address in such a message.
func addressIn(raw []byte) string {
	number, _, tag := protowire.ConsumeTag(raw)
	if tag < 0 || number != 1 {
		return ""
	}
	address, n := protowire.ConsumeString(raw[tag:])
	if n < 0 {
		return ""
	}
	return address
}

// lists are all endpoints of a cluster, of any priority, that requests may go to.
func (s *Proxy) lists(name string) []string {
	c := s.clusters[name]
	if c == nil || c.GetType() != clusterv3.Cluster_EDS {
		return nil
	}
	service := c.GetEdsClusterConfig().GetServiceName()
	if service == "" {
		service = name
	}
	var out []string
	for _, l := range s.assignments[service].GetEndpoints() {
		for _, e := range l.LbEndpoints {
			a := e.GetEndpoint().Address.GetSocketAddress()
			out = append(out, net.JoinHostPort(a.Address, strconv.Itoa(int(a.GetPortValue()))))
		}
	}
	return out
}
