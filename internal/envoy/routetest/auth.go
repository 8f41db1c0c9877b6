package routetest

import (
	"net/http"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	mutatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	inputv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Asked is what somebody is asked about a request.
type Asked struct {
	Endpoints          []string // of which one is asked
	Calls              bool     // by gRPC
	Method, Host, Path string
	Header             http.Header
}

// Said is the answer; 200 is a yes.
type Said struct {
	Status int
	Header http.Header
}

// marks are what a chain says of its connections, by key.
func (s *Proxy) marks(chain *listenerv3.FilterChain) map[string]string {
	out := map[string]string{}
	for _, f := range chain.Filters[:len(chain.Filters)-1] {
		var c setstatev3.Config
		s.unpack(f.GetTypedConfig().Value, &c)
		for _, v := range c.OnNewConnection {
			out[v.GetObjectKey()] = v.GetFormatString().GetTextFormatSource().GetInlineString()
		}
	}
	return out
}

// marked reports whether a connection is one that a route is for.
func (s *Proxy) marked(wanted []*inputv3.FilterStateMatcher) bool {
	return !slices.ContainsFunc(wanted, func(m *inputv3.FilterStateMatcher) bool {
		value, ok := s.connection[m.Key]
		return !ok || !s.matchesText(m.GetStringMatch(), value)
	})
}

// asks reports whether a connection manager has the filter that asks.
func asks(m *hcmv3.HttpConnectionManager) bool {
	cors := slices.IndexFunc(m.HttpFilters, func(f *hcmv3.HttpFilter) bool { return f.Name == "cors" })
	return cors >= 0 && m.HttpFilters[cors+1].Name == "auth" && len(m.HttpFilters) == cors+4
}

// auth is what that filter does for a route: an answer in place of the route's, or the
// headers with which the request goes on.
func (s *Proxy) auth(level levels, q Request, host, uri string) (*Outcome, http.Header) {
	header := q.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	packed := level.route.TypedPerFilterConfig["auth"]
	if packed == nil || !s.asking {
		return nil, header
	}
	var own compositev3.CompositePerRoute
	var action compositev3.ExecuteFilterAction
	s.unpack(packed.Value, &own)
	s.unpack(own.Matcher.GetOnNoMatch().GetAction().TypedConfig.Value, &action)
	for _, f := range action.GetFilterChain().GetTypedConfig() {
		switch _, kind, _ := strings.Cut(f.TypedConfig.TypeUrl, "/"); kind {
		case "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation":
			var m mutatev3.HeaderMutation
			s.unpack(f.TypedConfig.Value, &m)
			for _, one := range m.Mutations.RequestMutations {
				header.Del(one.GetRemove())
			}
		case "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz":
			var c authzv3.ExtAuthz
			s.unpack(f.TypedConfig.Value, &c)
			if no := s.askAbout(&c, q, host, uri, header); no != nil {
				return no, nil
			}
		default:
			s.Fail("the model does not know %s", kind)
		}
	}
	return nil, header
}

// askAbout asks about a request with some headers. A yes changes them, nil is returned.
func (s *Proxy) askAbout(c *authzv3.ExtAuthz, q Request, host, uri string, header http.Header) *Outcome {
	if c.FailureModeAllow || c.StatusOnError != nil || c.FilterEnabled != nil || c.ShadowMode {
		s.Fail("the model does not know %v", c)
	}
	ask := Asked{Method: q.Method, Host: host, Path: c.GetHttpService().GetPathPrefix() + uri, Header: http.Header{}}
	cluster := c.GetHttpService().GetServerUri().GetCluster()
	if calls := c.GetGrpcService(); calls != nil {
		ask.Calls, cluster = true, calls.GetEnvoyGrpc().ClusterName
	}
	for name, values := range header {
		lower := strings.ToLower(name)
		always := ask.Calls && c.AllowedHeaders == nil || !ask.Calls && lower == "authorization"
		if (always || s.listed(c.AllowedHeaders, lower)) && !strings.HasPrefix(lower, c.DisallowedHeaders.Patterns[0].GetPrefix()) {
			ask.Header[name] = values
		}
	}
	if ask.Endpoints = s.balance(cluster); len(ask.Endpoints) == 0 {
		return &Outcome{Status: http.StatusForbidden, Header: http.Header{}}
	}
	said := Said{Status: http.StatusOK}
	if s.Judge != nil {
		said = s.Judge(ask)
	}
	switch {
	case said.Status >= 500:
		return &Outcome{Status: http.StatusForbidden, Header: http.Header{}}
	case said.Status != http.StatusOK:
		return &Outcome{Status: uint32(said.Status), Header: said.Header}
	}
	for name, values := range said.Header {
		lower := strings.ToLower(name)
		kept := lower == "host" || strings.HasPrefix(lower, "x-envoy-") || whole(c.DecoderHeaderMutationRules.DisallowExpression.Regex).MatchString(lower)
		if !kept && (ask.Calls || s.listed(c.GetHttpService().AuthorizationResponse.AllowedUpstreamHeaders, lower)) {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return nil
}

// EachListener shows the listeners to a test that changes them.
func (s *Proxy) EachListener(f func(*listenerv3.Listener)) {
	for _, l := range s.listeners {
		f(l)
	}
}

// listed reports whether a list has a name.
func (s *Proxy) listed(list *inputv3.ListStringMatcher, name string) bool {
	return slices.ContainsFunc(list.GetPatterns(), func(m *inputv3.StringMatcher) bool { return s.matchesText(m, name) })
}
