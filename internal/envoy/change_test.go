package envoy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// The HTTPS listener changes while clients have connections to it, old ones and
// new ones, in both versions of HTTP: none of their requests fails.
func TestListenerChangesUnderLoad(t *testing.T) {
	changes := []struct {
		name   string
		change func(*rig, *testing.T, *inc.Tx)
	}{
		{"a chain comes", func(r *rig, t *testing.T, tx *inc.Tx) {
			r.certificate(t, tx, "other", "other")
			r.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: "other.example"}, fleet.Chain{Secrets: []model.SecretID{{Namespace: "shop", Name: "other"}}})
		}},
		{"a host joins its chain", func(r *rig, _ *testing.T, tx *inc.Tx) {
			r.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: "more.example"}, fleet.Chain{Secrets: []model.SecretID{{Namespace: "shop", Name: "cert"}}})
		}},
		{"it gets another certificate", func(r *rig, _ *testing.T, tx *inc.Tx) {
			r.p.Chains.Set(tx, model.HostKey{Class: testClass, Host: "shop.example"}, fleet.Chain{Secrets: []model.SecretID{{Namespace: "shop", Name: "other"}}})
		}},
		{"a chain goes", func(r *rig, _ *testing.T, tx *inc.Tx) {
			r.p.Chains.Delete(tx, model.HostKey{Class: testClass, Host: "more.example"})
		}},
		{"a class joins its port", func(r *rig, _ *testing.T, tx *inc.Tx) {
			r.class(tx, "younger", 2, uint16(r.http), uint16(r.https))
			r.together(tx, "younger")
		}},
	}
	secure := request{host: "shop.example", path: "/", tls: true, sni: "shop.example"}
	fresh := secure
	fresh.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{ServerName: "shop.example", InsecureSkipVerify: true},
	}}
	for connections, q := range map[string]request{"new": fresh, "kept, HTTP/1.1": secure, "kept, HTTP/2": secure.overHTTP2(t)} {
		t.Run(connections, func(t *testing.T) {
			t.Parallel()
			r := oneHost(t, newPod(t, "web@eu-1/0"), "")
			m := &twoMembers{rig: r}
			for _, c := range changes {
				t.Run(c.name, func(t *testing.T) {
					noneFailed(t, m.load(t, 200, 2, q, 50, func() {
						r.commit(func(tx *inc.Tx) { c.change(r, t, tx) })
						r.settled(t)
						envoytest.Until(t, "old chains to be closed", func() bool {
							return strings.Contains(r.proc.Stats(t, "listener_manager.total_"), "filter_chains_draining: 0")
						})
					}))
				})
			}
		})
	}
}

// Another control plane that learned the same in another order says the same,
// byte for byte: a proxy that moves to it is sent nothing.
func TestReplicasAgree(t *testing.T) {
	a, b := newWorld(), newWorld()
	rows := []func(*world, *inc.Tx){
		func(w *world, tx *inc.Tx) { w.plain(tx) },
		func(w *world, tx *inc.Tx) { w.class(tx, "younger", 2, httpPort, httpsPort) },
		func(w *world, tx *inc.Tx) {
			def := target("web", "shop/web/http")
			w.host(tx, testClass, "shop.example", &def, fleet.Route{Match: prefix("/a"), Target: target("a", "shop/a/http", "shop/web/http")})
		},
		func(w *world, tx *inc.Tx) {
			def := target("any", "shop/a/http")
			w.host(tx, testClass, "*.example", &def)
		},
		func(w *world, tx *inc.Tx) { w.use(tx, testView, "shop/web/http", "") },
		func(w *world, tx *inc.Tx) { w.use(tx, testView, "shop/a/http", "h2c") },
		func(w *world, tx *inc.Tx) { w.plan(tx, testView, "shop/web/http", share("eu-1", 0), share("us-1", 1)) },
		func(w *world, tx *inc.Tx) { w.group(tx, "shop/web/http", "eu-1", endpointAt("10.0.0.1", 80)) },
		func(w *world, tx *inc.Tx) { w.group(tx, "shop/web/http", "us-1", endpointAt("10.1.0.1", 80)) },
	}
	for i := range rows {
		a.g.Commit(func(tx *inc.Tx) { rows[i](a, tx) })
		b.g.Commit(func(tx *inc.Tx) { rows[len(rows)-1-i](b, tx) })
	}
	said := map[xds.Ref]string{}
	for _, typ := range a.t.Types() {
		for _, key := range typ.Table.Keys() {
			res, _ := typ.Table.Get(nil, key)
			said[xds.Ref{Type: xds.TypeURL(typ.URL), Name: fmt.Sprint(key)}] = res.Version + string(res.Bytes())
		}
	}
	if len(said) < 9 {
		t.Fatalf("only %d resources", len(said))
	}
	for _, typ := range b.t.Types() {
		for _, key := range typ.Table.Keys() {
			res, _ := typ.Table.Get(nil, key)
			at := xds.Ref{Type: xds.TypeURL(typ.URL), Name: fmt.Sprint(key)}
			if said[at] != res.Version+string(res.Bytes()) {
				t.Errorf("%v differs", at)
			}
			delete(said, at)
		}
	}
	for at := range said {
		t.Errorf("%v is missing", at)
	}
}
