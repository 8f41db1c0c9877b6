package xds

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// many are n names of so many bytes each.
func many(n, bytes int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%0*d", bytes, i)
	}
	return out
}

// TestLimits: whoever asks for too much is told so, and nobody else notices.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	ask := func(names ...string) *discovery.DeltaDiscoveryRequest {
		return &discovery.DeltaDiscoveryRequest{TypeUrl: string(ClusterLoadAssignment), ResourceNamesSubscribe: names}
	}
	has := func(name, version string) *discovery.DeltaDiscoveryRequest {
		return &discovery.DeltaDiscoveryRequest{TypeUrl: string(Cluster), InitialResourceVersions: map[string]string{name: version}}
	}
	drop := func(names ...string) *discovery.DeltaDiscoveryRequest {
		return &discovery.DeltaDiscoveryRequest{TypeUrl: string(ClusterLoadAssignment), ResourceNamesUnsubscribe: names}
	}
	limits := Limits{Names: 40_000, NameBytes: 8 << 20}
	for name, c := range map[string]struct {
		says  []*discovery.DeltaDiscoveryRequest
		code  codes.Code
		words string
	}{
		"a long name":         {[]*discovery.DeltaDiscoveryRequest{ask("fine", long)}, codes.InvalidArgument, "a name of 513 bytes"},
		"a long name dropped": {[]*discovery.DeltaDiscoveryRequest{drop(long)}, codes.InvalidArgument, "a name of 513 bytes"},
		"a long name held":    {[]*discovery.DeltaDiscoveryRequest{has(long, "1")}, codes.InvalidArgument, "a name of 513 bytes"},
		"a long version":      {[]*discovery.DeltaDiscoveryRequest{has("fine", long)}, codes.InvalidArgument, "a name of 513 bytes"},
		"a long type":         {[]*discovery.DeltaDiscoveryRequest{{TypeUrl: long}}, codes.InvalidArgument, "a name of 513 bytes"},
		"too many names":      {[]*discovery.DeltaDiscoveryRequest{ask(many(limits.Names+1, 6)...)}, codes.ResourceExhausted, "subscribes to more than 40000 names"},
		"too many in two":     {[]*discovery.DeltaDiscoveryRequest{ask(many(limits.Names, 6)...), ask("one more")}, codes.ResourceExhausted, "follows more than 40000 names"},
		"too many bytes":      {[]*discovery.DeltaDiscoveryRequest{ask(many(8000, 500)...), ask(many(8000, 501)...)}, codes.ResourceExhausted, "take more than 8388608 bytes"},
		"a large request":     {[]*discovery.DeltaDiscoveryRequest{ask("first"), drop(many(9000, 500)...)}, codes.ResourceExhausted, "4194304 are the limit"},
		"a large first one":   {[]*discovery.DeltaDiscoveryRequest{drop(many(39_999, 510)...), {TypeUrl: string(Cluster), ResourceNamesUnsubscribe: many(39_999, 510), ResourceNamesSubscribe: many(39_999, 510)}}, codes.ResourceExhausted, "larger than max"},
		"a large foreign one": {[]*discovery.DeltaDiscoveryRequest{{TypeUrl: "foreign.Type", ResourceNamesSubscribe: many(9000, 500)}}, codes.ResourceExhausted, "4194304 are the limit"},
		"a large node":        {[]*discovery.DeltaDiscoveryRequest{{TypeUrl: string(Cluster), ResponseNonce: strings.Repeat("x", maxPart+1)}}, codes.InvalidArgument, "1048576 are the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Limits: limits})
			r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "a", 1)})
			good, hostile := r.client("fra", "good"), r.client("fra", "hostile")
			good.subscribe(ClusterLoadAssignment, "a")
			good.ack(good.receive())
			for _, m := range c.says {
				hostile.send(m)
			}
			if s := hostile.end(); s.Code() != c.code || !strings.Contains(s.Message(), c.words) {
				t.Errorf("ended with %v", s)
			}
			r.cfg.Store.Publish("fra", []Change{makeAssignment(t, "a", 2)})
			if got := text(good.receive()); !strings.HasPrefix(got, "a@") {
				t.Errorf("the other stream was sent %s", got)
			}
			envoytest.Until(t, "the stream is gone", func() bool { return len(r.server.Streams()) == 1 })
		})
	}
}

// TestNamesOfTheViewAreFree: a proxy that follows all there is has no budget to
// fear, however long the names are.
func TestNamesOfTheViewAreFree(t *testing.T) {
	s := NewStore()
	names, has := many(100, 500), map[string]string{}
	var changes []Change
	for _, name := range names {
		has[name] = "1"
		changes = append(changes, Change{ClusterLoadAssignment, name, &Resource{Name: name, Version: "1"}})
	}
	m, _ := newMember(NewSession(Limits{NameBytes: 1}))
	s.follow(m, "v", "")
	s.Publish("v", changes)
	if err := m.say(s.now(), m.session, Request{Type: ClusterLoadAssignment, Subscribe: names, Initial: has}); err != nil {
		t.Error(err)
	}
}

