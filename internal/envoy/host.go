package envoy

import (
	"fmt"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// retryBuffer is how much of a request's body is kept so that it can be sent
// again: 1 MiB. A longer request is not retried once that much was sent.
const retryBuffer = 1 << 20

// fragment is one host, compiled once for all views. It is the body of its
// RouteConfigurations.
type fragment struct {
	host     [1]model.HostKey
	config   []byte   // a RouteConfiguration without its name
	clusters []string // that the routes refer to, sorted, each once
	invalid  string   // the rule of Envoy's API that it breaks, if any
}

func (f *fragment) Equal(b *fragment) bool {
	return f.host == b.host && string(f.config) == string(b.config) && f.invalid == b.invalid
}

// String is all of it.
func (f *fragment) String() string {
	return fmt.Sprintf("%s %q %q %q", f.host[0], f.config, f.clusters, f.invalid)
}

// fragmentOf compiles a host of a class.
func (d *derivation) fragmentOf(r *inc.Reader, key model.HostKey) (*fragment, bool) {
	host, ok := d.p.Hosts.Get(r, key)
	if !ok || host.Traffic != model.Requests {
		return nil, false
	}
	t, _ := d.timings.Get(r, key.Class)
	at := ports{listener: unusual(key.Class.Port()), secure: host.Secure}
	f := &fragment{host: [1]model.HostKey{key}}
	vh := &routev3.VirtualHost{
		Name: "h", Domains: []string{"*"}, // the scope has chosen by the host
		RequestBodyBufferLimit: wrapperspb.UInt64(retryBuffer),
	}
	var all []entry
	add := func(m model.Match, to fleet.Target) {
		before := len(f.clusters)
		targets := d.targetOf(r, to, host.Dial, f)
		var also besides
		if len(targets) > 0 { // else the proxy answers, nobody gets a copy, and nobody is asked
			var askable bool
			if also.guard, askable = d.guardOf(r, to, key.Host, host.Dial, f); askable {
				also.mirrors = d.mirrorsOf(r, to, key.Host, host.Dial, f)
			} else {
				also.nobodyToAsk, f.clusters = true, f.clusters[:before] // the routes lead nowhere
			}
		}
		all = append(all, entry{m, routesFor(m, to, key.Host, at, targets, also, t.V)})
	}
	for _, route := range host.Routes {
		add(route.Match, route.Target)
	}
	switch {
	case host.Default != nil:
		add(model.Everything, *host.Default)
	case host.Continues: // what nothing matches has no route
	case !slices.ContainsFunc(host.Routes, func(route fleet.Route) bool { return route.Match.All() }):
		all = append(all, entry{model.Everything, []*routev3.Route{nothing}})
	}
	d.setRoutes(vh, all)
	f.clusters = sortedOnce(f.clusters)
	c := configuration(vh)
	if err := c.Validate(); err != nil {
		f.invalid = err.Error()
	}
	f.config = encode(c)
	return f, true
}

func sortedOnce(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// targetOf finds the clusters of a target, of those that connect so. The parts of
// a backend share its weight.
func (d *derivation) targetOf(r *inc.Reader, t fleet.Target, dial model.Dial, f *fragment) []weighted {
	if t.Reply != nil {
		return nil
	}
	var out []weighted
	most := uint32(1) // parts of one of them
	session := t.Filters.Session()
	for _, b := range t.Used() {
		n, ok := d.clusterNames.Get(r, b.Backend)
		if (b.Backend == (model.Backend{}) || n.tls.Broken()) && b.Weight > 0 {
			out = append(out, weighted{cluster: nobody, weight: b.Weight, of: 1})
			continue
		}
		if ok && b.Weight > 0 {
			n.dial(dial)
			entries := n.entries()
			most = max(most, uint32(len(entries)))
			var back *anypb.Any
			if len(entries) == 1 { // see scatteredOf
				back = keeps(session, b.Backend)
			}
			for _, entry := range entries {
				out = append(out, weighted{entry, b.Weight, uint32(len(entries)), b.Filters, back})
			}
			f.clusters = append(f.clusters, entries...)
		}
	}
	for i := range out { // both are powers of two
		out[i].weight *= most / out[i].of
	}
	return out
}

// hostOf is the inverse of domain.
func hostOf(domain string) model.Host {
	if domain == "*" {
		return ""
	}
	return model.Host(domain)
}

// domain is a host as Envoy's virtual hosts name it.
func domain(h model.Host) string {
	if h == "" {
		return "*"
	}
	return string(h)
}
