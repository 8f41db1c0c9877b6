package xds

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// deaf is a client that reads nothing, but guesses nonces.
func (r *rig) deaf(node string) discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
	r.t.Helper()
	conn := dial(r.t, "unix://"+r.socket, insecure.NewCredentials())
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for i, u := range []TypeURL{Secret, ClusterLoadAssignment} {
		for _, m := range []*discovery.DeltaDiscoveryRequest{
			{TypeUrl: string(u), ResourceNamesSubscribe: []string{"big"}, Node: &core.Node{Id: node, Cluster: "fra"}},
			{TypeUrl: string(u), ResponseNonce: fmt.Sprint(i + 1)}, // that there is none
		} {
			if err := str.Send(m); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return str
}

// big is a secret and an assignment, each of more bytes than gRPC takes for a
// client that does not read.
func big(version int) []Change {
	all := []Change{{Type: Secret, Name: "big"}, {Type: ClusterLoadAssignment, Name: "big"}}
	for i, c := range all {
		all[i].Resource = &Resource{Name: c.Name, Version: fmt.Sprint(version), Body: model.BodyOf(bytes.Repeat([]byte{0x1a, 0}, 200<<10))}
	}
	return all
}

// TestDeafClientsDelayNobody: more clients that do not read than the pool has
// workers, and one that does. Nobody waits for the others' time-outs.
func TestDeafClientsDelayNobody(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{AckTimeout: time.Hour}})
	s := r.cfg.Store
	s.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	good := r.client("fra", "good")
	good.subscribe(ClusterLoadAssignment, "a")
	good.ack(good.receive())
	for i := range 3 * r.server.pool.most {
		r.deaf(fmt.Sprint("deaf-", i))
	}
	envoytest.Until(t, "all are here", func() bool { return r.asked() == 3*r.server.pool.most })
	for version := 2; version < 10; version++ {
		s.Publish("fra", append(big(version), makeAssignment(t, "a", version)))
		m := good.receive()
		if got := text(m); !strings.HasPrefix(got, "a@") {
			t.Fatalf("got %s", got)
		}
		good.ack(m)
	}
}

// asked counts the streams that are ready for what deaf clients want.
func (r *rig) asked() (n int) {
	for _, st := range r.server.Streams() {
		if len(st.Types) == 2 && st.Types[0].Pending+st.Types[1].Pending == 0 {
			n++
		}
	}
	return n
}

// TestDeafClientIsClosed: as one that reads and does not answer.
func TestDeafClientIsClosed(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{AckTimeout: 50 * time.Millisecond}})
	str := r.deaf("a")
	r.cfg.Store.Publish("fra", big(1))
	envoytest.Until(t, "the stream is closed", func() bool {
		all, _ := r.cfg.Reports.Take()
		return len(all) > 0 && !all[len(all)-1].Open
	})
	for {
		if _, err := str.Recv(); err != nil {
			if grpcstatus.Code(err) != codes.DeadlineExceeded {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
}

// TestClientThatIsBehindIsClosed: one that asks and asks, and reads nothing, while
// the pool is stuck with what it is sent: what waits for it is bounded. (Where its
// own goroutine is stuck, it is not heard any more.)
func TestClientThatIsBehindIsClosed(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{AckTimeout: time.Hour}})
	s := r.cfg.Store
	const clients = 5
	var all []discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	for i := range clients {
		conn := dial(t, "unix://"+r.socket, insecure.NewCredentials())
		str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range []TypeURL{Secret, ClusterLoadAssignment} { // gRPC takes the first
			if err := str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(u), ResourceNamesSubscribe: []string{"big"}, Node: &core.Node{Id: fmt.Sprint(i), Cluster: "fra"}}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, str)
	}
	responses := func() (n uint64) {
		for _, st := range r.server.Streams() {
			for _, topic := range st.Types {
				n += topic.Responses + uint64(topic.Subscribed)
			}
		}
		return n
	}
	envoytest.Until(t, "all are here", func() bool { return responses() == 2*clients })
	s.Publish("fra", big(1))
	envoytest.Until(t, "all are sent it", func() bool { return responses() == 4*clients })
	for _, str := range all {
		for range int(kinds) + foreignLimit + 2 {
			if err := str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: "example.com/none", ResourceNamesSubscribe: []string{"a"}}); err != nil {
				break // it ended
			}
		}
	}
	envoytest.Until(t, "a stream is closed", func() bool {
		all, _ := r.cfg.Reports.Take()
		return slices.ContainsFunc(all, func(c StreamChange) bool { return !c.Open && c.Reason == reasonBehind })
	})
}

// TestGoroutinesOfAStream: at rest a stream has one, which receives, and the pool
// none.
func TestGoroutinesOfAStream(t *testing.T) {
	const n = 20
	r := newRig(t, Config{})
	r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
	for i := range n {
		c := r.client("fra", fmt.Sprint(i))
		c.subscribe(ClusterLoadAssignment, "a")
		c.ack(c.receive())
	}
	count := func() (hear, others int) {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
			t.Fatal(err)
		}
		for _, g := range strings.Split(all.String(), "\n\n") {
			switch {
			case strings.Contains(g, "xds.(*stream).hear("):
				hear++
			case strings.Contains(g, "internal/xds.") && !strings.Contains(g, "_test.go"):
				others++
			}
		}
		return hear, others
	}
	envoytest.Until(t, fmt.Sprintf("%d receive, nobody else is there", n), func() bool {
		hear, others := count()
		return hear == n && others == 0
	})
}
