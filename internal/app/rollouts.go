package app

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
)

// rollouts ends the pauses between waves of edits, when their time has come. It belongs to
// the loop's goroutine.
type rollouts struct {
	p      *fleet.Program
	t      *leaf.Tables
	now    func() time.Time
	listed func() bool // is it known what the hub says now? No pause ends before
	ends   deadlines[model.Object]

	mu     sync.Mutex
	states map[string]int // edits that not all members have, by the reason of RolledOut
}

var descRollouts = prometheus.NewDesc("spillway_rollouts", "Edits of roots with leaves that not all members have, by where they stand.", []string{"reason"}, nil)

func newRollouts(p *fleet.Program, t *leaf.Tables, now func() time.Time, listed func() bool) *rollouts {
	o := &rollouts{p: p, t: t, now: now, listed: listed, states: map[string]int{}}
	for _, reason := range leaf.Standings {
		o.states[reason] = 0
	}
	t.Rollouts.Watch(func(changes []inc.Change[model.Object, leaf.Rollout]) {
		o.count(changes)
		for _, c := range changes {
			since := int64(0)
			if c.New != nil && c.New.Ready {
				since = c.New.Memory.Since
			}
			if since == 0 {
				o.ends.drop(c.Key)
				continue
			}
			// A clock that was set back makes no pause longer than it would be from now.
			o.ends.set(c.Key, time.UnixMilli(min(since, o.now().UnixMilli())).Add(c.New.Pause))
		}
	})
	return o
}

// count keeps how many edits are where.
func (o *rollouts) count(changes []inc.Change[model.Object, leaf.Rollout]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	add := func(r *leaf.Rollout, n int) {
		if r != nil && r.State != "" {
			o.states[r.State] += n
		}
	}
	for _, c := range changes {
		add(c.Old, -1)
		add(c.New, 1)
	}
}

// Describe implements prometheus.Collector.
func (o *rollouts) Describe(out chan<- *prometheus.Desc) { out <- descRollouts }

// Collect implements prometheus.Collector.
func (o *rollouts) Collect(out chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for reason, n := range o.states {
		out <- prometheus.MustNewConstMetric(descRollouts, prometheus.GaugeValue, float64(n), reason)
	}
}

// adopt forgets the edits of roots that are gone, as after a process that ended before it
// could.
func (o *rollouts) adopt(tx *inc.Tx) {
	for _, k := range o.p.In.Rollouts.Keys() {
		if _, ok := o.t.Rollouts.Get(nil, k); !ok {
			o.p.In.Rollouts.Delete(tx, k)
		}
	}
}

// due returns writes that end what is over, and when the next one is.
func (o *rollouts) due(now time.Time) (writes []func(*inc.Tx), next time.Time) {
	if !o.listed() {
		return nil, time.Time{}
	}
	for k, ok := o.ends.pop(now); ok; k, ok = o.ends.pop(now) {
		writes = append(writes, func(tx *inc.Tx) {
			o.p.In.Rollouts.Edit(tx, k, func(was model.Rollout, ok bool) (model.Rollout, bool) { return was.Ended(), ok })
		})
	}
	return writes, o.ends.next()
}
