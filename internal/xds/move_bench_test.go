package xds

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkMove: a stream that follows 10,000 assignments and what leads to them
// gets another vantage, at which all assignments differ, or none. One operation is
// all that the session does until the client has acknowledged everything.
func BenchmarkMove(b *testing.B) {
	const hosts = 10_000
	for _, differ := range []bool{false, true} {
		b.Run(fmt.Sprint("differ=", differ), func(b *testing.B) {
			s := NewStore()
			at := func(vantage string, v int) (out []Change) {
				for i := range hosts {
					out = append(out, makeEndpoint(b, fmt.Sprintf("host-%05d", i), 80, v))
				}
				return out
			}
			var front []Change
			var names []string
			for i := range hosts {
				name := fmt.Sprintf("host-%05d", i)
				front = append(front, makeCluster(b, name, 1))
				names = append(names, name)
			}
			v := 1
			if differ {
				v = 2
			}
			s.Commit(Commit{Contents: []Content{{Collection: "front", Changes: front}, {Collection: "here", Changes: at("here", 1)}, {Collection: "there", Changes: at("there", v)}},
				Views: []ViewOf{{"here view", []string{"front", "here"}}, {"there view", []string{"front", "there"}}}})
			m, _ := newMember(NewSession(Limits{}))
			s.follow(m, "here view", "fra")
			sent := 0
			settle := func() {
				for more := true; more; {
					var out []Response
					m.step(func(x *Session) { out, more = x.Ready(s.now()), x.More() })
					for _, r := range out {
						more, sent = true, sent+len(r.Resources)
						if err := m.say(time.Now(), m.session, Request{Type: r.Type, Nonce: r.Nonce}); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			for _, r := range []Request{{Type: Cluster}, {Type: ClusterLoadAssignment, Subscribe: names}} {
				if err := m.say(s.now(), m.session, r); err != nil {
					b.Fatal(err)
				}
			}
			settle()
			views := []string{"there view", "here view"}
			n := 0
			sent = 0
			for b.Loop() {
				s.follow(m, views[n%2], "fra")
				settle()
				n++
			}
			b.ReportMetric(float64(sent)/float64(n), "sent/op")
		})
	}
}
