package envoy

import (
	"fmt"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// The scheme: one RouteConfiguration for the hosts of the classes that share a
// port. Listeners with the same classes, HTTP and HTTPS alike, read the same
// one. A change of a route costs the size of all of them; a finer scheme
// replaces this file.

// subscribe makes a connection manager read the routes of the classes.
func subscribe(m *hcmv3.HttpConnectionManager, classes classList) {
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		ConfigSource: fromADS(), RouteConfigName: routesName(classes),
	}}
}

func routesName(classes classList) string { return string(classes) }

// routing is a RouteConfiguration before it has a view.
type routing struct {
	sealed
	held  bool
	refs  []Ref
	hosts []model.HostKey // as in served
}

func (a routing) Equal(b routing) bool {
	return a.sealed.Equal(b.sealed) && a.held == b.held && sameHosts(a.hosts, b.hosts)
}

// served is which hosts of the classes of a port are served there. It changes
// with the set of hosts only, so that versions with one set share the list.
type served struct {
	hosts []model.HostKey // sorted
	lost  []lostHost
}

func (a served) Equal(b served) bool {
	return slices.Equal(a.hosts, b.hosts) && slices.Equal(a.lost, b.lost)
}

// lostHost is a host of a class that an older class on the same port has.
type lostHost struct {
	key    model.HostKey
	winner model.Class
}

func (l lostHost) finding(root model.Object) model.Finding {
	name := string(l.key.Host)
	if name == "" {
		name = "every unnamed host"
	}
	return model.Finding{Object: root, Field: "spec.rules", Reason: model.ReasonConflict,
		Message: fmt.Sprintf("%s is served by class %s, which is older than %s and shares an edge and a port with it", name, l.winner, l.key.Class)}
}

// servedOf gives each host to the oldest class that has it.
func (d *derivation) servedOf(r *inc.Reader, classes classList) (served, bool) {
	var out served
	owner := map[model.Host]model.Class{}
	for _, class := range classes.classes() { // oldest first
		for _, key := range d.namesOfClass.Keys(r, class) {
			if winner, taken := owner[key.Host]; taken {
				out.lost = append(out.lost, lostHost{key, winner})
				continue
			}
			owner[key.Host] = class
			out.hosts = append(out.hosts, key)
		}
	}
	slices.SortFunc(out.hosts, model.HostKey.Compare)
	return out, true
}

// routingOf joins the hosts of the classes into one RouteConfiguration.
func (d *derivation) routingOf(r *inc.Reader, classes classList) (routing, bool) {
	who, _ := d.served.Get(r, classes)
	lost := map[model.HostKey]bool{}
	for _, l := range who.lost {
		lost[l.key] = true
	}
	var all []fragment
	var clusters []string
	out := routing{hosts: who.hosts}
	for _, class := range classes.classes() {
		for _, f := range d.fragmentsOfClass.Get(r, class) {
			if lost[f.key] {
				continue
			}
			all = append(all, f)
			out.held = out.held || f.held
			clusters = append(clusters, f.clusters...)
		}
	}
	slices.SortFunc(all, byDomain)
	out.sealed = sealBytes(RouteType, joinHosts(routesName(classes), all))
	slices.Sort(clusters)
	out.refs = refs(ClusterType, slices.Compact(clusters))
	return out, true
}

// joinHosts serializes a RouteConfiguration of hosts that are serialized.
func joinHosts(name string, hosts []fragment) []byte {
	var catchAll []byte
	size := 0
	for _, f := range hosts {
		size += len(f.head) + len(f.routes) + 8
		if f.key.Host == "" {
			catchAll = f.routes
		}
	}
	body := append(make([]byte, 0, size+128), encode(&routev3.RouteConfiguration{
		Name: name,
		// A client names a port that is not the scheme's own (RFC 9110, 7.2);
		// it is no part of the host.
		IgnorePortInHostMatching: true,
		// Without this, a route to a cluster that is being replaced is refused.
		ValidateClusters: wrapperspb.Bool(false),
	})...)
	below := map[int][]byte{} // by depth of the wildcard
	for _, f := range hosts {
		var first []byte
		if f.key.Host.Wildcard() {
			depth := strings.Count(string(f.key.Host), ".")
			if below[depth] == nil {
				below[depth] = deeper(f.key.Host, catchAll)
			}
			first = below[depth]
		}
		body = protowire.AppendTag(body, 2, protowire.BytesType)
		body = protowire.AppendVarint(body, uint64(len(f.head)+len(first)+len(f.routes)))
		body = append(append(append(body, f.head...), first...), f.routes...)
	}
	return body
}
