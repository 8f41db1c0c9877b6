package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/internal/dnsserver"
	"github.com/spillway-dev/spillway/internal/xds/hds"
)

// Config is what `spillway serve` is told.
type Config struct {
	Kubeconfig string
	Namespace  string // of serve itself: kubeconfig Secrets of members are here
	StateDir   string // checkpoint; empty: none
	StateKey   string // file of its key; empty: in StateDir
	AcceptHub  bool   // though it is not the hub, or the state of it, that the checkpoint knows

	SecretNamespaces []string // whose Secrets of type kubernetes.io/tls are read; empty: all

	XDSAddress  string // TCP with mTLS
	XDSSocket   string // unix socket, mode 0600
	XDSCert     string
	XDSKey      string
	XDSClientCA string
	TrustDomain string

	EnvoyXDS          bool // plaintext on loopback, for one's own machine
	EnvoyListenerPort int

	DNSAddresses []string
	DNSRateLimit int      // answers a second over UDP to a network, of one kind from one zone; 0: no limit
	Resolvers    []string // IP:PORT, that are asked where host names lead that leaves have; empty: those of the system
	GeoIP        string   // path of an mmdb file
	Places       string   // path of a CIDR-to-place table

	AdminAddress string
	AdminCert    string
	AdminKey     string

	ProbeInterval time.Duration // between two probes of an address; 0: the default. No flag: for measurements

	LogFormat string
	LogLevel  string
}

// reportTTL is how long a proxy's report about a member counts: some that are
// lost or late say nothing. One that is older says nothing either.
const reportTTL = max(10*time.Second, 5*hds.Slowest)

// flags declares the flags of `spillway serve`.
func (c *Config) flags(f *pflag.FlagSet) {
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub (default: $KUBECONFIG, then in-cluster)")
	f.StringVar(&c.Namespace, "namespace", "spillway-system", "namespace on the hub that serve is at home in: kubeconfig Secrets of members are read from it")
	f.StringSliceVar(&c.SecretNamespaces, "secret-namespaces", nil, "namespaces on the hub whose Secrets of type kubernetes.io/tls are read, each with rights of its own (default: all)")
	f.StringVar(&c.StateDir, "state-dir", "", "folder for the checkpoint, so that a restart goes on while hub or members are away")
	f.StringVar(&c.StateKey, "state-key-file", "", "file of the key that --state-dir is encrypted with, made at the first start (default: in that folder, which protects from nobody who has the folder)")
	f.BoolVar(&c.AcceptHub, "accept-hub", false, "for this start, take the hub as it is though it is another one than the checkpoint knows or was set back: what it does not have is deleted")
	f.StringVar(&c.XDSAddress, "xds-address", "", "TCP address for Envoy, with mTLS (needs --xds-cert, --xds-key, --xds-client-ca)")
	f.StringVar(&c.XDSSocket, "xds-socket", "", "unix socket for Envoy on this machine, made with mode 0600")
	f.StringVar(&c.XDSCert, "xds-cert", "", "server certificate of --xds-address")
	f.StringVar(&c.XDSKey, "xds-key", "", "its key")
	f.StringVar(&c.XDSClientCA, "xds-client-ca", "", "CA of the edges' client certificates")
	f.StringVar(&c.TrustDomain, "trust-domain", "spillway.local", "SPIFFE trust domain: an edge is spiffe://TRUST-DOMAIN/edge/NAME")
	f.BoolVar(&c.EnvoyXDS, "envoyxds", false, "serve Envoy in plaintext on loopback, without identity; for your own machine only")
	f.IntVar(&c.EnvoyListenerPort, "envoy-listener-port", 80, "with --envoyxds: HTTP port of classes that have no GatewayClassConfig")
	f.StringSliceVar(&c.DNSAddresses, "dns-address", []string{"127.0.0.1:1053"}, "UDP and TCP addresses to answer DNS on; empty: none")
	f.IntVar(&c.DNSRateLimit, "dns-rate-limit", dnsserver.DefaultRateLimit, "answers a second over UDP to a network (/24, /56) without a DNS cookie, of one kind from one zone; more are cut, for clients to come again over TCP; 0: no limit")
	f.StringSliceVar(&c.Resolvers, "resolvers", nil, "IP:PORT of resolvers that are asked where host names lead that members' controllers name as addresses (default: those of /etc/resolv.conf)")
	f.StringVar(&c.GeoIP, "geoip", "", "GeoIP database (mmdb) to find clients with; read again when it changes")
	f.StringVar(&c.Places, "places", "", "file that says where networks are, one CIDR, region, zone, latitude and longitude a line")
	f.StringVar(&c.AdminAddress, "admin-address", "127.0.0.1:18080", "health, metrics and read-only JSON; TLS and a hub token off loopback")
	f.StringVar(&c.AdminCert, "admin-cert", "", "certificate of --admin-address")
	f.StringVar(&c.AdminKey, "admin-key", "", "its key")
	f.StringVar(&c.LogFormat, "log-format", "text", "text or json")
	f.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
}

