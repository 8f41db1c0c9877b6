package main

import (
	"context"
	"encoding/base64"

	"github.com/spillway-dev/spillway/internal/lab"
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
