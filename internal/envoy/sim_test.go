package envoy

import (
	"net"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	inputv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// sim is a model of how Envoy routes a request over the resources of a view. It
// knows what our resources use, and fails the test on what it does not know.
type sim struct {
	t        testing.TB
	byName   map[string]map[string]proto.Message // type URL -> name
	listens  []*listenerv3.Listener
	presents string // the secret of the last TLS handshake
}

func newSim(t testing.TB, w *world) *sim {
	s := &sim{t: t, byName: map[string]map[string]proto.Message{}}
	for _, typ := range w.t.Types() {
		s.byName[typ.URL] = map[string]proto.Message{}
		for _, key := range typ.Table.Keys() {
			if key.View != testView {
				continue
			}
			res, _ := typ.Table.Get(nil, key)
			m := decode(t, res)
			s.byName[typ.URL][key.Name] = m
			if l, ok := m.(*listenerv3.Listener); ok {
				s.listens = append(s.listens, l)
			}
		}
	}
	return s
}

// outcome is what becomes of a request.
type outcome struct {
	refused   bool     // no connection
	status    uint32   // answered by Envoy itself
	endpoints []string // host:port that may get it, sorted
}

// route follows a request through listener, chain, virtual host, route,
// cluster and priority.
func (s *sim) route(port int, q request) outcome {
	chain := s.chain(port, q)
	if chain == nil {
		return outcome{refused: true}
	}
	var m hcmv3.HttpConnectionManager
	s.unpack(chain.Filters[0].GetTypedConfig().Value, &m)
	host := q.host
	if m.StripTrailingHostDot {
		name, port, found := strings.Cut(host, ":")
		host = strings.TrimSuffix(name, ".")
		if found {
			host += ":" + port
		}
	}
	rc := s.scope(&m, host)
	if rc == nil {
		return outcome{status: 404}
	}
	vh := rc.VirtualHosts[0]
	if len(rc.VirtualHosts) != 1 || !slices.Equal(vh.Domains, []string{"*"}) {
		s.t.Fatalf("the model does not know the virtual hosts of %s", rc.Name)
	}
	uri := q.path
	if m.NormalizePath.GetValue() {
		uri = normalize(uri)
	}
	for _, route := range s.candidates(vh, uri) {
		if s.matches(route.Match, q.method, host, uri) {
			return s.act(route)
		}
	}
	return outcome{status: 404}
}

// candidates are the routes that are tried: those of the host, or those that
// the longest beginning of the path leads to.
func (s *sim) candidates(vh *routev3.VirtualHost, uri string) []*routev3.Route {
	if vh.Matcher == nil {
		return vh.Routes
	}
	tree := vh.Matcher.GetMatcherTree()
	var input inputv3.HttpRequestHeaderMatchInput
	s.unpack(tree.Input.TypedConfig.Value, &input)
	if input.HeaderName != ":path" || vh.Matcher.OnNoMatch != nil || len(vh.Routes) > 0 {
		s.t.Fatalf("the model does not know the matcher %v", vh.Matcher)
	}
	for i := len(uri); i > 0; i-- {
		if on := tree.GetPrefixMatchMap().Map[uri[:i]]; on != nil {
			var list routev3.RouteList
			s.unpack(on.GetAction().TypedConfig.Value, &list)
			return list.Routes
		}
	}
	return nil
}

func (s *sim) unpack(raw []byte, into proto.Message) {
	if err := proto.Unmarshal(raw, into); err != nil {
		s.t.Fatal(err)
	}
}

// chain picks the filter chain: exact SNI, then wildcards by longest suffix,
// then the chain without names.
func (s *sim) chain(port int, q request) *listenerv3.FilterChain {
	i := slices.IndexFunc(s.listens, func(l *listenerv3.Listener) bool {
		return l.Address.GetSocketAddress().GetPortValue() == uint32(port)
	})
	if i < 0 {
		return nil
	}
	chains := s.listens[i].FilterChains
	if !q.tls {
		return chains[0]
	}
	if m := s.listens[i].FilterChainMatcher; m != nil {
		return s.chainOnDemand(m, chains, q.sni)
	}
	name := strings.ToLower(q.sni)
	for pattern := name; ; pattern = "*." + parent(pattern) {
		for _, c := range chains {
			if name != "" && slices.Contains(c.FilterChainMatch.ServerNames, pattern) {
				s.handshake(c)
				return c
			}
		}
		if parent(pattern) == "" {
			break
		}
	}
	for _, c := range chains {
		if len(c.FilterChainMatch.ServerNames) == 0 {
			s.handshake(c)
			return c
		}
	}
	return nil
}

// chainOnDemand picks the chain by the one rule that there is, and the secret
// as the control plane lends it; nil if there is none.
func (s *sim) chainOnDemand(m *matcherv3.Matcher, chains []*listenerv3.FilterChain, sni string) *listenerv3.FilterChain {
	rule := m.GetMatcherList().Matchers[0]
	re := rule.Predicate.GetSinglePredicate().GetValueMatch().GetSafeRegex().Regex
	to, secret := m.OnNoMatch, nameless
	if regexp.MustCompile("^(?:" + re + ")$").MatchString(sni) {
		to, secret = rule.OnMatch, sni
	}
	names := append([]string{secret}, slices.Collect(CertificateNames(secret))...)
	at := slices.IndexFunc(names, func(name string) bool { return s.byName[SecretType][name] != nil })
	if at < 0 {
		return nil
	}
	s.presents = names[at]
	var name wrapperspb.StringValue
	s.unpack(to.GetAction().TypedConfig.Value, &name)
	return chains[slices.IndexFunc(chains, func(c *listenerv3.FilterChain) bool { return c.Name == name.Value })]
}

// parent removes the first label, and before it a "*.".
func parent(host string) string {
	_, up, _ := strings.Cut(strings.TrimPrefix(host, "*."), ".")
	return up
}

func (s *sim) handshake(c *listenerv3.FilterChain) {
	var ctx tlsv3.DownstreamTlsContext
	s.unpack(c.TransportSocket.GetTypedConfig().Value, &ctx)
	s.presents = ctx.CommonTlsContext.TlsCertificateSdsSecretConfigs[0].Name
	if s.byName[SecretType][s.presents] == nil {
		s.t.Errorf("chain %s waits for ever for secret %s", c.Name, s.presents)
	}
}

// scope finds the routes of a host: its own, then in lower case, then those of
// the wildcard one label up, then the catch-all's.
func (s *sim) scope(m *hcmv3.HttpConnectionManager, host string) *routev3.RouteConfiguration {
	var early earlyv3.HeaderMutation
	s.unpack(m.EarlyHeaderMutationExtensions[0].TypedConfig.Value, &early)
	header := early.Mutations[0].GetAppend().Header
	from := m.GetScopedRoutes().ScopeKeyBuilder.Fragments[0].GetHeaderValueExtractor()
	if header.Key != from.Name || from.ElementSeparator != ":" || from.GetIndex() != 0 || len(m.HttpFilters) != 3 {
		s.t.Fatalf("the model does not know %v", m)
	}
	table := strings.TrimSuffix(header.Value, "%REQ(:authority)%")
	host, _, _ = strings.Cut(host, ":")
	lower := strings.ToLower(host)
	for _, name := range []string{host, lower, "*." + parent(lower), "*"} {
		for _, r := range s.byName[ScopeType] {
			scope := r.(*routev3.ScopedRouteConfiguration)
			if scope.Key.Fragments[0].GetStringKey() != table+name {
				continue
			}
			rc, ok := s.byName[RouteType][scope.RouteConfigurationName].(*routev3.RouteConfiguration)
			if !ok {
				s.t.Fatalf("no RouteConfiguration %s", scope.RouteConfigurationName)
			}
			return rc
		}
	}
	return nil
}

func normalize(uri string) string {
	p, query, has := strings.Cut(uri, "?")
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	if strings.Contains(p, "//") { // merging slashes is off: the model has no dots in such paths
		clean = p
	}
	if has {
		clean += "?" + query
	}
	return clean
}

func (s *sim) matches(m *routev3.RouteMatch, method, host, uri string) bool {
	p, _, _ := strings.Cut(uri, "?")
	ok := false
	switch x := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Path:
		ok = p == x.Path
	case *routev3.RouteMatch_Prefix:
		ok = strings.HasPrefix(p, x.Prefix)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		ok = p == x.PathSeparatedPrefix || strings.HasPrefix(p, x.PathSeparatedPrefix+"/")
	default:
		s.t.Fatalf("the model does not know %T", x)
	}
	for _, h := range m.Headers {
		value := map[string]string{":method": method, ":authority": host}[h.Name]
		re := regexp.MustCompile("^(?:" + h.GetStringMatch().GetSafeRegex().GetRegex() + ")$")
		ok = ok && re.MatchString(value)
	}
	return ok
}

