package checkpoint

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// large writes n hosts, each with a Service of its own and 10 endpoints.
func large(in *fleet.Inputs, n int) func(*inc.Tx) {
	return func(tx *inc.Tx) {
		for i := range n {
			name := fmt.Sprintf("web-%05d", i)
			o := model.Object{Kind: "Ingress", Namespace: "shop", Name: name}
			service := model.ServiceOf("shop", name)
			in.Roots.Set(tx, o, model.Root{Created: 1, Classes: "spillway"})
			in.Rules.Set(tx, model.RulesID{Root: o, Host: model.Host(name + ".example")}, model.Rules{{
				Matches: []model.Match{{Kind: model.PathPrefix, Path: "/"}}, Field: "spec.rules[0].http.paths[0]",
				Backends: []model.WeightedBackend{{Backend: model.BackendKey{Service: service, Port: model.PortRef{Number: 80}}.Backend(), Weight: 1}},
			}})
			id := model.MemberService{Service: service, Member: "eu-1"}
			in.Services.Set(tx, id, model.ServiceSpec{Ports: []model.ServicePort{{Name: "http", Number: 80, Protocol: "TCP"}}})
			in.Slices.Set(tx, model.SliceID{MemberService: id, Name: name + "-abcde"}, endpoints(uint32(i), 10))
			in.Acks.Set(tx, model.HostKey{Class: "spillway", Host: model.Host(name + ".example")}, model.EdgesOf("fra"))
		}
	}
}

func endpoints(i uint32, n int) model.Slice {
	s := model.Slice{Ports: []model.SlicePort{{Name: "http", Number: 8080}}}
	var all []model.Endpoint
	for j := range n {
		ip := binary.BigEndian.AppendUint32(nil, 10<<24|i*16+uint32(j))
		all = append(all, model.Endpoint{Addr: netip.AddrFrom4([4]byte(ip)), Zone: model.ZoneOf("eu-a")})
	}
	s.Endpoints = model.EndpointsOf(all...)
	return s
}

// BenchmarkCheckpoint: 10,000 hosts with 100,000 endpoints. load is what a
// start pays, first what the first write, change what one endpoint change
// adds, compact what a rewrite of the whole costs.
func BenchmarkCheckpoint(b *testing.B) {
	const n = 10_000
	dir := b.TempDir()
	w := open(b, dir)
	w.s.Complete()
	w.commit(large(w.in, n))
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			batch := w.s.pending
			if err := w.s.flush(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(w.s.file.size), "file-bytes")
			w.s.pending = batch
			w.s.file.close()
			w.s.file = nil
		}
	})
	if err := w.s.flush(); err != nil {
		b.Fatal(err)
	}
	b.Run("change", func(b *testing.B) {
		id := model.SliceID{MemberService: model.MemberService{Service: model.ServiceOf("shop", "web-00001"), Member: "eu-1"}, Name: "web-00001-abcde"}
		before, changes := w.s.file.size, 0
		for b.Loop() {
			changes++
			w.s.staged[changes] = &changed[model.SliceID, model.Slice]{w.s.tables["slices"].(*registered[model.SliceID, model.Slice]), id, new(endpoints(1, 9+changes%2)), 0}
			w.s.Committed()
			if changes%100 == 0 {
				if err := w.s.flush(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(w.s.file.size-before)/float64(changes), "bytes/change")
	})
	b.Run("compact", func(b *testing.B) {
		for b.Loop() {
			if err := w.s.compact(); err != nil {
				b.Fatal(err)
			}
		}
	})
	w.s.close()
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			again := open(b, dir)
			if again.in.Slices.Len() != n {
				b.Fatalf("%d slices", again.in.Slices.Len())
			}
			again.s.close()
		}
	})
}