// TestForeignTypes: of a type that is not served 100 names are said to be
// absent, and none is kept.
func TestForeignTypes(t *testing.T) {
	r := newRig(t, Config{})
	r.cfg.Store.Publish("fra", nil)
	c := r.client("fra", "n")
	c.subscribe("foreign.Type", many(foreignNames+50, 10)...)
	if m := c.receive(); len(m.RemovedResources) != foreignNames || m.TypeUrl != "foreign.Type" {
		t.Errorf("%d names of %s", len(m.RemovedResources), m.TypeUrl)
	}
	s := NewSession(Limits{})
	for i := range foreignLimit + 1 {
		err := s.Request(time.Time{}, Request{Type: "foreign.Type", Subscribe: many(1000, 10)})
		if over := i == foreignLimit; over != (err != nil) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if n := s.content.brought(""); n != 0 {
		t.Errorf("%d bytes of names are kept", n)
	}
}

// TestReportsAreBounded: those of health and load, too.
func TestReportsAreBounded(t *testing.T) {
	service, _ := NewHealth(asked, nil)
	r := newRig(t, Config{Services: []Service{service, Load}})
	conn := dial(t, "unix://"+r.socket, insecure.NewCredentials())
	h, l := helloOthers(t, conn, &core.Node{Cluster: "fra", Id: "n", UserAgentName: strings.Repeat("x", 16<<20)})
	for what, str := range map[string]interface{ RecvMsg(any) error }{"a health report": h, "a load report": l} {
		err := str.RecvMsg(&load.LoadStatsResponse{})
		if s := grpcstatus.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNodesAreClipped: what a client calls itself is shown as far as it is
// useful, and two are never one.
func TestNodesAreClipped(t *testing.T) {
	r := newRig(t, Config{})
	for i := range 2 {
		c := r.client("fra", strings.Repeat("é", 200_000)+fmt.Sprint(i))
		c.node.UserAgentVersionType = &core.Node_UserAgentVersion{UserAgentVersion: strings.Repeat("9", 1000)}
		c.subscribe(Secret, "x")
	}
	envoytest.Until(t, "both are here", func() bool { return len(r.server.Streams()) == 2 })
	all := r.server.Streams()
	if all[0].Node == all[1].Node {
		t.Error("two nodes are one")
	}
	for _, s := range all {
		if len(s.Node) > maxNode || len(s.Envoy) > maxVersion || !strings.HasPrefix(s.Node, "éé") || strings.ContainsRune(s.Node, '\uFFFD') {
			t.Errorf("node %d bytes, version %d bytes: %s", len(s.Node), len(s.Envoy), s.Node)
		}
	}
	if got := clipped("short", maxNode); got != "short" {
		t.Errorf("got %s", got)
	}
}

// TestOneRequestWaits: of a client that says more than is taken, one request is
// unpacked; the rest stays in the windows of its connection.
func TestOneRequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		unpacked := 0
		box := receive(ctx, func() (int, error) {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			unpacked++
			return unpacked, nil
		})
		synctest.Wait()
		if unpacked != 1 {
			t.Errorf("%d are unpacked and nobody takes them", unpacked)
		}
		<-box.in
		synctest.Wait()
		if unpacked != 2 {
			t.Errorf("%d are unpacked, one was taken", unpacked)
		}
		cancel()
	})
}

// TestGaugeLetsPass: what is no protobuf message is not its business, and what
// Envoy says passes.
func TestGaugeLetsPass(t *testing.T) {
	limits := Limits{}.withDefaults()
	names, versions := many(100_000, 130), map[string]string{}
	for _, name := range names {
		versions[name] = "0123456789abcdef"
	}
	raw, err := proto.Marshal(&discovery.DeltaDiscoveryRequest{
		Node: &core.Node{Id: strings.Repeat("n", 61<<10)}, TypeUrl: string(RouteConfiguration), ResourceNamesSubscribe: names, InitialResourceVersions: versions,
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &gauge{fields: deltaFields, names: limits.Names}
	if err := g.check(raw); err != nil {
		t.Errorf("a proxy with 100,000 names (%d bytes): %v", len(raw), err)
	}
	for _, broken := range [][]byte{{0xff}, {0x12, 0xff}, raw[:len(raw)/2], {0x2a, 2, 0xff, 0xff}} {
		if err := g.check(broken); err != nil && grpcstatus.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d bytes: %v", len(broken), err)
		}
	}
}
