package envoy

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/rbac/matchers/upstream_ip_port/v3"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/steer"
)

// leadsTo is a rig whose host out.example is an ExternalName.
func leadsTo(t *testing.T, protocol, name string, port uint16) *rig {
	r := oneHost(t, newPod(t, "web@eu-1/0"), "")
	r.commit(func(tx *inc.Tx) {
		def := target("web", "shop/out/http")
		r.host(tx, testClass, "out.example", &def)
		use := r.use(tx, testView, "shop/out/http", protocol)
		r.p.Backends.Set(tx, use.backend, fleet.Backend{AppProtocol: protocol, External: true})
	})
	r.lead(name, port)
	r.settled(t)
	return r
}

func (r *rig) lead(name string, port uint16) {
	r.commit(func(tx *inc.Tx) {
		r.p.Groups.Set(tx, fleet.GroupID{Backend: backend("shop/out/http"), Member: "eu-1"}, fleet.Group{Rare: &fleet.RareGroup{External: name, Port: port}})
		r.plan(tx, testView, "shop/out/http", share("eu-1", 0))
	})
}

var outRequest = request{host: "out.example", path: "/"}

// ownAddress is an address of this machine that is not loopback.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("this machine has no address but loopback")
	return netip.Addr{}
}

// The proxy itself looks the name of an ExternalName Service up.
func TestExternalName(t *testing.T) {
	outside := newPodAt(t, "outside", ownAddress(t))
	for _, protocol := range []string{"", "h2c"} {
		r := leadsTo(t, protocol, outside.addr.Addr().String(), outside.addr.Port())
		if got := r.ask(t, outRequest); got.status != 200 || got.by != "outside" {
			t.Errorf("%q: %+v", protocol, got)
		}
		r.commit(func(tx *inc.Tx) { // the nearest fails, and keeps its priority
			group, _ := r.p.Groups.Get(nil, fleet.GroupID{Backend: backend("shop/out/http"), Member: "eu-1"})
			r.p.Groups.Set(tx, fleet.GroupID{Backend: backend("shop/out/http"), Member: "us-1"}, group)
			failed := share("eu-1", 0)
			failed.State = steer.Failed
			r.plan(tx, testView, "shop/out/http", failed, share("us-1", 1))
		})
		r.settled(t)
		if got := r.ask(t, outRequest); got.status != 200 || got.by != "outside" {
			t.Errorf("%q, where the nearest failed: %+v", protocol, got)
		}
	}
}

// A name that leads to the edge's own machine, or to what its link keeps for
// it, is refused by the proxy: nothing is sent there, and other hosts don't notice.
func TestExternalNameOfOwnMachine(t *testing.T) {
	inside := newPod(t, "inside")
	for _, protocol := range []string{"", "h2c"} {
		r := leadsTo(t, protocol, "localhost", inside.addr.Port())
		for _, name := range []string{"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "0.0.0.0", "169.254.169.254", "::1", "::ffff:127.0.0.1"} {
			r.lead(name, inside.addr.Port())
			r.settled(t)
			for _, method := range []string{"GET", "POST"} {
				got := r.ask(t, request{method: method, host: "out.example", path: "/", body: strings.NewReader("x")})
				if got.status != 403 {
					t.Errorf("%s %s %s: %+v", protocol, method, name, got)
				}
			}
		}
		if got := r.ask(t, shopRequest); got.status != 200 {
			t.Errorf("another host: %+v", got)
		}
		if stats := r.proc.Stats(t, "cluster.shop/out/http"); !strings.Contains(stats, ".rbac.denied: ") {
			t.Errorf("nothing is counted: %s", stats)
		}
	}
	if n := inside.seen.Load(); n > 0 {
		t.Errorf("%d requests came in", n)
	}
}

// Metadata services outside link-local are on the proxy's list, too. Nothing is
// sent to them here: a machine of a cloud would answer.
func TestExternalNameOfMetadata(t *testing.T) {
	var filter filterv3.RBAC
	if err := outside()[0].GetTypedConfig().UnmarshalTo(&filter); err != nil {
		t.Fatal(err)
	}
	policy := filter.Rules.Policies["nowhere"]
	if filter.Rules.Action != rbacv3.RBAC_DENY || len(filter.Rules.Policies) != 1 || !policy.Principals[0].GetAny() {
		t.Fatalf("%v", filter.Rules)
	}
	denied := func(ip netip.Addr) bool {
		for _, p := range policy.Permissions {
			var m upstreamv3.UpstreamIpPortMatcher
			if err := p.GetMatcher().TypedConfig.UnmarshalTo(&m); err != nil {
				t.Fatal(err)
			}
			if netip.PrefixFrom(netip.MustParseAddr(m.UpstreamIp.AddressPrefix), int(m.UpstreamIp.PrefixLen.Value)).Contains(ip) {
				return true
			}
		}
		return false
	}
	for text, want := range map[string]bool{
		"169.254.169.254": true, "fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true, "100.100.100.201": false, "198.51.100.1": false,
	} {
		if got := denied(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: denied %v, want %v", text, got, want)
		}
	}
}
