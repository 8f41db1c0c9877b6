package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/checkpoint"
)

// restore registers the rows that outlive the process and goes on from those of
// the last one, if there are any. What they came from counts as stale until it
// was read again. It runs before the loop.
func (s *server) restore() {
	if s.state == nil {
		return
	}
	in := &s.prog.In
	checkpoint.Register(s.state, "roots", in.Roots)
	checkpoint.Register(s.state, "problems", in.Problems)
	checkpoint.Register(s.state, "classes", in.Classes)
	checkpoint.Register(s.state, "configs", in.Configs)
	checkpoint.Register(s.state, "edges", in.Edges)
	checkpoint.Register(s.state, "zones", in.Zones)
	checkpoint.Register(s.state, "certificates", in.Certificates)
	checkpoint.Register(s.state, "members", in.Members)
	checkpoint.Register(s.state, "sources", in.Sources)
	checkpoint.Register(s.state, "contacts", in.Contacts)
	checkpoint.Register(s.state, "services", in.Services)
	checkpoint.Register(s.state, "slices", in.Slices)
	checkpoint.Register(s.state, "reports", in.Reports)
	checkpoint.Register(s.state, "acks", in.Acks)
	checkpoint.Register(s.state, "rejections", in.Rejections)
	checkpoint.Register(s.state, "dns-last", s.zones.Last)
	checkpoint.Register(s.state, "parts-last", s.envoy.LastParts)
	checkpoint.Register(s.state, "kubeconfigs", s.caches.Kubeconfigs)
	checkpoint.Register(s.state, "identities", s.caches.Identities)
	at, _ := s.state.Found()
	if !s.state.Restore(s.graph) {
		return
	}
	s.log.Info("went on from the checkpoint", "written", at.UTC().Format(time.RFC3339), "hosts", s.prog.Hosts.Len(), "members", in.Members.Len())
	s.source.Adopt()
	s.members.Adopt(at)
	s.evidence.adopt(time.Now())
	s.known = true
	s.wake() // publish
}

// complete says that all kinds of the hub are known. It runs inside a commit.
func (s *server) complete() {
	s.known = true
	if s.state != nil {
		s.state.Complete()
	}
}
