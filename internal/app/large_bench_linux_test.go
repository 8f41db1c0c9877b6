package app

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// threadTime is the CPU time of this thread (getrusage(2), RUSAGE_THREAD).
func threadTime() time.Time {
	const thread = 1
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return time.Unix(0, u.Utime.Nano()+u.Stime.Nano())
}

// BenchmarkLargeEvents measures, in CPU time of the loop with 10,000 hosts, two
// members and two edges: the longest commit with its publish, which is the
// first; the longest from an endpoint change to its publish after that; the
// time to the last row.
func BenchmarkLargeEvents(b *testing.B) {
	const n = 10_000
	w := newBig(n)
	in := &w.prog.In
	w.commit(func(tx *inc.Tx) { w.lose(tx, 0) })
	w.settle(w.turns(func(inc.Stats) {}))
	failing, timeout := 0, int64(100)
	wild := model.SecretID{Namespace: "shop", Name: "wild"}
	for _, c := range []struct {
		what  string
		event func(*inc.Tx)
	}{
		{"member", func(tx *inc.Tx) { failing = 3 - failing; w.lose(tx, failing) }},
		{"class", func(tx *inc.Tx) {
			spec, _ := in.Configs.Get(nil, "c")
			timeout++
			spec.Timing.PerTryTimeout, spec.Timing.ConnectTimeout = timeout, timeout
			in.Configs.Set(tx, "c", spec)
		}},
		{"edge", func(tx *inc.Tx) {
			spec, _ := in.Edges.Get(nil, "nyc")
			spec.Place.Zone += "'"
			in.Edges.Set(tx, "nyc", spec)
		}},
		{"certificate", func(tx *inc.Tx) {
			c, _ := in.Certificates.Get(nil, wild)
			c.Problem = map[string]string{"": "broken"}[c.Problem]
			in.Certificates.Set(tx, wild, c)
		}},
		{"missing", func(tx *inc.Tx) {
			spec, _ := in.Members.Get(nil, "us-1")
			spec.Seen = true
			in.Members.Set(tx, "us-1", spec)
			if _, ok := in.Sources.Get(nil, "us-1"); ok {
				in.Sources.Delete(tx, "us-1")
			} else {
				in.Sources.Set(tx, "us-1", model.Source{Connected: true})
			}
		}},
		{"drain", func(tx *inc.Tx) {
			spec, _ := in.Members.Get(nil, "us-1")
			spec.Drain = !spec.Drain
			in.Members.Set(tx, "us-1", spec)
		}},
	} {
		b.Run(c.what, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var longest, wait, whole time.Duration
			for b.Loop() {
				x := w.measure(c.event)
				longest, wait, whole = max(longest, x.longest), max(wait, x.wait), max(whole, x.whole)
			}
			for unit, d := range map[string]time.Duration{"ms/longest": longest, "ms/endpoint": wait, "ms/whole": whole} {
				b.ReportMetric(float64(d.Microseconds())/1e3, unit)
			}
		})
	}
}

// BenchmarkMembersList measures, in CPU time of the loop with 10,000 hosts, what
// 200 members cost that are listed one after another: in all, and the longest
// commit with its publish.
func BenchmarkMembersList(b *testing.B) {
	const n, members = 10_000, 200
	for _, c := range listings {
		b.Run(c.what, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var whole, longest time.Duration
			for b.Loop() {
				b.StopTimer()
				w := newBig(n)
				l := w.turns(func(inc.Stats) {})
				w.mail.Put(urgent, "join", func(tx *inc.Tx) { w.join(tx, members, c.seen) })
				w.settle(l)
				b.StartTimer()
				var sum time.Duration
				for i := range members {
					x := w.alone(func(tx *inc.Tx) { w.list(tx, i, c.shared) })
					sum, longest = sum+x.whole, max(longest, x.longest)
				}
				whole = max(whole, sum)
			}
			b.ReportMetric(float64(whole.Microseconds())/1e3, "ms/whole")
			b.ReportMetric(float64(longest.Microseconds())/1e3, "ms/longest")
		})
	}
}

// measured are CPU times of one event.
type measured struct{ longest, wait, whole time.Duration }

// alone measures an event while nothing else happens.
func (b *big) alone(event func(*inc.Tx)) measured { return b.during(event, func(int) {}) }

// measure measures one while endpoints change.
func (b *big) measure(event func(*inc.Tx)) measured {
	return b.during(event, func(i int) {
		b.mail.Put(urgent, "endpoint", func(tx *inc.Tx) { b.slice(tx, i*37%b.n, 1, i) })
	})
}

func (b *big) during(event func(*inc.Tx), beside func(i int)) (out measured) {
	l := b.turns(func(inc.Stats) {})
	l.now = threadTime
	began := threadTime()
	var before, last time.Time // ends of the last two commits
	last = began
	l.publish = func(inc.Stats) {
		b.proxies.flush()
		b.answers.flush()
		before, last = last, threadTime()
		out.longest = max(out.longest, last.Sub(before))
	}
	b.mail.Put(urgent, "event", event)
	for i := 0; b.graph.Backlog() > 0 || b.mail.Len() > 0; i++ {
		if i > 0 { // in the middle: it came when the commit before began
			beside(i)
		}
		late := last.Sub(before)
		began := threadTime()
		seen := false
		see := l.publish
		l.publish = func(s inc.Stats) {
			see(s)
			if !seen && i > 0 {
				seen = true
				out.wait = max(out.wait, late+last.Sub(began))
			}
		}
		l.turn()
		l.publish = see
	}
	out.whole = last.Sub(began)
	return out
}
