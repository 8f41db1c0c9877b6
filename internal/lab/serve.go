package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	state, log, pki := filepath.Join(s.Dir, "state"), filepath.Join(s.Dir, "logs", "serve.log"), PKI{filepath.Join(s.Dir, "pki")}
	if err := errors.Join(os.RemoveAll(state), os.RemoveAll(log)); err != nil {
		return nil, err
	}
	return &tied.Program{
		Name: "spillway serve", Path: s.Binary, Log: log, Failed: failed,
		Args: append([]string{
			"serve", "--kubeconfig", serveKubeconfig(s.Dir), "--namespace", SystemNamespace, "--state-dir", state,
			"--xds-address", onLocalhost(s.XDSPort), "--xds-cert", pki.ServeCert(), "--xds-key", pki.ServeKey(), "--xds-client-ca", pki.CA(),
			"--trust-domain", TrustDomain, "--dns-address", onLocalhost(s.DNSPort), "--admin-address", admin,
		}, more...),
	}, nil
}

func onLocalhost(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
