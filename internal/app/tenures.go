package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// tenures ends those that a class has left, when their time has come. It belongs to
// the loop's goroutine.
type tenures struct {
	p    *fleet.Program
	ends deadlines[model.TenureID]
}

func newTenures(p *fleet.Program, now func() time.Time) *tenures {
	t := &tenures{p: p}
	p.In.Tenures.Watch(func(changes []inc.Change[model.TenureID, model.Tenure]) {
		for _, c := range changes {
			if c.New == nil || c.New.Until == 0 {
				t.ends.drop(c.Key)
				continue
			}
			// A clock that was set back keeps none for longer than it would be from now.
			t.ends.set(c.Key, time.Unix(min(c.New.Until, c.New.Ending(now())), 0))
		}
	})
	return t
}

// due returns writes that end what is over, and when the next one is.
func (t *tenures) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	for k, ok := t.ends.pop(now); ok; k, ok = t.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) {
			t.p.In.Tenures.Edit(tx, k, func(is model.Tenure, ok bool) (model.Tenure, bool) {
				return is, ok && is.Until == 0 // the class has it again
			})
		})
	}
	return writes, t.ends.next()
}
