package app

import (
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// expiries times which certificates are over. It belongs to the loop's goroutine.
type expiries struct {
	p    *fleet.Program
	put  func(key any, write func(*inc.Tx)) // has a write done in the next commit
	ends deadlines[model.SecretID]
}

func newExpiries(p *fleet.Program, put func(key any, write func(*inc.Tx))) *expiries {
	e := &expiries{p: p, put: put}
	p.In.Certificates.Watch(func(changes []inc.Change[model.SecretID, model.Certificate]) {
		for _, c := range changes {
			e.look(c.Key)
		}
	})
	return e
}

// look has a deadline follow a certificate that came, changed or went. The new one
// is as good as any until it is over.
func (e *expiries) look(id model.SecretID) {
	if cert, ok := e.p.In.Certificates.Get(nil, id); ok && cert.NotAfter != 0 {
		e.ends.set(id, time.Unix(cert.NotAfter, 0))
	} else {
		e.ends.drop(id)
	}
	if _, over := e.p.In.Expired.Get(nil, id); !over {
		return
	}
	type renewedKey struct{ id model.SecretID }
	e.put(renewedKey{id}, func(tx *inc.Tx) { e.p.In.Expired.Delete(tx, id) })
}

// due returns what follows from time alone, and when the next of it is.
func (e *expiries) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	for id, ok := e.ends.pop(now); ok; id, ok = e.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) { e.p.In.Expired.Set(tx, id, model.There{}) })
	}
	return writes, e.ends.next()
}
