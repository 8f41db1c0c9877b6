package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/lab"
	"github.com/spillway-dev/spillway/internal/lab/user"
	"github.com/spillway-dev/spillway/test/rig"
)

// home is the cluster that is hub and member: cert-manager is where Gateways are, and its
// solvers' pods must be in a member.
const home = "home"

// Edges of the part, and the places beside them. cert-manager is in one and the authority
// in the other, so that each edge answers a challenge: DNS sends each to the nearest.
const (
	euEdge, fra = "eu", "fra"
	usEdge, nyc = "us", "nyc"
)

const (
	solverImage  = "quay.io/jetstack/cert-manager-acmesolver"
	plainHost    = "plain.example" // of an Ingress
	quietHost    = "quiet.example" // of an Ingress that nothing is done with
	ingressClass = "spillway"
	issuerKey    = "cert-manager.io/issuer" // annotation: who gets the certificates of an object
)

// acmeDeployments: what users have is in a member, and some in the hub's.
var acmeDeployments = []deployment{
	{eu1, own, "blue"},
	{home, own, "green"},
}

// acmeSetting is a fleet of a hub that is a member, another member, and two edges far
// from each other.
func (o options) acmeSetting(ctx context.Context) (rig.Setting, error) {
	p, err := buildPrograms(ctx)
	if err != nil {
		return rig.Setting{}, err
	}
	s := o.Spec()
	s.Images = map[string]string{solverImage: p.certManager + " acmesolver"}
	s.HubInPlaces, s.UsualPorts = true, true
	s.Members = []lab.MemberSpec{
		{Name: home, Region: "eu", Zones: []string{"eu-a"}, OnHub: true},
		{Name: eu1, Region: "eu", Zones: []string{"eu-b"}},
	}
	s.Edges = []lab.EdgeSpec{
		{Name: euEdge, Place: fra, Region: "eu", Zone: "eu-a", Latitude: 50.11, Longitude: 8.68, Pool: addresses},
		{Name: usEdge, Place: nyc, Region: "us", Zone: "us-b", Latitude: 40.71, Longitude: -74.01, Pool: addresses},
	}
	return rig.Setting{Spec: s, Manager: manager, Places: true, Install: func(ctx context.Context, f *rig.Fleet) error {
		return f.Define(ctx, f.Hub, p.crds)
	}}, nil
}

