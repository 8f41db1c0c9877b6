package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// clientView ends the name of a view that is for gRPC clients: they never see
// that of the proxies, nor those theirs.
const clientView = " grpc"

// clientLinger is how long the resources of gRPC clients are kept up after the
// last client of an edge left: one that comes and goes does not have them made
// each time.
const clientLinger = 5 * time.Minute

// clients asks for the resources of gRPC clients where there are any. It belongs
// to the loop's goroutine.
type clients struct {
	tables *envoy.ClientTables
	open   map[model.Edge]map[uint64]bool // streams
	left   deadlines[model.Edge]          // whose last stream ended
	now    func() time.Time
}

func newClients(t *envoy.ClientTables) *clients {
	return &clients{tables: t, open: map[model.Edge]map[uint64]bool{}, now: time.Now}
}

// streamed takes openings and closings of streams. It runs inside a commit.
func (c *clients) streamed(tx *inc.Tx, changes []xds.StreamChange) {
	for _, s := range changes {
		edge := model.Edge(s.Edge)
		switch {
		case s.Class != xds.GRPC:
		case s.Open:
			if c.open[edge] == nil {
				c.open[edge] = map[uint64]bool{}
				c.tables.Demand.Set(tx, edge, model.There{})
			}
			c.open[edge][s.Stream] = true
			c.left.drop(edge)
		default:
			delete(c.open[edge], s.Stream)
			if len(c.open[edge]) == 0 {
				c.left.set(edge, c.now().Add(clientLinger))
			}
		}
	}
}

// due returns the writes that end the demand of edges whose clients left long
// ago, and when the next one may end.
func (c *clients) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	for edge, ok := c.left.pop(now); ok; edge, ok = c.left.pop(now) {
		delete(c.open, edge)
		writes = append(writes, func(tx *inc.Tx) {
			if c.open[edge] == nil { // nobody came in the same turn
				c.tables.Demand.Delete(tx, edge)
			}
		})
	}
	return writes, c.left.next()
}
