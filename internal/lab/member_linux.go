package lab

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/spillway-dev/spillway/internal/lab/kubelet"
	"github.com/spillway-dev/spillway/internal/lab/netns"
	"github.com/spillway-dev/spillway/internal/lab/sandbox"
	"github.com/spillway-dev/spillway/internal/lab/user"
)

// member is one member cluster: its API server and its kubelet.
type member struct {
	spec    MemberSpec
	index   int // from 1: the second byte of its pods' addresses
	api     *api
	kubelet *kubelet.Kubelet
	gate    *gate // of a member that runs Contour; guarded by supervisor.mu until all is up
	dataCut Mode  // guarded by supervisor.mu
}

// podNet4 is the range of all the member's pods, podNet6 its twin in IPv6.
func (m *member) podNet4() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(m.index), 0, 0}), 16)
}

func (m *member) podNet6() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x10, 0, byte(m.index)}), 32)
}

// startMember starts a member's API server and kubelet and returns when its
// nodes are registered.
func (s *supervisor) startMember(ctx, fleet context.Context, i int, kubelets *sync.WaitGroup) error {
	m := &member{spec: s.spec.Members[i], index: i + 1}
	a, err := s.memberAPI(ctx, m.spec)
	if err != nil {
		return err
	}
	m.api = a
	logs, volumes := s.path("logs", "members", m.spec.Name), s.path("run", "volumes", m.spec.Name)
	for _, d := range []string{logs, volumes} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	client, err := clientFor(a.direct)
	if err != nil {
		return err
	}
	served, err := s.logServer(a.direct)
	if err != nil {
		return err
	}
	m.kubelet = kubelet.New(kubelet.Config{
		Client: client, Member: m.spec.Name, Nodes: m.nodes(s.router.IPv6()), Images: s.spec.Images,
		Runtime: &sandbox.Runtime{Router: s.router, Root: s.path("run", "root")},
		LogDir:  logs, Logs: served, Volumes: volumes, Log: s.log,
	})
	s.mu.Lock()
	s.members[i] = m
	s.mu.Unlock()
	ready, failed := make(chan struct{}), make(chan error, 1)
	kubelets.Go(func() { failed <- m.kubelet.Run(fleet, func() { close(ready) }) })
	select {
	case <-ready:
		if m.spec.Contour {
			return s.startContour(ctx, m, client)
		}
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// memberAPI is the member's API server: one of its own, or the hub's.
func (s *supervisor) memberAPI(ctx context.Context, m MemberSpec) (*api, error) {
	kubeconfig := memberKubeconfig(s.spec.Dir, m.Name)
	if !m.OnHub {
		return s.startAPI(ctx, m.Name, kubeconfig, "--workloads", "--crds=false", "--exports")
	}
	select {
	case <-s.hubUp:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.hub, redirectKubeconfig(s.hub.direct, kubeconfig, s.hub.server)
}

// logServer is where the API server of a kubeconfig finds logs: on the host.
func (s *supervisor) logServer(kubeconfig string) (*kubelet.LogServer, error) {
	cfg, err := user.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(cfg.CAData) {
		return nil, fmt.Errorf("no CA in %s", kubeconfig)
	}
	port, err := s.freePort()
	if err != nil {
		return nil, err
	}
	l, err := s.host.Listen(netip.AddrPortFrom(localhost, uint16(port)))
	return &kubelet.LogServer{Listener: l, Clients: clients}, err
}

// nodes are the member's nodes, one per zone, with a /24 each.
func (m *member) nodes(ipv6 bool) []kubelet.Node {
	var out []kubelet.Node
	for z, zone := range m.spec.Zones {
		n := kubelet.Node{
			Name: fmt.Sprintf("%s-node-%d", m.spec.Name, z+1), Region: m.spec.Region, Zone: zone,
			Address: netip.AddrFrom4([4]byte{10, byte(m.index), byte(z + 1), 1}),
			Pods4:   netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(m.index), byte(z + 1), 0}), 24),
		}
		if ipv6 {
			n.Pods6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x10, 0, byte(m.index), 0, byte(z + 1)}), 64)
		}
		out = append(out, n)
	}
	return out
}

// applyCuts makes the router's faults those of all members; the caller holds mu.
func (s *supervisor) applyCuts() error {
	var cuts []netns.Cut
	for _, m := range s.members {
		if m == nil || m.dataCut == "" && !m.spec.Apart {
			continue
		}
		cuts = append(cuts, netns.Cut{Inside: m.podNet4(), Refuse: m.dataCut == ModeRefuse})
		if s.router.IPv6() {
			cuts = append(cuts, netns.Cut{Inside: m.podNet6(), Refuse: m.dataCut == ModeRefuse})
		}
	}
	return s.router.SetCuts(cuts)
}
