package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
	"github.com/spillway-dev/spillway/internal/lab/user"
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
	hub     *user.Cluster
	members map[string]*user.Cluster
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
