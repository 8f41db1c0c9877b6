package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/internal/xds"
)

type object = user.Object

var named = user.Named

// The service whose endpoints change, of somebody who has nothing to do with
// the attack: in a member and a namespace of its own.
const (
	watched     = "watched"
	assignment  = watched + "/" + watched + "/http"
	honestEdge  = "eu"
	member      = "eu-1"
	changeEvery = 100 * time.Millisecond
	patience    = 30 * time.Second
)

// watcher changes the endpoints of a service and looks when a proxy has them.
type watcher struct {
	member *user.Cluster
	number int // of the last change

	mu      sync.Mutex
	began   map[int]time.Time // changes that the proxy has not, by number
	took    []time.Duration
	wrote   []time.Duration // what the API server alone took
	latest  int
	changed chan struct{} // of capacity 1: something came
	ended   error         // why the proxy's stream ended
}

// newWatcher writes the service and waits until the proxy has it.
func newWatcher(ctx context.Context, l *lab.Lab, xdsPort int) (*watcher, error) {
	author := user.Author{Manager: "honest", Timeout: patience}
	hub, err := author.Open("the hub", l.HubKubeconfig())
	if err != nil {
		return nil, err
	}
	w := &watcher{began: map[int]time.Time{}, changed: make(chan struct{}, 1)}
	if w.member, err = author.Open(member, l.MemberKubeconfig(member)); err != nil {
		return nil, err
	}
	write := func(c *user.Cluster, objects ...object) {
		for _, o := range objects {
			if err == nil {
				err = c.Apply(ctx, o)
			}
		}
	}
	namespace := named("v1", "Namespace", "", watched, nil)
	write(w.member, namespace, watchedService(), watchedSlice(0))
	write(hub, namespace, watchedIngress())
	if err != nil {
		return nil, err
	}
	if err := w.follow(ctx, l, xdsPort); err != nil {
		return nil, err
	}
	return w, w.await(ctx, func() bool { return w.latest >= 0 && len(w.began) == 0 })
}

func watchedService() object {
	return named("v1", "Service", watched, watched, object{"spec": object{
		"ports": []any{object{"name": "http", "port": 80, "targetPort": 8080}},
	}})
}

func watchedIngress() object {
	backend := object{"service": object{"name": watched, "port": object{"name": "http"}}}
	return named("networking.k8s.io/v1", "Ingress", watched, watched, object{"spec": object{
		"ingressClassName": "spillway",
		"rules": []any{object{"host": watched + ".example", "http": object{
			"paths": []any{object{"path": "/", "pathType": "Prefix", "backend": backend}},
		}}},
	}})
}

// watchedSlice has one endpoint, whose address is the number of the change.
// Nobody has that address: it is for looking at only.
func watchedSlice(number int) object {
	return named("discovery.k8s.io/v1", "EndpointSlice", watched, watched+"-1", object{
		"metadata":    object{"name": watched + "-1", "namespace": watched, "labels": object{"kubernetes.io/service-name": watched}},
		"addressType": "IPv4",
		"ports":       []any{object{"name": "http", "port": 8080, "protocol": "TCP"}},
		"endpoints":   []any{object{"addresses": []any{addressOf(number)}, "conditions": object{"ready": true}}},
	})
}

// Changes are numbered in the range of the member's pods, far from those.
const (
	firstByte = 100
	perByte   = 250
)

func addressOf(number int) string {
	return netip.AddrFrom4([4]byte{10, 1, byte(firstByte + number/perByte%100), byte(1 + number%perByte)}).String()
}

func numberOf(address string) (int, bool) {
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is4() {
		return 0, false
	}
	b := a.As4()
	if b[0] != 10 || b[1] != 1 || b[2] < firstByte {
		return 0, false
	}
	return int(b[2]-firstByte)*perByte + int(b[3]) - 1, true
}

