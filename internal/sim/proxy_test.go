package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spillway-dev/spillway/internal/envoy/routetest"
	"github.com/spillway-dev/spillway/internal/xds"
)

// proxy is an Envoy: it keeps what it was sent, also while it has no stream,
// and asks for what its resources use.
type proxy struct {
	id      xds.Proxy
	away    bool   // it does not connect
	refuses string // it rejects what has this in its name; everything
	stream  *xds.Local
	have    map[xds.TypeURL]map[string]*held
	follows map[xds.TypeURL]map[string]bool // named in subscriptions
	asked   map[string]bool                 // secrets that handshakes asked for
	queue   []xds.Request
}

// held is a resource that a proxy holds.
type held struct {
	version string
	m       proto.Message
}

// named are the types that a proxy subscribes to by name.
var named = []xds.TypeURL{xds.ClusterLoadAssignment, xds.RouteConfiguration, xds.Secret}

func newProxy(edge, node string) *proxy {
	p := &proxy{id: xds.Proxy{Edge: edge, Node: node}, have: map[xds.TypeURL]map[string]*held{}, follows: map[xds.TypeURL]map[string]bool{}, asked: map[string]bool{}}
	for _, t := range xds.Types {
		p.have[t], p.follows[t] = map[string]*held{}, map[string]bool{}
	}
	return p
}

// envoyVersion is what proxies say they are.
var envoyVersion = &corev3.Node{UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.40.0"}}

// connect opens a stream and says what the proxy kept. It tells whether the
// control plane took it: without its Edge there, it does not.
func (p *proxy) connect(s *xds.Server) bool {
	stream, err := s.Local(p.id, envoyVersion)
	if err != nil {
		return false
	}
	p.stream, p.queue = stream, nil
	for _, t := range xds.Types {
		r := xds.Request{Type: t, Initial: map[string]string{}}
		if slices.Contains(named, t) {
			r.Subscribe = slices.Sorted(maps.Keys(p.follows[t]))
			if len(r.Subscribe) == 0 {
				continue
			}
		}
		for name, h := range p.have[t] {
			r.Initial[name] = h.version
		}
		p.queue = append(p.queue, r)
	}
	return true
}

// disconnect ends the stream, if there is one.
func (p *proxy) disconnect() {
	if p.stream != nil {
		p.stream.Close()
		p.stream = nil
	}
}

// converse lets all proxies talk until they have nothing more to say. It tells
// whether anything was said.
func (w *world) converse() (bool, error) {
	said := false
	if !w.plane.Published() {
		return false, nil
	}
	for _, name := range slices.Sorted(maps.Keys(w.proxies)) {
		p := w.proxies[name]
		if p.stream == nil && !p.away {
			said = p.connect(w.plane.XDS) || said
		}
		more, err := p.talk()
		if err != nil {
			return said, fmt.Errorf("proxy %s: %w", name, err)
		}
		said = said || more
	}
	return said, nil
}

// talk exchanges messages until neither side has one. A stream that the
// control plane closes is gone.
func (p *proxy) talk() (said bool, err error) {
	for range restless {
		if p.stream == nil {
			return said, nil
		}
		var req *xds.Request
		if len(p.queue) > 0 {
			req, p.queue = &p.queue[0], p.queue[1:]
		}
		out, _, closed := p.stream.Step(req)
		if closed != nil {
			p.stream = nil
			return true, nil //nolint:nilerr // a stream that is closed is what a proxy sees, not a failure of the test
		}
		if req == nil && len(out) == 0 {
			return said, nil
		}
		said = true
		for _, r := range out {
			if err := p.receive(r); err != nil {
				return said, err
			}
		}
	}
	return said, fmt.Errorf("the conversation does not end; queue %d", len(p.queue))
}

// receive applies a response, or all of it that is not refused, and answers.
func (p *proxy) receive(r xds.Response) error {
	answer := xds.Request{Type: r.Type, Nonce: r.Nonce}
	for _, res := range r.Resources {
		if p.rejects(res.Name) {
			answer.Rejected, answer.Error = true, "refused: "+res.Name
			continue
		}
		var packed anypb.Any
		if err := proto.Unmarshal(res.Bytes(), &packed); err != nil {
			return err
		}
		m, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		if old := p.have[r.Type][res.Name]; old != nil && old.version == res.Version && r.Type != xds.ClusterLoadAssignment && r.Type != xds.Secret && p.refuses == "" {
			return fmt.Errorf("%s %s was sent in version %s, which it has", r.Type, res.Name, res.Version)
		}
		p.have[r.Type][res.Name] = &held{res.Version, m}
	}
	for _, name := range r.Removed {
		if r.Type != xds.ClusterLoadAssignment { // Envoy keeps the endpoints that it has
			delete(p.have[r.Type], name)
		}
	}
	p.queue = append(p.queue, answer)
	p.resubscribe()
	return nil
}

// everything is what a proxy refuses that accepts nothing.
const everything = "*"

func (p *proxy) rejects(name string) bool {
	return p.refuses == everything || p.refuses != "" && strings.Contains(name, p.refuses)
}

// resubscribe asks for what is used and not followed, and lets go of the rest.
func (p *proxy) resubscribe() {
	for _, t := range named {
		want, r := p.uses(t), xds.Request{Type: t}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !p.follows[t][name] {
				r.Subscribe = append(r.Subscribe, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.follows[t])) {
			if !want[name] {
				r.Unsubscribe = append(r.Unsubscribe, name)
				delete(p.have[t], name)
			}
		}
		p.follows[t] = want
		if len(r.Subscribe)+len(r.Unsubscribe) > 0 {
			p.queue = append(p.queue, r)
		}
	}
}

// uses are the names of a type that the proxy's other resources lead to.
func (p *proxy) uses(t xds.TypeURL) map[string]bool {
	out := map[string]bool{}
	switch t {
	case xds.ClusterLoadAssignment:
		for name, h := range p.have[xds.Cluster] {
			if c := h.m.(*clusterv3.Cluster); c.GetType() == clusterv3.Cluster_EDS {
				out[cmp.Or(c.GetEdsClusterConfig().GetServiceName(), name)] = true
			}
		}
	case xds.RouteConfiguration:
		for _, h := range p.have[xds.ScopedRoute] {
			out[h.m.(*routev3.ScopedRouteConfiguration).RouteConfigurationName] = true
		}
	case xds.Secret:
		maps.Copy(out, p.asked)
		for _, h := range p.have[xds.Cluster] {
			for _, name := range shownBy(h.m.(*clusterv3.Cluster)) {
				out[name] = true
			}
		}
		for _, h := range p.have[xds.Listener] {
			for _, chain := range h.m.(*listenerv3.Listener).FilterChains {
				for _, name := range secretsOf(chain) {
					out[name] = true
				}
			}
		}
	}
	return out
}

func secretsOf(chain *listenerv3.FilterChain) []string {
	raw := chain.GetTransportSocket().GetTypedConfig()
	if raw == nil {
		return nil
	}
	var ctx tlsv3.DownstreamTlsContext
	if raw.UnmarshalTo(&ctx) != nil {
		return nil // QUIC
	}
	var out []string
	for _, s := range ctx.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		out = append(out, s.Name)
	}
	return out
}

