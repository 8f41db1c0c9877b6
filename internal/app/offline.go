package app

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/checkpoint"
	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/hds"
	"github.com/spillway-dev/spillway/internal/zone"
)

// OfflineOptions are what an Offline is made of.
type OfflineOptions struct {
	Now   func() time.Time
	Log   *slog.Logger
	State *checkpoint.Store // nil: none
}

// Offline is all that `spillway serve` does between its sockets: whoever holds
// it says what API servers, proxies and the prober would, and calls Turn. It is
// for tests of the whole program in one goroutine.
type Offline struct {
	Feed *cluster.Feed  // what API servers say
	XDS  *xds.Server    // the proxies' streams
	DNS  *zone.Snapshot // what resolvers are answered from; nil before the first publish

	s *server
}

// Tables are what an Offline has computed.
type Tables struct {
	Graph   *inc.Graph
	Program *fleet.Program
	Envoy   *envoy.Tables
	Zones   *zone.Tables
	Leaf    *leaf.Tables
}

// NewOffline returns a control plane that knows nothing, or what its checkpoint
// does.
func NewOffline(o OfflineOptions) *Offline { return newOffline(o, func(*Offline) {}) }

// newOffline calls watch when API servers may be watched.
func newOffline(o OfflineOptions, watch func(*Offline)) *Offline {
	s := &server{cfg: Config{Namespace: "spillway-system"}, log: o.Log, metrics: prometheus.NewRegistry(), now: o.Now, state: o.State, opened: make(chan struct{}), eased: func() {}, unlisted: true}
	s.assemble()
	out := &Offline{s: s, XDS: s.xds}
	s.answers = newDNS(s.zones, nil, func(z *zone.Snapshot) { out.DNS = z })
	s.carry()
	s.watch.setTargets, s.watch.probeNotices = func(model.Edge, []probe.Target) {}, (probe.Config{}).Detection()
	out.Feed = cluster.NewFeed(s.hubOptions(), o.Now)
	s.loop.apart = 0 // Turn waits for nothing
	s.source, s.members = out.Feed.Hub, out.Feed.Members
	s.restore(func() { watch(out) })
	return out
}

// Tables are for reading, between two turns.
func (o *Offline) Tables() Tables { return Tables{o.s.graph, o.s.prog, o.s.envoy, o.s.zones, o.s.leaf} }

// Turn takes all that came, and what is due by now, until nothing is left.
func (o *Offline) Turn() {
	o.s.hear()
	o.rest()
	if o.s.known && o.s.unlisted { // API servers said what they have before the turn
		o.s.unlisted = false
		o.s.wake()
		o.rest()
	}
}

// rest turns at least once, until nothing is left.
func (o *Offline) rest() {
	for more := true; more; more = o.s.mail.Len() > 0 || o.s.graph.Backlog() > 0 {
		o.s.loop.turn()
	}
}

// Published tells whether proxies are served: not before the hub is known.
func (o *Offline) Published() bool { return o.s.published.Load() }

// Reported takes what a proxy saw of canaries.
func (o *Offline) Reported(r hds.Report) { o.s.evidence.heard(r) }

// Probed takes a verdict about the public addresses of an edge.
func (o *Offline) Probed(edge model.Edge, at netip.AddrPort, v probe.Verdict) {
	o.s.watch.probed(probe.Target{Edge: edge, Addr: at}, v)
}

// ProbedSites takes a verdict about all addresses of a member's leaves.
func (o *Offline) ProbedSites(m model.Member, v probe.Verdict) { o.s.watch.probedSites(m, v) }

// Resolved takes where a host name leads that leaves have as an address.
func (o *Offline) Resolved(name string, to []netip.Addr) { o.s.names.found(name, to) }

// Told takes what became of a leaf, as syncers tell; nil: it is gone.
func (o *Offline) Told(k model.LeafID, state *model.LeafState) {
	o.s.put(leafKey{k}, func(tx *inc.Tx) {
		if state == nil {
			o.s.prog.In.LeafStates.Delete(tx, k)
			return
		}
		o.s.prog.In.LeafStates.Set(tx, k, *state)
	})
}
