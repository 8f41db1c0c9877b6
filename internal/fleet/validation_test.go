package fleet_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestClientsOfAPortAreAskedAlike: whoever has a port, by itself or with others, every
// client there is asked for what each of them wants, told in the words of the Gateway API:
// what is said of the port, or else of all (FrontendTLSConfig), as far as authorities are
// there and may be used.
func TestClientsOfAPortAreAskedAlike(t *testing.T) {
	asked := 0
	rapid.Check(t, func(t *rapid.T) {
		w := fleettest.New(nil)
		do(t, w, "edge e1 region=r1 pool=10.0.0.1,10.9.0.2!,10.9.0.3", "gatewayclass gc", "class c1 default age=2", "ingress ns/r1 h1/->a:80 tls=t1", "bundle ns/c1 x", "bundle odd/c1 y", "secret ns/t1 h1", "secret ns/t2 x.h", "secret odd/t1 h1")
		do(t, w, rapid.SliceOfN(rapid.Custom(drawGateways), 5, 30).Draw(t, "lines")...)
		w.Commit()
		p := w.Program
		for _, ports := range rowsOf(p.Ports) {
			for _, port := range ports.List {
				for _, c := range port.Classes {
					if want := clientsOf(p, c); port.TLS && port.Clients.Key() != want {
						t.Fatalf("port %d of %v asks for %+v, %s wants %+v", port.Number, port.Classes, port.Clients.Key(), c, want)
					}
				}
			}
		}
		for id, holding := range rowsOf(p.Holdings) {
			for _, c := range holding.Collections {
				if want := clientsOf(p, model.Class(c.Classes())); c.Kind() == model.Sockets && c.Key().TLS && c.Classes() != "" {
					if asked++; c.Key().Clients.Key() != want {
						t.Fatalf("%v: %v asks for %+v, want %+v", id, c, c.Key().Clients.Key(), want)
					}
				}
			}
		}
	})
	if asked == 0 {
		t.Error("no Gateway had a port of its own")
	}
}

// clientsOf are those that a class wants on its HTTPS port.
func clientsOf(p *fleet.Program, c model.Class) (out model.ClientTrustKey) {
	id, ok := c.Gateway()
	if !ok {
		return out
	}
	row, _ := p.Gateways.Get(nil, id)
	says := model.Validation{}
	for _, v := range row.Spec.Validations {
		if v.Port == c.Port() || v.Port == 0 && says.Port == 0 {
			says = v
		}
	}
	for _, ref := range says.Bundles {
		granted := ref.Namespace == id.Namespace
		for o, g := range rowsOf(p.In.Grants) {
			granted = granted || o.Namespace == ref.Namespace && slices.ContainsFunc(g.To, func(to model.GrantTo) bool { return to.Kind == "ConfigMap" }) &&
				slices.Contains(g.From, model.GrantFrom{Group: model.GatewayGroup, Kind: "Gateway", Namespace: id.Namespace})
		}
		if b, there := p.In.Bundles.Get(nil, ref); granted && there && b.Problem == "" {
			out.CA += b.PEM
			out.Fallback = says.Fallback
		}
	}
	return out
}
