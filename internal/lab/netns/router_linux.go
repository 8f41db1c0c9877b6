package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/spillway-dev/spillway/internal/eventually"
)

// The router answers on these addresses on every link: they are every
// attached Space's default gateway.
var (
	gateway4 = netip.MustParseAddr("169.254.1.1")
	gateway6 = netip.MustParseAddr("fe80::1")
)

// Router is the Space all others hang off: every attached address is a host
// route over a link of its own, so all traffic between two Spaces is forwarded
// by it and passes its faults.
type Router struct {
	*Space
	links atomic.Int64
	ipv6  bool
}

// NewRouter makes the router's Space and turns on forwarding.
func NewRouter(name string) (*Router, error) {
	s, err := New(name)
	if err != nil {
		return nil, err
	}
	r := &Router{Space: s}
	if err := s.Do(r.setup); err != nil {
		s.Close()
		return nil, fmt.Errorf("router: %w", err)
	}
	return r, nil
}

func (r *Router) setup() error {
	const forward4, forward6 = "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"
	if err := os.WriteFile(forward4, []byte("1"), 0); err != nil {
		return fmt.Errorf("turn on forwarding: %w", err)
	}
	_, err := os.Stat(forward6)
	r.ipv6 = err == nil
	if r.ipv6 {
		if err := os.WriteFile(forward6, []byte("1"), 0); err != nil {
			return fmt.Errorf("turn on IPv6 forwarding: %w", err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.AddrReplace(lo, hostAddr(gateway4))
}

// IPv6 tells whether this kernel has it; without it IPv6 addresses given to
// Attach are left out.
func (r *Router) IPv6() bool { return r.ipv6 }

// Attach links a Space to the router and gives it these addresses and a
// default route. The link goes away with the Space.
func (r *Router) Attach(s *Space, addrs ...netip.Addr) error {
	name := "v" + strconv.FormatInt(r.links.Add(1), 36)
	if err := r.Do(func() error { return r.link(name, s, addrs) }); err != nil {
		return fmt.Errorf("attach %s: %w", s.name, err)
	}
	if err := s.Do(func() error { return r.inside(addrs) }); err != nil {
		return fmt.Errorf("attach %s: %w", s.name, err)
	}
	if err := errors.Join(awaitUp(r.Space, name), awaitUp(s, "eth0")); err != nil {
		return fmt.Errorf("attach %s: %w", s.name, err)
	}
	return nil
}

// awaitUp waits until the kernel has noticed that both ends of a link are up.
// Packets sent before are lost, and a lost first SYN costs a second.
func awaitUp(s *Space, name string) error {
	return eventually.Patience{Most: 10 * time.Second, Poll: time.Millisecond}.Await(context.Background(), "link "+name, func(context.Context) error {
		return s.Do(func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return eventually.Never(err)
			}
			if is := link.Attrs().OperState; is != netlink.OperUp {
				return fmt.Errorf("it is %s", is)
			}
			return nil
		})
	})
}

// link is the router's half: a veth pair, up, with a route per address.
func (r *Router) link(name string, s *Space, addrs []netip.Addr) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(s.fd)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if r.ipv6 {
		if err := netlink.AddrReplace(link, linkAddr(gateway6)); err != nil {
			return fmt.Errorf("gateway address: %w", err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, a := range addrs {
		if a.Is6() && !r.ipv6 {
			continue
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: hostNet(a), Scope: netlink.SCOPE_LINK}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s: %w", a, err)
		}
	}
	return nil
}

// inside is the Space's half: addresses and the default routes.
func (r *Router) inside(addrs []netip.Addr) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.Is6() && !r.ipv6 {
			continue
		}
		if err := netlink.AddrReplace(link, hostAddr(a)); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, gw := range []netip.Addr{gateway4, gateway6} {
		if gw.Is6() && !r.ipv6 {
			continue
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gw.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("default route by %s: %w", gw, err)
		}
	}
	return nil
}

// skipDetection turns off IPv6 duplicate address detection, which would hold
// up a new link for a second. Without IPv6 there is nothing to turn off.
func skipDetection() {
	for _, scope := range []string{"all", "default"} {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+scope+"/accept_dad", []byte("0"), 0)
	}
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// hostNet is the prefix of one address.
func hostNet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// hostAddr is an address alone on its prefix, without duplicate detection: no
// two Spaces share one, and the detection would cost a second.
func hostAddr(a netip.Addr) *netlink.Addr {
	addr := &netlink.Addr{IPNet: hostNet(a)}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr
}

func linkAddr(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
}
