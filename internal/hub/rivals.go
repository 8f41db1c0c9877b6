package hub

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A status that somebody else changed is written again: at once the first time,
// then later each time, so that two who each hold another truth cost the hub
// little. They may be two `serve`, or a controller that takes the object for its own.
const (
	againFirst = time.Second
	againLast  = 5 * time.Minute
	calm       = 2 * againLast // without a change by others: it is over
	loud       = 4             // changes in a row after which it is worth a line in the log
)

// want is what a status should say.
type want interface {
	// says reports whether an object says it already.
	says(*unstructured.Unstructured) bool
}

// record is what we know of a status that we wrote.
type record struct {
	of     types.UID // another object of the name is nobody's change
	wrote  want
	at     time.Time
	times  int       // others changed it, and we wrote it again
	fought time.Time // when we last did
}

// rest is how long to wait until it may be written again.
func (r *record) rest(now time.Time) time.Duration {
	if r == nil || r.times == 0 {
		return 0
	}
	return r.fought.Add(min(againFirst<<min(r.times-1, 16), againLast)).Sub(now)
}

// resting is how long to leave a piece of work alone.
func (w *Writer) resting(j job) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[j].rest(time.Now())
}

// lately reports whether we wrote it not long ago.
func (w *Writer) lately(j job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[j] != nil
}

// contest is called before something is written, with the object as it is: it
// counts how often somebody else changed what we wrote.
func (w *Writer) contest(j job, have *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, now := w.records[j], time.Now()
	if r != nil && r.of != have.GetUID() {
		delete(w.records, j)
		return
	}
	if r == nil || r.wrote.says(have) {
		return
	}
	if now.Sub(r.fought) > calm {
		r.times = 0
	}
	r.times++
	r.fought = now
	w.metrics.contested.Inc()
	if r.times >= loud && now.Sub(w.warned) > calm {
		w.warned = now
		w.log.Warn("hub: somebody else keeps changing a status that we write: another spillway serve, or a controller that takes the object for its own",
			"object", j.object.String(), "next_try_in", r.rest(now).String())
	}
}

// record notes what an object says by us. Notes of long ago go.
func (w *Writer) record(j job, of *unstructured.Unstructured, what want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	r := w.records[j]
	if r == nil {
		r = &record{}
		w.records[j] = r
	}
	r.of, r.wrote, r.at = of.GetUID(), what, now
	if now.Sub(w.swept) > calm {
		w.swept = now
		maps.DeleteFunc(w.records, func(_ job, r *record) bool { return now.Sub(r.at) > calm && now.Sub(r.fought) > calm })
	}
}
