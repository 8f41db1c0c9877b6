package fanout

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

func resource(t xds.TypeURL, name string, version int, refs ...xds.Ref) xds.Change {
	body := []byte{0x0a, byte(len(t))}
	body = append(body, t...)
	return xds.Change{Type: t, Name: name, Resource: &xds.Resource{Name: name, Version: fmt.Sprintf("%08x", version), Body: model.BodyOf(body, refs...)}}
}

// host is all that a host needs.
func host(name string) []xds.Change {
	return []xds.Change{
		resource(xds.Cluster, name, 1, xds.Ref{Type: xds.ClusterLoadAssignment, Name: name}),
		resource(xds.ClusterLoadAssignment, name, 1),
		resource(xds.ScopedRoute, name, 1, xds.Ref{Type: xds.RouteConfiguration, Name: name}),
		resource(xds.RouteConfiguration, name, 1, xds.Ref{Type: xds.Cluster, Name: name}),
	}
}

// TestProxies: every proxy is told of each change in one response, which does
// not grow with the number of hosts, follows what is added, and is told what
// is removed.
func TestProxies(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, hosts := range []int{10, 1000} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) { check(t, hosts) })
	}
}

func check(t *testing.T, hosts int) {
	const count = 3
	socket := filepath.Join(t.TempDir(), "s")
	end, err := xds.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	store := xds.NewStore()
	all := []xds.Change{resource(xds.Secret, "shop/tls", 1)}
	for i := range hosts {
		all = append(all, host(fmt.Sprintf("h%06d", i))...)
	}
	store.Publish("view", all)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- xds.NewServer(xds.Config{Store: store, ViewOf: func(string) (string, bool) { return "view", true }}).Serve(ctx, end)
	}()
	var hits atomic.Int64
	p, err := Dial(ctx, Options{Socket: socket, Edge: "fra", Count: count, Secrets: []string{"shop/tls"}, Name: "h000007", Seen: func() { hits.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	await := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	await(p.AwaitUpserts(ctx, xds.RouteConfiguration, int64(count*hosts)))
	await(p.AwaitUpserts(ctx, xds.ClusterLoadAssignment, int64(count*(hosts-1)))) // without the one that is watched
	await(p.AwaitUpserts(ctx, xds.Secret, count))

	responses, bytes := p.Responses(), p.Bytes()
	store.Publish("view", []xds.Change{resource(xds.ClusterLoadAssignment, "h000003", 2)})
	await(p.AwaitUpserts(ctx, xds.ClusterLoadAssignment, int64(count*hosts)))
	if n, b := p.Responses()-responses, p.Bytes()-bytes; n != count || b > 200*count {
		t.Errorf("one change took %d responses, %d bytes", n, b)
	}
	if hits.Load() != count {
		t.Errorf("seen %d times, want %d", hits.Load(), count)
	}

	store.Publish("view", host("new"))
	await(p.AwaitUpserts(ctx, xds.RouteConfiguration, int64(count*(hosts+1))))
	store.Publish("view", []xds.Change{{Type: xds.ScopedRoute, Name: "new"}, {Type: xds.RouteConfiguration, Name: "new"}})
	await(p.AwaitRemoved(ctx, xds.ScopedRoute, count))
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
