// Package routetest is a model of how Envoy routes a request over the resources
// that it holds, so that tests say what becomes of requests. It knows what our
// resources use, and fails a test on what it does not know.
package routetest

import (
	"cmp"
	"crypto/x509"
	"iter"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	rbacfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	inputv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/model"
)

// Proxy is an Envoy with what it holds.
type Proxy struct {
	// Fail ends the test: the model does not know what it was given.
	Fail func(format string, args ...any)
	// Missing is told of what is used and is not there. The request goes on as
	// Envoy would have it, if the test does.
	Missing func(format string, args ...any)
	// Lend lists the names, best first, under which the control plane has the
	// secret that is asked for by a name. Nil: that name alone.
	Lend func(name string) iter.Seq[string]
	// Ask is told of a secret that a handshake needs: a proxy would ask for it
	// now. Nil: nobody is.
	Ask func(name string)
	// Judge is who is asked whether a request may go on, where a route has somebody
	// asked. Nil: everybody says yes.
	Judge func(Asked) Said
	// Greet is an endpoint to which a connection is made: whether it and who connects
	// take each other. Nil: they do.
	Greet func(endpoint string, h Hello) bool

	clusters    map[string]*clusterv3.Cluster
	assignments map[string]*endpointv3.ClusterLoadAssignment
	listeners   []*listenerv3.Listener
	scopes      []*routev3.ScopedRouteConfiguration
	routes      map[string]*routev3.RouteConfiguration
	secrets     map[string]*tlsv3.Secret

	// Of the request that is followed:
	presents   string            // by its handshake
	connection map[string]string // marks of its connection
	asking     bool              // its listener has the filter that asks
	sessions   bool              // it has the filter of sessions
	scheme     string            // its X-Forwarded-Proto, as routes see it
}

// New returns a proxy that holds nothing.
func New(fail, missing func(format string, args ...any)) *Proxy {
	return &Proxy{
		Fail: fail, Missing: missing,
		clusters: map[string]*clusterv3.Cluster{}, assignments: map[string]*endpointv3.ClusterLoadAssignment{},
		routes: map[string]*routev3.RouteConfiguration{}, secrets: map[string]*tlsv3.Secret{},
	}
}

// Add gives the proxy a resource.
func (s *Proxy) Add(m proto.Message) {
	switch m := m.(type) {
	case *clusterv3.Cluster:
		s.clusters[m.Name] = m
	case *endpointv3.ClusterLoadAssignment:
		s.assignments[m.ClusterName] = m
	case *listenerv3.Listener:
		s.listeners = append(s.listeners, m)
	case *routev3.ScopedRouteConfiguration:
		s.scopes = append(s.scopes, m)
	case *routev3.RouteConfiguration:
		s.routes[m.Name] = m
	case *tlsv3.Secret:
		s.secrets[m.Name] = m
	default:
		s.Fail("the model does not know %T", m)
	}
}

// AddBody gives the proxy a resource as it is on the wire: a serialized Any.
func (s *Proxy) AddBody(body []byte) {
	m, err := decode(body)
	if err != nil {
		s.Fail("%v", err)
		return
	}
	s.Add(m)
}

func decode(body []byte) (proto.Message, error) {
	var packed anypb.Any
	if err := proto.Unmarshal(body, &packed); err != nil {
		return nil, err
	}
	return packed.UnmarshalNew()
}

// Request is a request of a client.
type Request struct {
	At                 string // the proxy's address that the client came to; empty: one that no listener is bound to alone
	Port               int
	TLS                bool
	SNI                string
	Client             *x509.Certificate // that the client shows; nil: none
	Datagram           bool              // it is one
	From               int               // port of its client
	Method, Host, Path string
	Header             http.Header
}

// Outcome is what becomes of a request.
type Outcome struct {
	Refused   bool     // no connection
	Status    uint32   // answered by Envoy itself
	Location  string   // where a redirect leads
	Endpoints []string // host:port that may get it, sorted
	Closed    bool     // of a connection or a datagram that is handed on: or nobody gets it
	Presents  string   // the secret of the TLS handshake

	Sent    []Sent      // how each of them gets it
	Mirrors []Sent      // who may get a copy, which nobody reads the answer to
	Header  http.Header // of an answer by Envoy itself: what its route adds
}

// Route follows a request through listener, chain, virtual host, route,
// cluster and priority.
func (s *Proxy) Route(q Request) Outcome {
	s.presents = ""
	out := s.follow(q)
	slices.Sort(out.Endpoints)
	out.Presents = s.presents
	return out
}

