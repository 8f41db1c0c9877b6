package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/tied"
)

const (
	adminAddress = "127.0.0.1:18080"
	// patience is how long the soak waits for something that must come. It is
	// generous: a slow machine is no failure.
	patience  = 2 * time.Minute
	pollEvery = 20 * time.Millisecond
)

// fleet is everything that runs, and how to look at it and break it.
type fleet struct {
	lab     *lab.Lab
	serve   *tied.Program
	hub     *cluster
	members []*cluster
	fronts  []*front
	ca      *ca
}

// raise starts everything but the objects; close ends it, also what an error
// left half done. fail is told when something ends by itself.
func (f *fleet) raise(ctx context.Context, o options, fail func(error)) (err error) {
	if f.ca, err = newCA(); err != nil {
		return err
	}
	spec := lab.DefaultSpec()
	spec.Dir, spec.Binary = o.dir, o.binary
	if f.lab, err = lab.Start(ctx, spec, nil); err != nil {
		return err
	}
	go func() {
		select {
		case <-f.lab.Done():
			fail(errors.New("the lab ended by itself"))
		case <-ctx.Done():
		}
	}()
	if err := f.raiseServe(o.binary, fail); err != nil {
		return err
	}
	if f.hub, err = openCluster("the hub", f.lab.HubKubeconfig()); err != nil {
		return err
	}
	for _, m := range spec.Members {
		c, err := openCluster(m.Name, f.lab.MemberKubeconfig(m.Name))
		if err != nil {
			return err
		}
		f.members = append(f.members, c)
	}
	for _, e := range spec.Edges {
		http, https := f.lab.EdgePorts(e.Name)
		f.fronts = append(f.fronts, newFront(e.Name, f.lab.EdgeAddress(e.Name), http, https, f.ca.pool))
	}
	return nil
}

// raiseServe starts the control plane, with nothing from an earlier run.
func (f *fleet) raiseServe(binary string, fail func(error)) error {
	path, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	in := func(parts ...string) string { return filepath.Join(append([]string{f.lab.Dir()}, parts...)...) }
	if err := errors.Join(os.RemoveAll(in("state")), os.RemoveAll(in("logs", "serve.log"))); err != nil {
		return err
	}
	pki := f.lab.PKI()
	f.serve = &tied.Program{
		Name: "spillway serve", Path: path, Log: in("logs", "serve.log"), Failed: fail,
		Args: []string{
			"serve", "--kubeconfig", f.lab.HubKubeconfig(), "--namespace", lab.SystemNamespace, "--state-dir", in("state"),
			"--xds-address", fmt.Sprintf("127.0.0.1:%d", f.lab.XDSPort()), "--xds-cert", pki.ServeCert(), "--xds-key", pki.ServeKey(),
			"--xds-client-ca", pki.CA(), "--trust-domain", lab.TrustDomain,
			"--dns-address", fmt.Sprintf("127.0.0.1:%d", f.lab.DNSPort()), "--admin-address", adminAddress,
		},
	}
	return f.serve.Start()
}

// close ends everything, the control plane first.
func (f *fleet) close() error {
	var errs []error
	for _, x := range f.fronts {
		x.close()
	}
	if f.serve != nil {
		errs = append(errs, f.serve.Stop())
	}
	if f.lab != nil {
		errs = append(errs, f.lab.Close(), os.RemoveAll(filepath.Join(f.lab.Dir(), "state")))
	}
	return errors.Join(errs...)
}

// await asks until check is content, for as long as patience.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var seen error
	for {
		err := check(limited)
		if err == nil {
			return nil
		}
		if seen == nil || limited.Err() == nil { // else it says only that time is up
			seen = err
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("waited %s for %s: %w", patience, what, seen)
		}
	}
}

// rest pauses, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// write applies objects, however long the API server is away.
func write(ctx context.Context, c *cluster, objects ...object) error {
	for _, o := range objects {
		if err := await(ctx, c.name+" to take an object", func(ctx context.Context) error { return c.apply(ctx, o) }); err != nil {
			return err
		}
	}
	return nil
}

// erase deletes an object, however long the API server is away.
func erase(ctx context.Context, c *cluster, kind, namespace, name string) error {
	return await(ctx, c.name+" to delete an object", func(ctx context.Context) error { return c.remove(ctx, kind, namespace, name) })
}

// answers waits until a target is answered so at every edge.
func (f *fleet) answers(ctx context.Context, t *target, want ...string) error {
	for _, x := range f.fronts {
		if err := await(ctx, fmt.Sprintf("%s to be %q at edge %s", t, want, x.edge), func(ctx context.Context) error {
			got := request{edge: x, target: t, fresh: true}.send(ctx).answer
			for _, w := range want {
				if got == w {
					return nil
				}
			}
			return fmt.Errorf("it is %s", got)
		}); err != nil {
			return err
		}
	}
	return nil
}

// look reads a page of an admin listener.
func look(ctx context.Context, address, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %.200s", path, resp.StatusCode, body)
	}
	return body, err
}

// finding is what is wrong with an object.
type finding struct {
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (f finding) String() string { return f.Object + " " + f.Reason + ": " + f.Message }

func (f *fleet) findings(ctx context.Context) (all []finding, err error) {
	body, err := look(ctx, adminAddress, "/v1/findings")
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(body, &all)
}

// found waits for a finding about an object.
func (f *fleet) found(ctx context.Context, object, reason string) error {
	return await(ctx, fmt.Sprintf("a finding %s about %s", reason, object), func(ctx context.Context) error {
		all, err := f.findings(ctx)
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.Reason == reason && strings.Contains(one.Object, object) {
				return nil
			}
		}
		return fmt.Errorf("there are %v", all)
	})
}

// inSync is nil when every edge has one stream that acknowledged all.
func (f *fleet) inSync(ctx context.Context) error {
	body, err := look(ctx, adminAddress, "/v1/streams")
	if err != nil {
		return err
	}
	var streams []struct {
		Edge   string `json:"edge"`
		InSync bool   `json:"inSync"`
	}
	if err := json.Unmarshal(body, &streams); err != nil {
		return err
	}
	in := map[string]bool{}
	for _, s := range streams {
		in[s.Edge] = in[s.Edge] || s.InSync
	}
	for _, x := range f.fronts {
		if !in[x.edge] {
			return fmt.Errorf("edge %s is not in sync: %s", x.edge, body)
		}
	}
	return nil
}
