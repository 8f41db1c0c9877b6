package xds

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// crowd is sessions of one view, in sync, without any connection.
type crowd struct {
	store   *Store
	members []*member
	bells   []bell
	buf     []byte
}

func newCrowd(b *testing.B, streams, names int) *crowd {
	c := &crowd{store: NewStore()}
	changes := make([]Change, names)
	subscribe := make([]string, names)
	for i := range changes {
		name := fmt.Sprintf("team-%03d/svc-%05d/8080", i%200, i)
		changes[i], subscribe[i] = makeAssignment(b, name, i), name
	}
	c.store.Publish("fra", changes)
	for range streams {
		m, woken := newMember(NewSession(Limits{}))
		c.store.follow(m, "fra", "")
		m.step(func(s *Session) {
			now := time.Now()
			if err := s.Request(now, Request{Type: ClusterLoadAssignment, Subscribe: subscribe}); err != nil {
				b.Fatal(err)
			}
		})
		c.members, c.bells = append(c.members, m), append(c.bells, woken)
	}
	c.drain(b)
	return c
}

// drain sends and acknowledges until nothing is left; it returns the bytes.
func (c *crowd) drain(b *testing.B) (bytes int) {
	for i, m := range c.members {
		if !c.bells[i].rang() && !m.session.topics[assignment].dirty.any() {
			continue
		}
		for {
			now := time.Now()
			var out []Response
			m.step(func(s *Session) { out = s.Ready(now) })
			if len(out) == 0 {
				break
			}
			for i := range out {
				c.buf = out[i].Append(c.buf[:0])
				bytes += len(c.buf)
				m.step(func(s *Session) {
					if err := s.Request(now, Request{Type: out[i].Type, Nonce: out[i].Nonce}); err != nil {
						b.Fatal(err)
					}
				})
			}
		}
	}
	return bytes
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkEndpointChange: one endpoint changes while every stream is
// subscribed to all names; publish, build, encode and acknowledge, without
// gRPC.
func BenchmarkEndpointChange(b *testing.B) {
	for _, streams := range []int{1, 200, 1000} {
		for _, names := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("streams=%d/names=%d", streams, names), func(b *testing.B) {
				c := newCrowd(b, streams, names)
				name := "team-042/svc-00042/8080"
				versions := [2]Change{makeAssignment(b, name, 1_000_001), makeAssignment(b, name, 1_000_002)}
				var sent, n int
				b.ReportAllocs()
				for b.Loop() {
					c.store.Publish("fra", versions[n%2:n%2+1])
					sent += c.drain(b)
					n++
				}
				b.ReportMetric(float64(sent)/float64(n)/float64(streams), "wireB/stream")
			})
		}
	}
}

// BenchmarkStreamState: what a stream in sync keeps, without gRPC.
func BenchmarkStreamState(b *testing.B) {
	const streams = 200
	for _, names := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("names=%d", names), func(b *testing.B) {
			var per float64
			for b.Loop() {
				one := newCrowd(b, 1, names)
				before := heap()
				c := newCrowd(b, streams+1, names)
				after := heap()
				second := newCrowd(b, 1, names)
				again := heap()
				per = (float64(after-before) - float64(again-after)) / streams
				runtime.KeepAlive(one)
				runtime.KeepAlive(c)
				runtime.KeepAlive(second)
			}
			b.ReportMetric(per, "B/stream")
		})
	}
}

// BenchmarkFirstSync: one stream loads 10,000 assignments.
func BenchmarkFirstSync(b *testing.B) {
	c := newCrowd(b, 1, 10_000)
	subscribe := make([]string, 0, 10_000)
	for name := range c.store.names.of[assignment].ids {
		subscribe = append(subscribe, name)
	}
	b.ReportAllocs()
	var sent, n int
	for b.Loop() {
		c.store.leave(c.members[0])
		m, _ := newMember(NewSession(Limits{}))
		c.store.follow(m, "fra", "")
		c.members[0] = m
		m.step(func(s *Session) {
			if err := s.Request(time.Now(), Request{Type: ClusterLoadAssignment, Subscribe: subscribe}); err != nil {
				b.Fatal(err)
			}
		})
		sent += c.drain(b)
		n++
	}
	b.ReportMetric(float64(sent)/float64(n), "wireB")
}

// BenchmarkReconnect: one stream comes back with 10,000 assignments in the
// versions that the view has. Nothing is sent.
func BenchmarkReconnect(b *testing.B) {
	const names = 10_000
	c := newCrowd(b, 1, names)
	r := Request{Type: ClusterLoadAssignment, Initial: map[string]string{}}
	wire := &discovery.DeltaDiscoveryRequest{TypeUrl: string(r.Type), InitialResourceVersions: r.Initial}
	c.store.Each("fra", func(_ TypeURL, res *Resource) {
		r.Subscribe = append(r.Subscribe, res.Name)
		r.Initial[res.Name] = res.Version
	})
	wire.ResourceNamesSubscribe = r.Subscribe
	raw, err := proto.Marshal(wire)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var got discovery.DeltaDiscoveryRequest
		in := inbound{into: func() proto.Message { return &got }, check: (&gauge{fields: deltaFields, names: names}).check}
		if err := in.unmarshal(raw); err != nil || in.err != nil {
			b.Fatal(err, in.err)
		}
		c.store.leave(c.members[0])
		m, _ := newMember(NewSession(Limits{}))
		c.store.follow(m, "fra", "")
		c.members[0] = m
		if err := m.say(time.Now(), m.session, deltaRequest(&got).Request); err != nil {
			b.Fatal(err)
		}
		if sent := c.drain(b); sent != 0 {
			b.Fatalf("sent %d bytes", sent)
		}
	}
	b.ReportMetric(float64(len(raw)), "wireB")
}