func (s *sim) act(route *routev3.Route) outcome {
	if d := route.GetDirectResponse(); d != nil {
		return outcome{status: d.Status}
	}
	names := []string{route.GetRoute().GetCluster()}
	if w := route.GetRoute().GetWeightedClusters(); w != nil {
		names = nil
		for _, c := range w.Clusters {
			names = append(names, c.Name)
		}
	}
	var out outcome
	for _, name := range names {
		out.endpoints = append(out.endpoints, s.balance(name)...)
	}
	if len(out.endpoints) == 0 {
		out.status = 503
	}
	slices.Sort(out.endpoints)
	return out
}

// balance returns the endpoints of the first priority that has a healthy one.
func (s *sim) balance(name string) []string {
	c, ok := s.byName[ClusterType][name].(*clusterv3.Cluster)
	if !ok {
		s.t.Fatalf("a route leads to cluster %s, which is not there", name)
	}
	if c.GetClusterType().GetName() == "envoy.clusters.aggregate" {
		var entry aggregatev3.ClusterConfig
		s.unpack(c.GetClusterType().TypedConfig.Value, &entry)
		for _, part := range entry.Clusters {
			if out := s.balance(part); len(out) > 0 {
				return out
			}
		}
		return nil
	}
	assignment := c.LoadAssignment
	if c.GetType() == clusterv3.Cluster_EDS {
		assignment, ok = s.byName[AssignmentType][name].(*endpointv3.ClusterLoadAssignment)
		if !ok {
			s.t.Fatalf("cluster %s has no assignment: Envoy would warm it", name)
		}
	}
	for priority := range uint32(len(assignment.Endpoints)) {
		var out []string
		for _, l := range assignment.Endpoints {
			if l.Priority != priority {
				continue
			}
			for _, e := range l.LbEndpoints {
				if e.HealthStatus == corev3.HealthStatus_UNKNOWN || e.HealthStatus == corev3.HealthStatus_HEALTHY {
					a := e.GetEndpoint().Address.GetSocketAddress()
					out = append(out, net.JoinHostPort(a.Address, itoa(a.GetPortValue())))
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}