// openACME writes what users have before they ask for certificates.
func (w *world) openACME(ctx context.Context, f *rig.Fleet) error {
	if err := w.begin(f); err != nil {
		return err
	}
	if err := w.deploy(ctx, acmeDeployments); err != nil {
		return err
	}
	for _, o := range acmeObjects() {
		if err := w.apply(ctx, w.Hub, o); err != nil {
			return err
		}
	}
	for _, host := range []string{bystanderHost, quietHost} {
		if err := w.certify(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// acmeObjects are all on the hub but Secrets and who gets them. The user's route has the
// path of challenges, too, as a prefix: that of a solver is exact, and goes first.
func acmeObjects() []object {
	wellKnown := rule(backend("green", own, 1))
	wellKnown["matches"] = []any{object{"path": object{"type": "PathPrefix", "value": challengePath}}}
	everything := rule(backend("blue", own, 1))
	return []object{
		namespaceObject(own, true),
		gatewayObject(mine, listener("http", "HTTP", httpPort, ""), listener("secure", "HTTPS", httpsPort, secureHost)),
		gatewayObject(other, listener("http", "HTTP", httpPort, ""), listener("bystander", "HTTPS", httpsPort, bystanderHost)),
		routeObject(own, "secure", []any{parent(mine)}, []any{secureHost}, wellKnown, everything),
		routeObject(own, "bystander", []any{parent(mine), parent(other)}, []any{bystanderHost}, rule(backend("blue", own, 1))),
		ingressObject("plain", plainHost), ingressObject("quiet", quietHost),
	}
}

// challengePath is that of all challenges of a host (RFC 8555, 8.3).
const challengePath = "/.well-known/acme-challenge"

func ingressObject(name, host string) object {
	path := func(prefix, service string) object {
		return object{"path": prefix, "pathType": "Prefix", "backend": object{"service": object{"name": service, "port": object{"number": 80}}}}
	}
	return named("networking.k8s.io/v1", "Ingress", own, name, object{"spec": object{
		"ingressClassName": ingressClass,
		"tls":              []any{object{"hosts": []any{host}, "secretName": host}},
		"rules": []any{object{"host": host, "http": object{"paths": []any{
			path(challengePath, "green"), path("/", "blue"),
		}}}},
	}})
}

// issuerObject gets certificates from the authority, whose challenges are answered so.
func issuerObject(name string, a *authority, ca []byte, http01 object) object {
	return named("cert-manager.io/v1", "Issuer", own, name, object{"spec": object{"acme": object{
		"server": a.directory(), "caBundle": base64.StdEncoding.EncodeToString(ca),
		"privateKeySecretRef": object{"name": name + "-account"},
		"solvers":             []any{object{"http01": http01}},
	}}})
}

// secured is an object whose host gets a certificate.
type secured struct {
	kind, name, host string
	solver           string    // kind of what leads to a solver's pod
	targets          []*target // its HTTPS, at each edge
	told             func(context.Context) error
	issued           []int64 // serial numbers of its certificates, the last in use
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
	manager := guest{"cert-manager", nyc, []string{p.certManager, "controller", "--kubeconfig", w.Lab.HubKubeconfig(), "--acme-http01-solver-image", solverImage}}
	return w.beside(ctx, []guest{a.guest, manager}, func(ctx context.Context) error {
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
	var seen serials
	for _, s := range []*secured{byRoute, byIngress} {
		for _, t := range s.targets {
			t.saw = seen.saw(s.host)
		}
	}
	failed := w.under(ctx, w.newLoad(slices.Concat(turns, byRoute.targets, byIngress.targets)...), func(ctx context.Context) error {
		return errors.Join(w.certificates(ctx, byRoute, "by-route"), w.certificates(ctx, byIngress, "by-ingress"))
	})
	return errors.Join(failed, seen.of(byRoute), seen.of(byIngress))
}

// calm are the targets at an edge whose answers never change, the user's own routes for
// the hosts that get certificates among them.
func (w *world) calm(edge string) []*target {
	own, quiet := doorAt(mine, edge), doorAt(other, edge)
	const nobody = challengePath + "/nobody" // no token of any challenge
	return []*target{
		w.at(own, "http://"+bystanderHost+"/", servedByBlue),
		w.at(quiet, "http://"+bystanderHost+"/", servedByBlue),
		w.at(quiet, "https://"+bystanderHost+"/", servedByBlue),
		w.at(own, "http://"+secureHost+"/", servedByBlue),
		w.at(own, "http://"+secureHost+nobody, servedByGreen),
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

// issue does what has cert-manager get a certificate, and waits until it is served at each
// edge, told, and nothing of the challenge is left.
func (w *world) issue(ctx context.Context, s *secured, what string, do func(context.Context) error) error {
	routes, err := follow(ctx, w.Hub, s.solver, own)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = routes.end() }()
	count, err := w.countChallenges(ctx)
	if err != nil {
		return err
	}
	defer count.end()
	began := time.Now()
	for _, t := range s.targets {
		t.right.be(began, append(slices.Clone(t.usual), servedByBlue)...)
	}
	if err := do(ctx); err != nil {
		return err
	}
	serial, err := w.nextSerial(ctx, s)
	if err != nil {
		return err
	}
	written := time.Since(began)
	for _, t := range s.targets {
		if err := t.presents(ctx, serial, servedByBlue); err != nil {
			return err
		}
		t.usual = []string{servedByBlue}
		t.right.be(time.Now(), t.usual...)
	}
	served := time.Since(began)
	if err := patience.Await(ctx, "statuses to say so", s.told); err != nil {
		return err
	}
	if err := patience.Await(ctx, "what was for the challenge to be gone", w.noSolvers); err != nil {
		return err
	}
	gone := time.Since(began)
	_, then, err := routes.end()
	if err != nil {
		return err
	}
	w.said.line("%s %s, %s: Secret after %s, presented at every edge after %s, nothing of the challenge left after %s", s.kind, s.name, what, ms(written), ms(served), ms(gone))
	return errors.Join(cameAndWent(then), count.judge(w.said, w.Fleet.Spec.Edges))
}

// renew is what `cmctl renew` does.
func (w *world) renew(ctx context.Context, certificate string) error {
	of := w.Hub.Of("Certificate", own)
	return patience.Await(ctx, "Certificate "+certificate+" to be marked", func(ctx context.Context) error {
		o, err := of.Get(ctx, certificate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			return err
		}
		all = append(all, object{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a user asked for it",
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": o.GetGeneration(),
		})
		if err := unstructured.SetNestedSlice(o.Object, all, "status", "conditions"); err != nil {
			return err
		}
		_, err = of.UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: manager})
		return err
	})
}

// nextSerial returns that of a certificate that the host did not have, as soon as the
// Secret has it.
func (w *world) nextSerial(ctx context.Context, s *secured) (serial int64, err error) {
	return serial, patience.Await(ctx, "a certificate in Secret "+s.host, func(ctx context.Context) error {
		o, err := w.Hub.Get(ctx, "Secret", own, s.host)
		if err != nil {
			return err
		}
		text, _, err := unstructured.NestedString(o.Object, "data", "tls.crt")
		if err != nil {
			return err
		}
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		cert, err := certificateOf(der)
		if err != nil {
			return err
		}
		serial = cert.SerialNumber.Int64()
		if slices.Contains(s.issued, serial) {
			return errors.New("it has the one of before")
		}
		s.issued = append(s.issued, serial)
		return nil
	})
}

// presents returns when so many fresh connections in a row had a certificate that every
// thread of the proxy must have been asked.
func (t *target) presents(ctx context.Context, serial int64, want string) error {
	r := t.request
	r.Fresh = true
	return patience.Await(ctx, fmt.Sprintf("%s to present certificate %x", t, uint64(serial)), func(ctx context.Context) error {
		for range inARow {
			reply := r.Send(ctx)
			if got := answer(reply); got != want || reply.Serial != serial {
				return fmt.Errorf("it was answered %q with certificate %x", got, uint64(reply.Serial))
			}
		}
		return nil
	})
}