func (s *Proxy) follow(q Request) Outcome {
	if q.Datagram {
		return s.datagram(q)
	}
	chain := s.chain(q)
	if chain == nil || !s.admits(chain, q) {
		return Outcome{Refused: true}
	}
	if handsOn(chain) {
		return s.handOn(chain)
	}
	var m hcmv3.HttpConnectionManager
	s.unpack(chain.Filters[len(chain.Filters)-1].GetTypedConfig().Value, &m)
	s.connection, s.asking, s.sessions = s.marks(chain), asks(&m), hasSessions(&m)
	s.scheme = schemeOf(q, m.XffNumTrustedHops)
	host := q.Host
	if m.StripTrailingHostDot {
		name, port, found := strings.Cut(host, ":")
		host = strings.TrimSuffix(name, ".")
		if found {
			host += ":" + port
		}
	}
	uri := q.Path
	if !m.NormalizePath.GetValue() || !m.MergeSlashes || m.PathWithEscapedSlashesAction != hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT {
		s.Fail("the model does not know how paths are brought into normal form")
	}
	if uri = Normalize(uri); uri == "" {
		return Outcome{Status: 400}
	}
	if path, _, _ := strings.Cut(q.Path, "?"); model.EscapesSlash(path) {
		return Outcome{Status: http.StatusTemporaryRedirect, Location: uri}
	}
	if status := s.denied(&m, q, host); status != 0 {
		return Outcome{Status: status}
	}
	if s.elsewhere(&m, q, host) {
		return Outcome{Status: http.StatusMisdirectedRequest}
	}
	for rc := range s.walk(&m, host) {
		vh := rc.VirtualHosts[0]
		if len(rc.VirtualHosts) != 1 || !slices.Equal(vh.Domains, []string{"*"}) {
			s.Fail("the model does not know the virtual hosts of %s", rc.Name)
		}
		var out Outcome
		var passed uint32 // of a million
		for _, route := range s.candidates(vh, uri) {
			if !s.matches(route.Match, q, host, uri) {
				continue
			}
			one := s.act(levels{route, vh, rc}, q, host, uri)
			share := s.share(route.Match)
			if share > passed {
				out = out.or(one)
			}
			if passed = max(passed, share); passed == million {
				return out
			}
		}
	}
	return Outcome{Status: 404}
}