// follow is a proxy of an edge that wants the endpoints of the service alone,
// and acknowledges all it gets.
func (w *watcher) follow(ctx context.Context, l *lab.Lab, xdsPort int) error {
	as, err := identity(l, honestEdge)
	if err != nil {
		return err
	}
	conn, err := dial(xdsPort, as)
	if err != nil {
		return err
	}
	str, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err == nil {
		err = str.Send(&discovery.DeltaDiscoveryRequest{
			Node: &core.Node{Id: "honest", Cluster: honestEdge}, TypeUrl: string(xds.ClusterLoadAssignment), ResourceNamesSubscribe: []string{assignment},
		})
	}
	if err == nil { // there is none: it has all it wants
		err = str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(xds.Listener), ResourceNamesSubscribe: []string{"none"}})
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	w.latest = -1
	go func() {
		defer conn.Close()
		for {
			r, err := str.Recv()
			if err == nil {
				w.take(time.Now(), r)
				err = str.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce})
			}
			if err != nil {
				w.end(err)
				return
			}
		}
	}()
	return nil
}

// identity is what a client of serve shows and trusts.
func identity(l *lab.Lab, edge string) (credentials.TransportCredentials, error) {
	pki := lab.PKI{Dir: filepath.Join(l.Dir(), "pki")}
	pair, err := tls.LoadX509KeyPair(pki.EdgeCert(edge), pki.EdgeKey(edge))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(pki.CA())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}), nil
}

// dial makes a connection of its own to serve.
func dial(xdsPort int, as credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", xdsPort), grpc.WithTransportCredentials(as), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
}

// take looks for the endpoint in a response. It stands for all changes up to
// its own: a control plane may leave out what is over.
func (w *watcher) take(now time.Time, r *discovery.DeltaDiscoveryResponse) {
	if r.TypeUrl != string(xds.ClusterLoadAssignment) {
		return
	}
	for _, one := range r.Resources {
		var a endpoint.ClusterLoadAssignment
		if one.Name != assignment || one.Resource == nil || one.Resource.UnmarshalTo(&a) != nil {
			continue
		}
		for _, locality := range a.Endpoints {
			for _, e := range locality.LbEndpoints {
				if n, ok := numberOf(e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()); ok {
					w.has(now, n)
				}
			}
		}
	}
}

func (w *watcher) has(now time.Time, number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest = max(w.latest, number)
	for n, began := range w.began {
		if n <= number {
			w.took = append(w.took, now.Sub(began))
			delete(w.began, n)
		}
	}
	w.wake()
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = err
	w.wake()
}

func (w *watcher) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits until is, which it calls under its lock, is true.
func (w *watcher) await(ctx context.Context, is func() bool) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		done, ended, missing := is(), w.ended, len(w.began)
		w.mu.Unlock()
		switch {
		case done:
			return nil
		case ended != nil:
			return fmt.Errorf("the honest proxy's stream ended: %w", ended)
		}
		select {
		case <-w.changed:
		case <-limited.Done():
			return fmt.Errorf("waited %s for %d endpoint changes at the honest proxy: %w", patience, missing, limited.Err())
		}
	}
}

// measure changes the endpoints until over says so, and returns how long each
// change took from the beginning of its write until the proxy had it, or
// something newer. Changes are written when they are due, not when the one
// before has come: a pause shows in all that were written meanwhile.
func (w *watcher) measure(ctx context.Context, over func(changes int) bool) (phase, error) {
	w.mu.Lock()
	w.took, w.wrote = nil, nil
	w.mu.Unlock()
	tick := time.NewTicker(changeEvery)
	defer tick.Stop()
	for n := 0; !over(n) && ctx.Err() == nil; n++ {
		<-tick.C
		w.number++
		w.mu.Lock()
		w.began[w.number] = time.Now()
		w.mu.Unlock()
		began := time.Now()
		if err := w.member.Patch(ctx, "EndpointSlice", watched, watched+"-1", object{"endpoints": watchedSlice(w.number)["endpoints"]}); err != nil {
			return phase{}, fmt.Errorf("change endpoints: %w", err)
		}
		w.wrote = append(w.wrote, time.Since(began))
	}
	if err := w.await(ctx, func() bool { return len(w.began) == 0 }); err != nil {
		return phase{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return times(w.took, w.wrote), nil
}