// shownBy are the secrets that a cluster shows to endpoints.
func shownBy(c *clusterv3.Cluster) (out []string) {
	raw := c.GetTransportSocket().GetTypedConfig()
	if raw == nil {
		return nil
	}
	var ctx tlsv3.UpstreamTlsContext
	if raw.UnmarshalTo(&ctx) != nil {
		return nil // that of clients
	}
	for _, s := range ctx.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		out = append(out, s.Name)
	}
	return out
}

// route says what becomes of a request to the proxy, and what it lacks for it.
func (p *proxy) route(q routetest.Request, greet func(string, routetest.Hello) bool) (out routetest.Outcome, lacks []string, err error) {
	e := routetest.New(
		func(format string, args ...any) { err = fmt.Errorf(format, args...) },
		func(format string, args ...any) { lacks = append(lacks, fmt.Sprintf(format, args...)) },
	)
	for _, t := range xds.Types {
		for _, name := range slices.Sorted(maps.Keys(p.have[t])) {
			e.Add(p.have[t][name].m)
		}
	}
	e.Ask = func(name string) {
		p.asked[name] = true
		p.resubscribe()
		if _, failed := p.talk(); failed != nil {
			err = failed
		}
		if h := p.have[xds.Secret][name]; h != nil {
			e.Add(h.m)
		}
	}
	e.Greet = greet
	out = e.Route(q)
	return out, lacks, err
}

// content is what the proxy holds, by type and name, in which version. Secrets
// that only handshakes asked for are left out.
func (p *proxy) content() map[string]string {
	out := map[string]string{}
	for t, all := range p.have {
		for name, h := range all {
			if t != xds.Secret || !p.asked[name] {
				out[string(t[strings.LastIndexByte(string(t), '.')+1:])+" "+name] = h.version
			}
		}
	}
	return out
}
