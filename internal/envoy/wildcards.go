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
// the steps can try three scopes after the index, see walkCode.
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
	return indexOf(hostsAmong(keys)), true
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
	hosts := hostsAmong(keys)
	var out model.Findings
	for _, key := range keys {
		if _, cut := triedFrom(hosts, key.Host); !cut {
			continue
		}
		host, _ := d.p.Hosts.Get(r, key)
		if !host.Continues {
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
		d.p.DeepHosts.Each(r, class, func(key model.HostKey, fronts inc.List[model.Collection]) {
			if slices.Contains(fronts, front) {
				out = append(out, key)
			}
		})
	}
	return out
}

// What all indexes have, and all routes of them but their names.
var (
	indexHead = encode(&routev3.RouteConfiguration{
		IgnorePortInHostMatching: true,
		ValidateClusters:         wrapperspb.Bool(false), // there are none
	})
	indexRoute = encode(&routev3.Route{Match: match(model.Everything), Action: nothing.Action})
)

// indexOf makes an index of wildcards, which are sorted. There may be very many, and all
// are written when one comes or goes, so it is encoded by hand: TestIndexAsMessages.
func indexOf(hosts []model.Host) *index {
	b := slices.Clone(indexHead)
	for _, h := range hosts {
		tried, _ := triedFrom(hosts, h)
		name, route := h.Written(), len(indexRoute)+sizeText(tried)
		b = openMessage(b, 2, 2*sizeText(name)+sizeMessage(route)) // a VirtualHost
		b = appendText(appendText(b, 1, name), 2, name)
		b = append(openMessage(b, 3, route), indexRoute...)
		b = appendText(b, 14, tried)
	}
	return &index{b}
}

// triedFrom are the scopes that are tried from one of these wildcards of any depth, which
// are sorted, and whether more could be. It is asked for each of them when one comes or
// goes, so it makes no text but what it returns.
func triedFrom(hosts []model.Host, h model.Host) (tried string, cut bool) {
	tried = domain(h)
	n := 1
	for base := h.Base(); base != ""; {
		_, base, _ = strings.Cut(base, ".")
		i, has := slices.BinarySearchFunc(hosts, base, func(h model.Host, base string) int { return strings.Compare(h.Base(), base) })
		if !has {
			continue
		}
		if n == mostTried {
			return tried, true
		}
		tried += ":" + domain(hosts[i])
		n++
	}
	return tried, false
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
