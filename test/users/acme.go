package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// secured is an object whose host gets a certificate.
type secured struct {
	kind, name, host string
	solver           string    // kind of what leads to a solver's pod
	targets          []*target // its HTTPS, at each edge
	told             func(context.Context) error
	issued           []int64 // serial numbers of its certificates, the last in use
	shown            serials // those that clients of the load saw
}

// wrong is nil if clients were shown certificates of the host alone.
func (s *secured) wrong() error {
	for _, n := range s.shown.all() {
		if !slices.Contains(s.issued, n) {
			return fmt.Errorf("clients of %s were shown certificate %x; it had %x", s.host, uint64(n), s.issued)
		}
	}
	return nil
}

// acme has cert-manager get certificates from an authority and renew them, by the HTTP-01
// challenge: for a listener of a Gateway, and for an Ingress.
func (w *world) acme(ctx context.Context) error {
	p, err := programPaths()
	if err != nil {
		return err
	}
	a, err := w.newAuthority(ctx, fra, p)
	if err != nil {
		return err
	}
	client := guest{"cert-manager", nyc, []string{p.certManager, "controller", "--kubeconfig", w.Lab.HubKubeconfig(), "--acme-http01-solver-image", solverImage}}
	return w.beside(ctx, []guest{a.guest, client}, func(ctx context.Context) error {
		if err := w.hireAuthority(ctx, a); err != nil {
			return err
		}
		return w.acmeUnderLoad(ctx)
	})
}

// hireAuthority makes issuers of it, and clients trust it.
func (w *world) hireAuthority(ctx context.Context, a *authority) error {
	root, err := w.root(ctx, a)
	if err != nil {
		return err
	}
	roots := w.ca.Pool()
	roots.AddCert(root)
	for _, gateway := range []string{mine, other} {
		at, err := w.addressesOf(ctx, gateway)
		if err != nil {
			return err
		}
		for i, e := range w.Fleet.Spec.Edges {
			name := doorAt(gateway, e.Name)
			w.doors[name] = user.NewEdge(name, at[i], httpPort, httpsPort, roots)
		}
	}
	for _, e := range w.Fleet.Spec.Edges {
		w.doors[e.Name] = w.Lab.Edge(e.Name, roots)
	}
	byRoute := object{"gatewayHTTPRoute": object{"parentRefs": []any{object{"group": group, "kind": "Gateway", "name": mine, "namespace": own, "sectionName": "http"}}}}
	byIngress := object{"ingress": object{"ingressClassName": ingressClass}}
	for _, o := range []object{issuerObject("by-route", a, w.ca.CertPEM(), byRoute), issuerObject("by-ingress", a, w.ca.CertPEM(), byIngress)} {
		if err := w.apply(ctx, w.Hub, o); err != nil {
			return err
		}
	}
	for _, name := range []string{"by-route", "by-ingress"} {
		if err := patience.Await(ctx, "Issuer "+name+" to have an account", func(ctx context.Context) error { return w.ready(ctx, "Issuer", name) }); err != nil {
			return err
		}
	}
	return nil
}

// doorAt is the name of a Gateway at an edge.
func doorAt(gateway, edge string) string { return gateway + " at edge " + edge }

// addressesOf are a Gateway's, one of each edge.
func (w *world) addressesOf(ctx context.Context, gateway string) (out []netip.Addr, err error) {
	return out, patience.Await(ctx, "an address of Gateway "+gateway+" at each edge", func(ctx context.Context) error {
		o, err := w.Hub.Get(ctx, "Gateway", own, gateway)
		if err != nil {
			return err
		}
		out = make([]netip.Addr, len(w.Fleet.Spec.Edges))
		for _, a := range entries(o, "status", "addresses") {
			ip, err := netip.ParseAddr(fmt.Sprint(a["value"]))
			if err != nil {
				return err
			}
			for i := range w.Fleet.Spec.Edges {
				if slices.Contains(w.Fleet.Spec.PoolOf(i), ip) {
					out[i] = ip
				}
			}
		}
		if slices.Contains(out, netip.Addr{}) {
			return fmt.Errorf("it has %v", out)
		}
		return nil
	})
}