// defaultXDS is where --envoyxds listens if --xds-address does not say.
const defaultXDS = "127.0.0.1:18000"

// validate reports the first thing wrong with the flags, and what to do.
func (c *Config) validate() error {
	mtls := c.XDSCert != "" || c.XDSKey != "" || c.XDSClientCA != ""
	switch {
	case mtls && (c.XDSCert == "" || c.XDSKey == "" || c.XDSClientCA == ""):
		return errors.New("mTLS needs all of --xds-cert, --xds-key and --xds-client-ca")
	case mtls && c.EnvoyXDS:
		return errors.New("--envoyxds is plaintext: leave it out, or --xds-cert and the rest")
	case c.XDSAddress != "" && !mtls && !c.EnvoyXDS:
		return errors.New("--xds-address needs --xds-cert, --xds-key and --xds-client-ca (or --xds-socket instead, or --envoyxds on loopback)")
	case c.XDSAddress == "" && mtls:
		return errors.New("--xds-cert needs --xds-address")
	case c.StateKey != "" && c.StateDir == "":
		return errors.New("--state-key-file needs --state-dir")
	case (c.AdminCert == "") != (c.AdminKey == ""):
		return errors.New("--admin-cert and --admin-key go together")
	case c.DNSRateLimit < 0:
		return fmt.Errorf("--dns-rate-limit %d: use 1 or more, or 0 for no limit", c.DNSRateLimit)
	case c.EnvoyListenerPort < 1 || c.EnvoyListenerPort > 65535:
		return fmt.Errorf("--envoy-listener-port %d: use 1 to 65535", c.EnvoyListenerPort)
	}
	if err := c.validateNames(); err != nil {
		return err
	}
	if c.EnvoyXDS && c.XDSAddress == "" {
		c.XDSAddress = defaultXDS
	}
	if c.EnvoyXDS {
		host, _, err := net.SplitHostPort(c.XDSAddress)
		if ip, bad := netip.ParseAddr(host); err != nil || bad != nil || !ip.IsLoopback() {
			return fmt.Errorf("--envoyxds is plaintext and --xds-address %s is not loopback: use 127.0.0.1, or mTLS", c.XDSAddress)
		}
	}
	admin, err := netip.ParseAddrPort(c.AdminAddress)
	switch {
	case err != nil:
		return fmt.Errorf("--admin-address %q: use IP:PORT: %w", c.AdminAddress, err)
	case !admin.Addr().IsLoopback() && c.AdminCert == "":
		return fmt.Errorf("--admin-address %s is not loopback: give --admin-cert and --admin-key, or use 127.0.0.1", admin)
	}
	return nil
}

// validateNames checks namespaces, the trust domain, the path of the socket and the resolvers.
func (c *Config) validateNames() error {
	for i, namespace := range c.SecretNamespaces {
		switch bad := validation.IsDNS1123Label(namespace); {
		case len(bad) > 0:
			return fmt.Errorf("--secret-namespaces %q is no namespace: %s", namespace, bad[0])
		case slices.Contains(c.SecretNamespaces[:i], namespace):
			return fmt.Errorf("--secret-namespaces has %s twice", namespace)
		}
	}
	for _, r := range c.Resolvers {
		if _, err := netip.ParseAddrPort(r); err != nil {
			return fmt.Errorf("--resolvers %s: use IP:PORT, such as 192.0.2.53:53", r)
		}
	}
	if td, err := spiffeid.TrustDomainFromString(c.TrustDomain); c.TrustDomain != "" && (err != nil || td.Name() != c.TrustDomain) {
		return fmt.Errorf("--trust-domain %q is none: use lower-case letters, digits, '.', '-' and '_', such as spillway.local", c.TrustDomain)
	}
	if c.XDSSocket != "" && !filepath.IsAbs(c.XDSSocket) {
		return fmt.Errorf("--xds-socket %s is not an absolute path: serve and its proxies may start in other folders", c.XDSSocket)
	}
	return nil
}
