package demo

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
)

// The fleet of lab.DefaultSpec, and what the examples put on it.
var (
	edges   = []string{"eu", "us"}
	members = []string{"eu-1", "eu-2", "us-1"}
	// nearest is the member that an edge prefers, second the one after it.
	nearest = map[string]string{"eu": "eu-1", "us": "us-1"}
	second  = map[string]string{"eu": "eu-2"}
	// places are the sub-zones of the edges.
	places = map[string]string{"eu": "fra", "us": "nyc"}
)

const (
	shopHost  = "shop.example"
	namespace = "shop"
	ingress   = "shop"
	workload  = "web" // Deployment, Service and label app in each member
)

// fleet is everything that runs, and how to look at it and break it.
type fleet struct {
	opts    Options
	tell    *teller
	lab     *lab.Lab
	serve   *tied.Program
	admin   *admin
	hub     *cluster
	members map[string]*cluster
	began   time.Time
	end     context.CancelCauseFunc
}

func (f *fleet) path(parts ...string) string {
	return filepath.Join(append([]string{f.opts.Dir}, parts...)...)
}

// shown is a path of the lab as one would type it.
func (f *fleet) shown(parts ...string) string {
	path := f.path(parts...)
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// close ends everything, the control plane first.
func (f *fleet) close() error {
	var errs []error
	if f.serve != nil {
		errs = append(errs, f.serve.Stop())
	}
	if f.lab != nil {
		errs = append(errs, f.lab.Close())
	}
	errs = append(errs, os.RemoveAll(f.path("state")))
	return errors.Join(errs...)
}

// newServe is the control plane with all it needs to know of the lab.
func (f *fleet) newServe() (*tied.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pki := lab.PKI{Dir: f.path("pki")}
	return &tied.Program{
		Name: "spillway serve", Path: self, Log: f.path("logs", "serve.log"), Failed: func(err error) { f.end(err) },
		Args: []string{
			"serve", "--kubeconfig", f.path("hub.kubeconfig"), "--namespace", lab.SystemNamespace, "--state-dir", f.path("state"),
			"--xds-address", f.opts.xds(), "--xds-cert", pki.ServeCert(), "--xds-key", pki.ServeKey(), "--xds-client-ca", pki.CA(),
			"--trust-domain", lab.TrustDomain, "--dns-address", f.opts.dns(), "--admin-address", f.opts.admin(), "--places", f.path("places"),
		},
	}, nil
}

// front is where an edge serves HTTP, as the host sees it.
func (f *fleet) front(edge string) netip.AddrPort {
	port, _ := f.lab.EdgePorts(edge)
	return netip.AddrPortFrom(f.lab.EdgeAddress(edge), uint16(port))
}

// fronts are those of several edges.
func (f *fleet) fronts(of []string) map[string]netip.AddrPort {
	out := map[string]netip.AddrPort{}
	for _, edge := range of {
		out[edge] = f.front(edge)
	}
	return out
}