// ready is nil when an object of cert-manager says so of its newest version.
func (w *world) ready(ctx context.Context, kind, name string) error {
	o, err := w.Hub.Get(ctx, kind, own, name)
	if err != nil {
		return err
	}
	c := user.Condition(o, "Ready")
	if c == nil || c["status"] != "True" || c["observedGeneration"] != o.GetGeneration() {
		return fmt.Errorf("%s %s: its condition Ready is %v", kind, name, c)
	}
	return nil
}

// acmeUnderLoad gets and renews certificates while all edges serve.
func (w *world) acmeUnderLoad(ctx context.Context) error {
	told := func(is bool) func(context.Context) error {
		return func(ctx context.Context) error {
			return w.listenerSays(ctx, mine, "secure", condition{"ResolvedRefs", is, reason(!is, "InvalidCertificateRef", "ResolvedRefs")}, condition{"Programmed", is, reason(!is, "Invalid", "Programmed")})
		}
	}
	byRoute := &secured{kind: "Gateway", name: mine, host: secureHost, solver: "HTTPRoute", told: told(true)}
	byIngress := &secured{kind: "Ingress", name: "plain", host: plainHost, solver: "Ingress", told: func(context.Context) error { return nil }}
	var turns []*target
	for _, e := range w.Fleet.Spec.Edges {
		turns = append(turns, w.calm(e.Name)...)
		byRoute.targets = append(byRoute.targets, w.at(doorAt(mine, e.Name), "https://"+secureHost+"/", closed))
		byIngress.targets = append(byIngress.targets, w.at(e.Name, "https://"+plainHost+"/", closed))
	}
	if err := w.served(ctx, slices.Concat(turns, byRoute.targets, byIngress.targets)...); err != nil {
		return err
	}
	if err := patience.Await(ctx, "the listener to say that it has no certificate", told(false)); err != nil {
		return err
	}
	for _, s := range []*secured{byRoute, byIngress} {
		for _, t := range s.targets {
			t.saw = s.shown.saw
		}
	}
	failed := w.under(ctx, w.newLoad(slices.Concat(turns, byRoute.targets, byIngress.targets)...), func(ctx context.Context) error {
		if err := w.certificates(ctx, byRoute, "by-route"); err != nil {
			return err
		}
		return w.certificates(ctx, byIngress, "by-ingress")
	})
	return errors.Join(failed, byRoute.wrong(), byIngress.wrong())
}

// calm are the targets at an edge whose answers never change, the user's own routes for
// the hosts that get certificates among them.
func (w *world) calm(edge string) []*target {
	edited, quiet := doorAt(mine, edge), doorAt(other, edge)
	const nobody = challengePath + "/nobody" // no token of any challenge
	return []*target{
		w.at(edited, "http://"+bystanderHost+"/", servedByBlue),
		w.at(quiet, "http://"+bystanderHost+"/", servedByBlue),
		w.at(quiet, "https://"+bystanderHost+"/", servedByBlue),
		w.at(edited, "http://"+secureHost+"/", servedByBlue),
		w.at(edited, "http://"+secureHost+nobody, servedByGreen),
		w.at(edge, "http://"+quietHost+"/", servedByBlue),
		w.at(edge, "https://"+quietHost+"/", servedByBlue),
		w.at(edge, "http://"+plainHost+"/", servedByBlue),
		w.at(edge, "http://"+plainHost+nobody, servedByGreen),
	}
}

// certificates has a host get its first certificate, and then another one.
func (w *world) certificates(ctx context.Context, s *secured, issuer string) error {
	err := w.issue(ctx, s, "first certificate", func(ctx context.Context) error {
		return w.Hub.Patch(ctx, s.kind, own, s.name, object{"metadata": object{"annotations": object{issuerKey: issuer}}})
	})
	if err != nil {
		return fmt.Errorf("%s %s: first certificate: %w", s.kind, s.name, err)
	}
	if err := w.issue(ctx, s, "renewed", func(ctx context.Context) error { return w.renew(ctx, s.host) }); err != nil {
		return fmt.Errorf("%s %s: renewal: %w", s.kind, s.name, err)
	}
	return nil
}
