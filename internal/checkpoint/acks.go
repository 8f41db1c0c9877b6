package checkpoint

import (
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// ackID and ack are how it is written that an edge acknowledged a host: one row
// for each, however the program keeps them. An acknowledgement costs what it
// says, and the versions before this one read it.
type (
	ackID struct {
		Edge model.Edge
		Host model.HostKey
	}
	ack struct{}
)

// RegisterAcks keeps which edges acknowledged a host, as Register would.
func RegisterAcks(s *Store, name string, t *inc.Table[model.HostKey, model.EdgeSet]) {
	put := registerRows(s, name, func(tx *inc.Tx, k ackID, _ ack) {
		t.Edit(tx, k.Host, func(old model.EdgeSet, _ bool) (model.EdgeSet, bool) { return old.With(k.Edge), true })
	})
	watch(s, t, func(changes []inc.Change[model.HostKey, model.EdgeSet]) {
		for _, c := range changes {
			ackParts(c, put)
		}
	})
}

func ackParts(c inc.Change[model.HostKey, model.EdgeSet], put func(ackID, *ack)) {
	var old, now model.EdgeSet
	if c.Old != nil {
		old = *c.Old
	}
	if c.New != nil {
		now = *c.New
	}
	came, went := now.Minus(old), old.Minus(now)
	for _, e := range came {
		put(ackID{e, c.Key}, &ack{})
	}
	for _, e := range went {
		put(ackID{e, c.Key}, nil)
	}
}
