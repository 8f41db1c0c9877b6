package app

import (
	"net/netip"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestTenuresEnd: what a class has left ends when its time has come, and no later
// where the clock was set back meanwhile. What it has again, in that moment too,
// does not.
func TestTenuresEnd(t *testing.T) {
	const lasts = 5*time.Second + model.TenureMargin
	began := time.Unix(1_900_000_000, 0)
	left := model.Tenure{TTL: 5}
	left.Until = left.Ending(began)
	for _, c := range []struct {
		name  string
		now   time.Time     // when the row is read
		again bool          // the class has it when the time has come
		lasts time.Duration // from now
	}{
		{"it was left", began, false, lasts},
		{"it was left before a restart", began.Add(20 * time.Second), false, lasts - 20*time.Second},
		{"the clock was set back", began.Add(-time.Hour), false, lasts},
		{"the class has it again", began, true, lasts},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := inc.New()
			p := fleet.Declare(g)
			e := newTenures(p, func() time.Time { return c.now })
			ip := netip.MustParseAddr("192.0.2.9")
			k := model.TenureID{LeaseID: model.LeaseID{Edge: "fra", Class: "shop"}, PoolAddress: model.PoolAddress{Address: ip, Bind: ip}}
			g.Commit(func(tx *inc.Tx) { p.In.Tenures.Set(tx, k, left) })
			end := c.now.Add(c.lasts)
			if early, next := e.due(end.Add(-time.Second)); len(early) > 0 || !next.Equal(end) {
				t.Errorf("a second before the end there are %d writes, and the next is due at %v, not at %v", len(early), next, end)
			}
			writes, next := e.due(end)
			if len(writes) != 1 || !next.IsZero() {
				t.Fatalf("at the end there are %d writes, and the next is due at %v", len(writes), next)
			}
			g.Commit(func(tx *inc.Tx) {
				if c.again {
					p.In.Tenures.Set(tx, k, model.Tenure{TTL: 5})
				}
				writes[0](tx)
			})
			if _, there := p.In.Tenures.Get(nil, k); there != c.again {
				t.Errorf("afterwards it is there: %v", there)
			}
		})
	}
}
