package apiserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
)

// Config says what Run runs. DataDir is required, all else has a default.
type Config struct {
	// DataDir holds all state. It is made with mode 0700 when absent.
	DataDir string

	// Address to serve on, loopback only. Port 0 picks a free port on the
	// first start and keeps it on later ones. The zero value is 127.0.0.1:0.
	Address netip.AddrPort

	// KubeconfigPath is where the administrator's kubeconfig goes, mode 0600.
	// The default is admin.kubeconfig below DataDir.
	KubeconfigPath string

	// Name of the cluster, user and context in the kubeconfig; "hub" by default.
	Name string

	// Workloads runs the controllers that Deployments and EndpointSlices need.
	Workloads bool

	// CRDs makes it a hub: it installs the kinds of group spillway.dev and of the
	// Gateway API, and the role of `spillway serve` with a kubeconfig.
	CRDs bool

	// Exports installs the kind by which a member exports Services (ServiceExport).
	Exports bool

	// NoGatewayAPI leaves out the kinds of the Gateway API: somebody else installs
	// those of another version.
	NoGatewayAPI bool

	// OpenShiftRoutes installs Routes of OpenShift, unless somebody else has.
	OpenShiftRoutes bool

	// ServiceCIDR is where cluster IPs come from; 10.96.0.0/16 by default.
	ServiceCIDR string

	// UnsafeNoFsync has the database not wait until the disk has a write: etcd's
	// option of that name. Killed, it loses nothing; a machine that crashes may
	// leave no database behind.
	UnsafeNoFsync bool

	// Log takes warnings and errors; slog.Default() when nil.
	Log *slog.Logger
}

// ServeKubeconfig is where the kubeconfig of `spillway serve` goes, mode 0600: it
// may do what deploy/rbac/hub.yaml says.
func (c Config) ServeKubeconfig() string { return filepath.Join(c.DataDir, "serve.kubeconfig") }

// withDefaults returns c complete and checked, its paths absolute.
func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		return c, errors.New("no data directory: give --data-dir")
	}
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return c, fmt.Errorf("data directory: %w", err)
	}
	if c.KubeconfigPath == "" {
		c.KubeconfigPath = filepath.Join(c.DataDir, "admin.kubeconfig")
	}
	if c.KubeconfigPath, err = filepath.Abs(c.KubeconfigPath); err != nil {
		return c, fmt.Errorf("kubeconfig: %w", err)
	}
	if !c.Address.IsValid() {
		c.Address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), c.Address.Port())
	}
	if !c.Address.Addr().IsLoopback() {
		return c, fmt.Errorf("address %s is not on loopback: the embedded API server is for this machine only, use 127.0.0.1 or ::1", c.Address.Addr())
	}
	if c.Name == "" {
		c.Name = "hub"
	}
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = "10.96.0.0/16"
	}
	cidr, err := netip.ParsePrefix(c.ServiceCIDR)
	if err != nil {
		return c, fmt.Errorf("service CIDR %q: give a prefix such as 10.96.0.0/16: %w", c.ServiceCIDR, err)
	}
	c.ServiceCIDR = cidr.Masked().String()
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, nil
}
