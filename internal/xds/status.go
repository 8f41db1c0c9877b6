package xds

import (
	"cmp"
	"slices"
	"time"
)

// StreamStatus is one stream as the admin API shows it.
type StreamStatus struct {
	Stream    uint64        `json:"stream"`
	Edge      string        `json:"edge"`
	Node      string        `json:"node"`
	Envoy     string        `json:"envoy,omitempty"` // its version, of a proxy
	GRPC      string        `json:"grpc,omitempty"`  // its version, of a gRPC client
	View      string        `json:"view"`
	Since     time.Time     `json:"since"`
	BytesSent uint64        `json:"bytesSent"`
	InSync    bool          `json:"inSync"` // acknowledged all of Generation, and has every listener in some version
	Published uint64        `json:"generation"`
	Types     []TopicStatus `json:"types"`
}

// TopicStatus is what a stream follows of one type.
type TopicStatus struct {
	Type        string           `json:"type"`
	Wildcard    bool             `json:"wildcard,omitempty"`
	Subscribed  int              `json:"subscribed"` // by name
	Held        int              `json:"held"`       // the client holds a version
	Pending     int              `json:"pending"`    // to be looked at, or unanswered
	Gated       int              `json:"gated,omitempty"`
	Leaving     int              `json:"leaving,omitempty"`
	Waiting     int              `json:"waiting,omitempty"` // for another stream's answer
	Responses   uint64           `json:"responses"`
	Resources   uint64           `json:"resources"`
	Bytes       uint64           `json:"bytes"`
	NACKs       uint64           `json:"nacks,omitempty"`
	Quarantined []QuarantinedRes `json:"quarantined,omitempty"`
}

// QuarantinedRes is a resource the client rejected.
type QuarantinedRes struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Error   string `json:"error"`
}

// Streams returns a snapshot of all streams, by number. It is for people: it
// takes the store's lock once per stream.
func (s *Server) Streams() []StreamStatus {
	s.mu.Lock()
	all := make([]*stream, 0, len(s.streams))
	for _, st := range s.streams {
		all = append(all, st)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	out := make([]StreamStatus, 0, len(all))
	for _, st := range all {
		if one, ok := st.status(); ok {
			out = append(out, one)
		}
	}
	return out
}

func (st *stream) status() (StreamStatus, bool) {
	out := StreamStatus{Stream: st.id, Edge: st.proxy.Edge, Node: st.proxy.Node, Since: st.since, BytesSent: st.sent.Load()}
	if st.proxy.Class == GRPC {
		out.GRPC = st.version
	} else {
		out.Envoy = st.version
	}
	store := st.server.cfg.Store
	store.lock()
	defer store.unlock()
	g := st.member.group
	if g == nil {
		return out, false
	}
	out.View, out.Published = g.key.view, g.content.generation()
	out.InSync = st.member.session.Quiet() && st.member.session.Whole()
	out.Types = st.member.session.status()
	return out, true
}

// status lists the types the client asked for.
func (s *Session) status() []TopicStatus {
	var out []TopicStatus
	for k := range s.topics {
		t := &s.topics[k]
		if !t.asked {
			continue
		}
		ts := TopicStatus{
			Type: kind(k).url().Short(), Wildcard: t.wild, Subscribed: t.sub.count(), Held: t.has.count(),
			Pending: t.dirty.count() + len(t.unknown), Gated: len(t.gated), Leaving: len(t.leaving), Waiting: t.waiting.count(),
			Responses: t.responses, Resources: t.sentResources, Bytes: t.sentBytes, NACKs: t.nacks,
		}
		if t.flight != nil {
			ts.Pending += len(t.flight.items)
		}
		for id, q := range t.quarantine {
			ts.Quarantined = append(ts.Quarantined, QuarantinedRes{s.content.name(kind(k), id), q.version, q.err})
		}
		slices.SortFunc(ts.Quarantined, func(a, b QuarantinedRes) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, ts)
	}
	return out
}
