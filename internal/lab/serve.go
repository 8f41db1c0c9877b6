package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillway-dev/spillway/internal/lab/tied"
)

// Serve is the control plane of a lab of this spec, ready to start as soon as
// the hub is up, with nothing from an earlier run in DIR/state. Its admin listener is at
// admin, IP:PORT. failed is told when it ends though nobody asked for it; more
// are more flags.
func (s Spec) Serve(admin string, failed func(error), more ...string) (*tied.Program, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	state, log := filepath.Join(s.Dir, "state"), filepath.Join(s.Dir, "logs", "serve.log")
	if err := errors.Join(os.RemoveAll(state), os.RemoveAll(log)); err != nil {
		return nil, err
	}
	return &tied.Program{
		Name: "spillway serve", Path: s.Binary, Log: log, Failed: failed,
		Args: append(append(s.serveArgs(s.Dir), "--namespace", SystemNamespace, "--admin-address", admin), more...),
	}, nil
}

// serveArgs is the command line of a control plane for the lab in dir.
func (s Spec) serveArgs(dir string) []string {
	pki := PKI{filepath.Join(dir, "pki")}
	args := []string{
		"serve", "--kubeconfig", serveKubeconfig(dir), "--state-dir", filepath.Join(dir, "state"),
		"--xds-address", onLocalhost(s.XDSPort), "--xds-cert", pki.ServeCert(), "--xds-key", pki.ServeKey(), "--xds-client-ca", pki.CA(),
		"--trust-domain", TrustDomain, "--dns-address", onLocalhost(s.DNSPort),
	}
	if at := s.NamesAddress(); at.IsValid() {
		args = append(args, "--resolvers", at.String())
	}
	return args
}

const placesName = "places"

func placesFile(dir string) string { return filepath.Join(dir, placesName) }

// PlacesFile says where the lab's clients are, for `spillway serve --places`.
func (s Spec) PlacesFile() string { return placesFile(cmp.Or(s.Dir, defaultDir)) }

// placesText is what it says: a client is where the edge beside it is.
func (s Spec) placesText() string {
	var b strings.Builder
	b.WriteString("# what serve sees the clients in a place as, and where that is: network, region, zone, latitude, longitude\n")
	for i, e := range s.Edges {
		fmt.Fprintf(&b, "%s %s %s %v %v # %s\n", s.loopback(sourceNet, 2*(i+1)), cmp.Or(e.Region, "-"), cmp.Or(e.Zone, "-"), e.Latitude, e.Longitude, e.Place)
	}
	return b.String()
}

// invitation says how to run the control plane of the lab, as a shell takes it.
func (s Spec) invitation(dir string) string {
	return "spillway " + strings.Join(append(s.serveArgs(dir), "--places", placesFile(dir)), " ")
}

func onLocalhost(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
