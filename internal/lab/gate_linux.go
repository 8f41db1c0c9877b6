package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/discovery/v1"

	"github.com/spillway-dev/spillway/internal/lab/forward"
	"github.com/spillway-dev/spillway/internal/lab/netns"
)

// gate is where a member that runs an ingress controller meets what is outside: a namespace
// in its network. Its pods find the API server and Contour there, since no Service has an
// address that works; clients come in through it, as through a cloud's load balancer.
// Nothing else leads into a member that is apart.
type gate struct {
	space  *netns.Space
	addr   netip.Addr
	slices listers.EndpointSliceNamespaceLister
	next   atomic.Uint32
	inside []*forward.TCP // for the member's pods
	public []*forward.TCP // for clients: cut with the member's data
	stop   context.CancelFunc
}

// gateAddr is in the member's network and in that of no node.
func (m *member) gateAddr() netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(m.index), 0, 2})
}

// openGate makes a member's gate and opens it to the member's own pods.
func (s *supervisor) openGate(ctx context.Context, m *member, client kubernetes.Interface) (*gate, error) {
	space, err := netns.New("gate-" + m.spec.Name)
	if err != nil {
		return nil, err
	}
	g := &gate{space: space, addr: m.gateAddr()}
	watching, stop := context.WithCancel(context.Background())
	g.stop = stop
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(contourNamespace))
	g.slices = factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(contourNamespace)
	factory.Start(watching.Done())
	if err := s.furnishGate(g, m); err != nil {
		g.close()
		return nil, err
	}
	factory.WaitForCacheSync(ctx.Done())
	return g, ctx.Err()
}

func (s *supervisor) furnishGate(g *gate, m *member) error {
	if err := s.router.Attach(g.space, g.addr); err != nil {
		return err
	}
	api := netip.AddrPortFrom(localhost, m.api.port)
	for at, dial := range map[uint16]func(context.Context) (net.Conn, error){
		gateAPI: func(ctx context.Context) (net.Conn, error) { return s.host.Dial(ctx, netip.Addr{}, api) },
		gateXDS: func(ctx context.Context) (net.Conn, error) { return g.dial(ctx, contourService, "xds") },
	} {
		f, err := forward.ListenTCP(func() (net.Listener, error) { return g.space.Listen(netip.AddrPortFrom(g.addr, at)) }, dial)
		if err != nil {
			return fmt.Errorf("gate of %s: %w", m.spec.Name, err)
		}
		g.inside = append(g.inside, f)
	}
	return nil
}

// dial connects to a pod of a Service that is ready, one after another.
func (g *gate) dial(ctx context.Context, service, port string) (net.Conn, error) {
	to, err := g.ready(service, port)
	if err != nil {
		return nil, err
	}
	return g.space.Dial(ctx, netip.Addr{}, to[int(g.next.Add(1))%len(to)])
}

// ready are the pods of a Service that are; an error if there is none.
func (g *gate) ready(service, port string) ([]netip.AddrPort, error) {
	slices, err := g.slices.List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return nil, err
	}
	if out := readyIn(slices, port); len(out) > 0 {
		return out, nil
	}
	return nil, fmt.Errorf("no pod of Service %s/%s is ready", contourNamespace, service)
}

// readyIn are the addresses of IPv4 with a port of that name.
func readyIn(slices []*discoveryv1.EndpointSlice, port string) (out []netip.AddrPort) {
	for _, s := range slices {
		if s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for _, p := range s.Ports {
			if p.Name == nil || *p.Name != port || p.Port == nil {
				continue
			}
			for _, e := range s.Endpoints {
				if a, err := netip.ParseAddr(e.Addresses[0]); err == nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
					out = append(out, netip.AddrPortFrom(a, uint16(*p.Port)))
				}
			}
		}
	}
	return out
}

// publishGate opens a member's gate to clients, on the host and in places.
func (s *supervisor) publishGate(m *member) error {
	at := s.spec.IngressAddress(m.spec.Name)
	usual := EdgeSpec{HTTPPort: defaultHTTP, HTTPSPort: defaultHTTPS}
	open := func(in *netns.Space, place bool) error {
		for _, p := range s.spec.doors(usual, place) {
			port := map[uint16]string{defaultHTTP: "http", defaultHTTPS: "https"}[p.to]
			f, err := forward.ListenTCP(
				func() (net.Listener, error) { return in.Listen(netip.AddrPortFrom(at, p.at)) },
				func(ctx context.Context) (net.Conn, error) { return m.gate.dial(ctx, envoyService, port) })
			if err != nil {
				return fmt.Errorf("ingress of %s in %s: %w: is another lab running? Give this one --loopback, such as 127.1", m.spec.Name, in.Name(), err)
			}
			m.gate.public = append(m.gate.public, f)
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := open(s.host, false)
	for _, p := range s.places {
		if err == nil && p.client {
			err = open(p.space, true)
		}
	}
	return err
}

// setCut cuts the way of clients into the member, or heals it. A gate may be nil.
func (g *gate) setCut(mode forward.Mode) error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, f := range g.public {
		errs = append(errs, f.Set(mode))
	}
	return errors.Join(errs...)
}

func (g *gate) close() {
	g.stop()
	for _, f := range append(g.inside, g.public...) {
		f.Close()
	}
	g.space.Close()
}