// candidates are the routes that are tried: those of the host, or those that
// the longest beginning of the path leads to.
func (s *Proxy) candidates(vh *routev3.VirtualHost, uri string) []*routev3.Route {
	if vh.Matcher == nil {
		return vh.Routes
	}
	tree := vh.Matcher.GetMatcherTree()
	var input inputv3.HttpRequestHeaderMatchInput
	s.unpack(tree.Input.TypedConfig.Value, &input)
	if input.HeaderName != ":path" || vh.Matcher.OnNoMatch != nil || len(vh.Routes) > 0 {
		s.Fail("the model does not know the matcher %v", vh.Matcher)
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

func (s *Proxy) unpack(raw []byte, into proto.Message) {
	if err := proto.Unmarshal(raw, into); err != nil {
		s.Fail("%v", err)
	}
}

// listener is the one that a client gets: that of the address alone goes before
// that of all addresses, as the kernel has it.
func (s *Proxy) listener(q Request) *listenerv3.Listener {
	for _, at := range []string{q.At, "0.0.0.0", "::"} {
		for _, l := range s.listeners {
			a := l.Address.GetSocketAddress()
			if a.GetPortValue() == uint32(q.Port) && a.Address == at && (a.Protocol == corev3.SocketAddress_UDP) == q.Datagram {
				return l
			}
		}
	}
	return nil
}

// chain picks the filter chain: exact SNI, then wildcards by longest suffix,
// then the chain without names.
func (s *Proxy) chain(q Request) *listenerv3.FilterChain {
	l := s.listener(q)
	if l == nil {
		return nil
	}
	chains := l.FilterChains
	if !q.TLS {
		return chains[0]
	}
	if m := l.FilterChainMatcher; m != nil {
		return s.chainOnDemand(m, chains, q.SNI)
	}
	name := strings.ToLower(q.SNI)
	for pattern := name; ; pattern = "*." + Parent(pattern) {
		for _, c := range chains {
			if name != "" && slices.Contains(c.FilterChainMatch.ServerNames, pattern) {
				s.handshake(c)
				return c
			}
		}
		if Parent(pattern) == "" {
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

// chainOnDemand picks the chain by the first rule that fits, and the secret as the
// control plane lends it; nil if there is none.
func (s *Proxy) chainOnDemand(m *matcherv3.Matcher, chains []*listenerv3.FilterChain, sni string) *listenerv3.FilterChain {
	to := m.OnNoMatch
	for _, rule := range m.GetMatcherList().Matchers {
		if s.asksFor(rule.Predicate.GetSinglePredicate().GetValueMatch(), strings.ToLower(sni)) {
			to = rule.OnMatch
			break
		}
	}
	var name wrapperspb.StringValue
	s.unpack(to.GetAction().TypedConfig.Value, &name)
	chain := chains[slices.IndexFunc(chains, func(c *listenerv3.FilterChain) bool { return c.Name == name.Value })]
	secret, decrypts := s.demanded(chain, sni)
	if !decrypts {
		return chain
	}
	if s.Ask != nil {
		s.Ask(secret)
	}
	names := []string{secret}
	if s.Lend != nil {
		names = slices.AppendSeq(names, s.Lend(secret))
	}
	at := slices.IndexFunc(names, func(name string) bool { return s.secrets[name] != nil })
	if at < 0 {
		return nil
	}
	s.presents = names[at]
	return chain
}

// Parent removes the first label, and before it a "*.".
func Parent(host string) string {
	_, up, _ := strings.Cut(strings.TrimPrefix(host, "*."), ".")
	return up
}

func (s *Proxy) handshake(c *listenerv3.FilterChain) {
	if c.TransportSocket == nil {
		return // it is the backend's
	}
	ctx := s.server(c)
	s.presents = ctx.CommonTlsContext.TlsCertificateSdsSecretConfigs[0].Name
	if s.secrets[s.presents] == nil {
		s.Missing("chain %s waits for ever for secret %s", c.Name, s.presents)
	}
}

// denied is the answer to a request that nobody may make; 0: it goes on. Rules are by
// one header each, and so is what makes an answer of the 403.
func (s *Proxy) denied(m *hcmv3.HttpConnectionManager, q Request, host string) uint32 {
	var filter rbacfilterv3.RBAC
	s.unpack(m.HttpFilters[0].GetTypedConfig().Value, &filter)
	q.Host = host
	refused := false
	for _, policy := range filter.Rules.Policies {
		refused = refused || s.hasHeader(policy.Permissions[0].GetHeader(), q)
	}
	if !refused {
		return 0
	}
	for _, mapper := range m.LocalReplyConfig.Mappers {
		when := mapper.Filter.GetAndFilter().Filters
		if when[0].GetStatusCodeFilter().Comparison.Value.DefaultValue == 403 && s.hasHeader(when[1].GetHeaderFilter().Header, q) {
			return mapper.StatusCode.Value
		}
	}
	return 403
}

// schemeOf is what Envoy takes a request to be: what its connection is, or what a proxy
// that it trusts says.
func schemeOf(q Request, trusted uint32) string {
	if said := q.Header.Get("X-Forwarded-Proto"); said != "" && trusted > 0 {
		return said
	}
	return map[bool]string{false: "http", true: "https"}[q.TLS]
}

// hasHeader reports whether a request has a header that a matcher wants.
func (s *Proxy) hasHeader(h *routev3.HeaderMatcher, q Request) bool {
	all := q.Header.Values(h.Name)
	switch h.Name {
	case ":method":
		all = []string{q.Method}
	case ":authority":
		all = []string{q.Host}
	case "x-forwarded-proto":
		all = []string{s.scheme}
	}
	if h.GetPresentMatch() {
		return len(all) > 0 != h.InvertMatch
	}
	return slices.ContainsFunc(all, func(v string) bool { return s.matchesText(h.GetStringMatch(), v) }) != h.InvertMatch
}

// Normalize is a path with its query as Envoy matches it; empty: it is refused.
func Normalize(uri string) string {
	p, query, has := strings.Cut(uri, "?")
	clean, ok := model.NormalPath(p)
	if !ok {
		return ""
	}
	if has {
		clean += "?" + query
	}
	return clean
}

func (s *Proxy) matches(m *routev3.RouteMatch, q Request, host, uri string) bool {
	p, query, _ := strings.Cut(uri, "?")
	ok := false
	q.Host = host
	switch x := m.PathSpecifier.(type) {
	case *routev3.RouteMatch_Path:
		ok = p == x.Path
	case *routev3.RouteMatch_Prefix:
		ok = strings.HasPrefix(p, x.Prefix)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		ok = p == x.PathSeparatedPrefix || strings.HasPrefix(p, x.PathSeparatedPrefix+"/")
	case *routev3.RouteMatch_SafeRegex:
		ok = whole(x.SafeRegex.Regex).MatchString(p)
	default:
		s.Fail("the model does not know %T", x)
	}
	ok = ok && s.marked(m.FilterState)
	for _, h := range m.Headers {
		ok = ok && s.hasHeader(h, q)
	}
	parameters, _ := url.ParseQuery(query)
	for _, of := range m.QueryParameters {
		ok = ok && parameters.Has(of.Name) && s.matchesText(of.GetStringMatch(), parameters.Get(of.Name))
	}
	return ok
}

func (s *Proxy) matchesText(m *inputv3.StringMatcher, text string) bool {
	switch x := m.GetMatchPattern().(type) {
	case *inputv3.StringMatcher_Exact:
		return text == x.Exact
	case *inputv3.StringMatcher_Suffix:
		return strings.HasSuffix(text, x.Suffix)
	case *inputv3.StringMatcher_SafeRegex:
		return whole(x.SafeRegex.Regex).MatchString(text)
	default:
		s.Fail("the model does not know %T", x)
	}
	return false
}

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

const million = 1_000_000

// share is of how many in a million requests a route takes those that no route
// before it took.
func (s *Proxy) share(m *routev3.RouteMatch) uint32 {
	f := m.RuntimeFraction.GetDefaultValue()
	switch {
	case f == nil:
		return million
	case f.Denominator != typev3.FractionalPercent_MILLION:
		s.Fail("the model does not know %v", f)
	}
	return f.Numerator
}

// or is either.
func (a Outcome) or(b Outcome) Outcome {
	if len(a.Sent) == 0 {
		return b
	}
	a.Endpoints, a.Sent = append(a.Endpoints, b.Endpoints...), append(a.Sent, b.Sent...)
	return a
}

func (s *Proxy) act(level levels, q Request, host, uri string) Outcome {
	route, own := level.route, http.Header{}
	s.respond(level, own)
	if d := route.GetDirectResponse(); d != nil {
		return Outcome{Status: d.Status, Header: own}
	}
	if r := route.GetRedirect(); r != nil {
		return Outcome{Status: statuses[r.ResponseCode], Location: s.location(route.Match, r, q, host, uri), Header: own}
	}
	preflight, allow := s.cors(route, q)
	if preflight != nil {
		return Outcome{Status: 200, Header: preflight}
	}
	no, header := s.auth(level, q, host, uri)
	if no != nil {
		allow(no.Header)
		return *no
	}
	q.Header = header
	of := s.sent(level, q, host, uri)
	of.Respond = func(h http.Header) {
		s.respond(level, h)
		allow(h)
	}
	to := func(endpoints []string) (out []Sent) {
		for _, e := range endpoints {
			of.Endpoint = e
			out = append(out, of)
		}
		return out
	}
	var out Outcome
	for _, c := range clustersOf(route) {
		session := s.sessionOf(c, q.Header, uri)
		endpoints := session.only(s.balance(c.Name), s.lists(c.Name))
		out.Endpoints = append(out.Endpoints, endpoints...)
		for _, one := range to(endpoints) {
			one.Respond = session.then(one)
			out.Sent = append(out.Sent, one)
		}
	}
	if len(out.Endpoints) == 0 {
		allow(own)
		out.Status, out.Header = 503, own
	}
	for _, m := range route.GetRoute().RequestMirrorPolicies {
		if !m.DisableShadowHostSuffixAppend {
			s.Fail("the model does not know %v", m)
		}
		if f := m.RuntimeFraction.GetDefaultValue(); f == nil || f.Numerator > 0 {
			out.Mirrors = append(out.Mirrors, to(s.balance(m.Cluster))...)
		}
	}
	return out
}

// balance returns the endpoints of the first priority that has a healthy one.
func (s *Proxy) balance(name string) []string {
	c, ok := s.clusters[name]
	if !ok {
		s.Missing("a route leads to cluster %s, which is not there", name)
		return nil
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
		if assignment, ok = s.assignments[cmp.Or(c.GetEdsClusterConfig().GetServiceName(), name)]; !ok {
			s.Missing("cluster %s has no assignment: Envoy would warm it", name)
			return nil
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
					out = append(out, net.JoinHostPort(a.Address, strconv.Itoa(int(a.GetPortValue()))))
				}
			}
		}
		if len(out) > 0 {
			return slices.DeleteFunc(out, func(e string) bool { return !s.greeted(c, e) })
		}
	}
	return nil
}
