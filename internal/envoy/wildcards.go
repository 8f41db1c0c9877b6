package envoy

import (
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Wildcards of any depth are hosts like all others: a scope, and routes of their
// own. Which of them a request is below is asked of an index, a RouteConfiguration
// with a virtual host for each, of which Envoy takes that with the longest suffix.
// It serves nothing. Its route is named after the scopes to try, of the wildcard
// and of those above it, and the filters that follow go there.
//
// The index says which wildcards there are and not what they say, so it changes
// when one comes or goes. It is of a table: several classes may have wildcards
// there. What it names and is not there, or not yet, is passed over.

// indexHost stands for the index among the hosts of a collection. No host is
// called so.
const indexHost model.Host = "**"

// mostTried is how many of a table's wildcards of any depth a request is taken to:
// the filters can try three scopes after the index, see stepOn.
const mostTried = 3

// index is the body of an index but for its name.
type index struct{ config []byte }

// Append appends a RouteConfiguration.
func (x *index) Append(b []byte, name string) []byte {
	return appendNamed(b, RouteType, name, x.config)
}

// Size is the length of one.
func (x *index) Size(name string) int { return sizeNamed(RouteType, name, len(x.config)) }

// Refs is nothing that has to be there before.
func (x *index) Refs(string) []Ref { return nil }

// indexIn makes the index of a collection, if its classes have such wildcards.
func (d *derivation) indexIn(r *inc.Reader, in model.Collection) (*index, bool) {
	keys := d.deepIn(r, in)
	if len(keys) == 0 {
		return nil, false
	}
	x, _ := indexOf(hostsAmong(keys))
	return x, true
}

// hostsAmong are the hosts of some keys, sorted, each once.
func hostsAmong(keys []model.HostKey) []model.Host {
	hosts := make([]model.Host, len(keys))
	for i, key := range keys {
		hosts[i] = key.Host
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// cutOf tells the roots of wildcards that go on further than proxies follow.
func (d *derivation) cutOf(r *inc.Reader, id fleet.HostIn) (model.Findings, bool) {
	keys := d.deepIn(r, id.In)
	_, cut := indexOf(hostsAmong(keys))
	var out model.Findings
	for _, key := range keys {
		host, _ := d.p.Hosts.Get(r, key)
		if !cut[key.Host] || !host.Continues {
			continue
		}
		for _, root := range host.Roots {
			out = append(out, cutFinding(root, key))
		}
	}
	return out.Sorted(), len(out) > 0
}

// cutFinding tells a root that what its wildcard goes on to is not all tried.
func cutFinding(root model.Object, key model.HostKey) model.Finding {
	return model.WarningOf(root, "spec.hostnames", model.ReasonUnsupported,
		"%s is below %d wildcards or more, and proxies try %d in all: what none of their rules matches is answered 404, and not taken to the others", key.Host.Written(), mostTried, mostTried)
}

// deepIn are the wildcards of any depth that the classes of a collection have in its
// table by now.
func (d *derivation) deepIn(r *inc.Reader, in model.Collection) []model.HostKey {
	var out []model.HostKey
	for _, class := range fleet.ClassesOf(in.Classes()) {
		front := model.FrontOf(class, in.Key().Table)
		keys, rows := d.p.DeepHosts.Keys(r, class), d.p.DeepHosts.Get(r, class)
		for i, fronts := range rows {
			if slices.Contains(fronts, front) {
				out = append(out, keys[i])
			}
		}
	}
	return out
}

// indexOf makes an index of wildcards, which are sorted, and tells from which of
// them more could be tried than is.
func indexOf(hosts []model.Host) (x *index, cut map[model.Host]bool) {
	c := &routev3.RouteConfiguration{
		IgnorePortInHostMatching: true,
		ValidateClusters:         wrapperspb.Bool(false), // there are none
	}
	cut = map[model.Host]bool{}
	for _, h := range hosts {
		tried := []string{domain(h)}
		for up := range h.Wider() {
			if _, has := slices.BinarySearch(hosts, up); !has {
				continue
			} else if len(tried) == mostTried {
				cut[h] = true
				break
			}
			tried = append(tried, domain(up))
		}
		c.VirtualHosts = append(c.VirtualHosts, &routev3.VirtualHost{
			Name: h.Written(), Domains: []string{h.Written()},
			Routes: []*routev3.Route{{Name: strings.Join(tried, ":"), Match: match(model.Everything), Action: nothing.Action}},
		})
	}
	mustBeValid(c)
	return &index{encode(c)}, cut
}

// hostsBehind are those that a scope of a collection is for.
func (d *derivation) hostsBehind(r *inc.Reader, k Key) []model.HostKey {
	row, ok := d.servedUnder(r, k)
	switch {
	case !ok:
		return nil
	case k.Collection.Kind() == model.Wildcards:
		return d.deepIn(r, k.Collection)
	case k.Collection.Kind() == model.Names:
		return nil
	}
	return row.route.Hosts()
}
