package app

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/hds"
)

// Rest is the loop of a fleet in which nothing happens: every proxy of every
// edge is connected and reports all members healthy, and every edge answers its
// probe. `make bench` measures with it what a turn costs that has nothing to do.
type Rest struct {
	s       *server
	reports []hds.Report // one a proxy
	again   []func(at time.Time) bool
}

// NewRest returns a fleet with so many edges, members, and proxies an edge.
func NewRest(edges, members, proxies int) *Rest {
	s := &server{log: slog.New(slog.DiscardHandler), metrics: prometheus.NewRegistry(), now: time.Now, known: true, opened: make(chan struct{}), eased: func() {}}
	s.published.Store(true)
	s.assemble()
	var targets []probe.Target
	s.watch.setTargets = func(_ model.Edge, t []probe.Target) { targets = append(targets, t...) }
	s.loop.due = s.lapse
	r := &Rest{s: s}
	s.put("fleet", func(tx *inc.Tx) { r.declare(tx, edges, members) })
	r.Turns(1)
	opened := r.connect(edges, members, proxies)
	s.put("streams", func(tx *inc.Tx) { s.watch.streamed(tx, opened) })
	for _, target := range targets {
		s.watch.probed(target, probe.Verdict{Health: model.Up, Since: time.Now()})
	}
	r.Report()
	for s.mail.Len() > 0 {
		r.Turns(1)
	}
	r.Turns(1) // what follows from the last is judged
	return r
}

func (r *Rest) declare(tx *inc.Tx, edges, members int) {
	in := &r.s.prog.In
	in.Classes.Set(tx, "spillway", model.ClassSpec{Default: true, Origin: model.Origin{Object: model.Object{Kind: "IngressClass", Name: "spillway"}}})
	for i := range members {
		m := memberNo(i)
		in.Members.Set(tx, m, model.MemberSpec{Place: model.Place{Region: fmt.Sprintf("region-%d", i%20)}, Networks: []string{"default"}})
		in.Sources.Set(tx, m, model.Source{Connected: true})
	}
	for i := range edges {
		in.Edges.Set(tx, edgeNo(i), model.EdgeSpec{
			Place: model.Place{Region: fmt.Sprintf("region-%d", i%20)}, Networks: []string{"default"},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})},
		})
	}
}

func edgeNo(i int) model.Edge     { return model.Edge(fmt.Sprintf("edge-%03d", i)) }
func memberNo(i int) model.Member { return model.Member(fmt.Sprintf("member-%03d", i)) }

// connect makes the reports of all proxies, and returns that they connected.
func (r *Rest) connect(edges, members, proxies int) (opened []xds.StreamChange) {
	for e := range edges {
		for p := range proxies {
			proxy := xds.Proxy{Edge: string(edgeNo(e)), Node: fmt.Sprint(p)}
			opened = append(opened, xds.StreamChange{Proxy: proxy, Stream: uint64(len(opened) + 1), Open: true})
			seen := make([]hds.CanaryHealth, members)
			for m := range members {
				seen[m] = hds.CanaryHealth{Canary: hds.Canary{Member: string(memberNo(m))}, Healthy: true}
			}
			r.reports = append(r.reports, hds.Report{Proxy: proxy, Canaries: seen})
		}
	}
	return opened
}

// Report has every proxy report what it reported before: that counts for some
// seconds.
func (r *Rest) Report() {
	now := time.Now()
	for i, report := range r.reports {
		if len(r.again) > i && r.again[i](now) {
			continue
		}
		report.At = now
		again := r.s.evidence.heard(report)
		r.again = append(r.again[:i], again)
	}
}

// Turns runs the loop so many times, each for a write that changes nothing.
func (r *Rest) Turns(n int) {
	for range n {
		r.s.wake()
		r.s.loop.turn()
	}
}

// Rows is how many rows of evidence and of witnesses there are.
func (r *Rest) Rows() (evidence, witnesses int) {
	return r.s.prog.In.Reports.Len(), r.s.zones.Witnesses.Len()
}
