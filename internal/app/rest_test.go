package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/probe"
	"github.com/spillway-dev/spillway/internal/xds"
)

// looked is how many entries turns have looked at.
func (r *Rest) looked() int {
	s := r.s
	return s.evidence.expires.looked + s.evidence.looked + s.clients.left.looked + s.watch.judged
}

// TestATurnAtRestLooksAtNothing: what a turn looks at follows from what changed
// or is due, not from how many edges, members and proxies there are.
func TestATurnAtRestLooksAtNothing(t *testing.T) {
	const edges, members, proxies, turns = 20, 30, 3, 10
	r := NewRest(edges, members, proxies)
	if reports, witnesses := r.Rows(); reports != edges*members*proxies || witnesses != edges {
		t.Fatalf("%d reports, %d witnesses: nothing is measured", reports, witnesses)
	}
	work := func(do func()) int {
		before := r.looked()
		do()
		return r.looked() - before
	}
	heads := work(func() { r.Turns(turns) }) // the first of evidence
	if heads > turns {
		t.Errorf("%d turns at rest looked at %d entries", turns, heads)
	}
	if n := work(func() { r.Report(); r.Turns(turns) }); n != heads {
		t.Errorf("%d turns after the same reports looked at %d entries, want %d", turns, n, heads)
	}
	target := r.s.watch.targets[edgeNo(7)][0]
	if n := work(func() { r.s.watch.probed(target, probe.Verdict{Health: model.Unknown}); r.Turns(turns) }); n != heads+edges {
		t.Errorf("%d turns after a verdict looked at %d entries, want each edge once beside %d", turns, n, heads)
	}
	at := time.Now().Add(-time.Second)
	if !r.again[0](at) {
		t.Fatal("its report does not count any more")
	}
	end := at.Add(reportTTL)
	if n := work(func() { r.s.evidence.expire(end) }); n != members+2 {
		t.Errorf("the end of a proxy's reports: looked at %d entries, want its own", n)
	}
}

// TestReportsAreOneLetter: while the loop stands still, the mailbox does not grow
// with what streams say.
func TestReportsAreOneLetter(t *testing.T) {
	s := &server{mail: cluster.NewMailbox(), reports: &xds.Reports{}}
	for range 300 {
		s.hear()
	}
	if n := s.mail.Len(); n != 1 {
		t.Errorf("%d letters", n)
	}
}

// TestSinceGoesOnEvenly: what rows have is seconds, from which the moment follows.
func TestSinceGoesOnEvenly(t *testing.T) {
	w := &witnesses{began: time.Now()}
	for _, after := range []time.Duration{0, time.Second, 90 * time.Minute} {
		at := w.began.Add(after)
		if d := at.Sub(w.moment(w.since(at))); d < 0 || d >= time.Second {
			t.Errorf("after %v: %v off", after, d)
		}
	}
}

// BenchmarkReport is what evidence makes of a report about 300 members, of one of
// 600 proxies: most say what they said before.
func BenchmarkReport(b *testing.B) {
	const members, proxies = 300, 3
	for _, edges := range []int{2, 200} {
		r := NewRest(edges, members, proxies)
		b.Run(fmt.Sprintf("%dx%d/same", edges*proxies, members), func(b *testing.B) {
			now := time.Now()
			for i := 0; b.Loop(); i++ {
				if !r.again[i%len(r.again)](now) {
					b.Fatal("read again")
				}
			}
		})
		b.Run(fmt.Sprintf("%dx%d/different", edges*proxies, members), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				report := r.reports[i%len(r.reports)]
				report.At = time.Now()
				report.Canaries[i/len(r.reports)%members].Healthy = i%2 == 0
				r.s.evidence.heard(report)
			}
		})
	}
}

func BenchmarkTurnAtRest(b *testing.B) {
	for _, c := range []struct{ edges, members int }{{2, 3}, {200, 300}} {
		b.Run(fmt.Sprint(c.edges, "x", c.members), func(b *testing.B) {
			r := NewRest(c.edges, c.members, 3)
			for b.Loop() {
				r.Turns(1)
			}
		})
	}
}
