package xds

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// madeUp are n names that no view has.
func madeUp(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("made-up/%07d/80", i)
	}
	return out
}

func cpuTime(b testing.TB) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHostileNames: how long a publish of one change waits, and how long it
// is until somebody else's stream has taken it, while a client subscribes to
// made-up names, drops them and never answers; with what the whole process needs
// for that. One operation is all its requests.
func BenchmarkHostileNames(b *testing.B) {
	const names, rounds = 150_000, 2
	all := madeUp(names)
	r := newRig(b, Config{})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(b, "a", 1)})
	other, woken := newMember(NewSession(Limits{}))
	r.cfg.Store.follow(other, "fra", "ams")
	if err := other.say(time.Now(), other.session, Request{Type: ClusterLoadAssignment, Subscribe: []string{"a"}}); err != nil {
		b.Fatal(err)
	}
	var worst, told time.Duration
	before := cpuTime(b)
	for b.Loop() {
		c := r.client("fra", "hostile")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range rounds {
				for i := 0; i < names; i += names / 2 {
					c.subscribe(ClusterLoadAssignment, all[i:i+names/2]...)
				}
				c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(ClusterLoadAssignment), ResourceNamesUnsubscribe: all})
			}
			c.subscribe(Secret, "last")
			for c.receive().TypeUrl != string(Secret) {
			}
		}()
		for n, open := 2, true; open; n++ {
			select {
			case <-done:
				open = false
			default:
			}
			change := []Change{makeAssignment(b, "a", n)}
			began := time.Now()
			r.cfg.Store.Publish("fra", change)
			worst = max(worst, time.Since(began))
			<-woken
			other.step(func(s *Session) {
				for _, out := range s.Ready(began) {
					if err := s.Request(began, Request{Type: out.Type, Nonce: out.Nonce}); err != nil {
						b.Error(err)
					}
				}
			})
			told = max(told, time.Since(began))
			runtime.Gosched()
		}
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms/publish")
	b.ReportMetric(float64(told.Microseconds())/1000, "worst-ms/told")
	b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}
