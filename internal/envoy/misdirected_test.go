package envoy

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestListenersAreToldApart: whichever listeners classes of a port have, a request is
// answered 421 if and only if its host belongs to one and the name of the handshake does
// not belong to the same; of what is no Gateway's, to one for all names.
func TestListenersAreToldApart(t *testing.T) {
	kinds := []model.Host{"", "a.example", "b.a.example", "**.example", "**.a.example", "**.b.a.example"}
	names := []string{"example", "a.example", "b.a.example", "c.b.a.example", "x.example", "else.test"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		of := map[model.Host]bool{} // all listeners
		w.g.Commit(func(tx *inc.Tx) {
			w.plain(tx)
			w.together(tx, "younger")
			for age, class := range []model.Class{testClass, "younger"} {
				w.classWith(tx, class, int64(age), httpPort, httpsPort, onDemand, true)
				own := map[model.Host]bool{"": true}
				if rapid.Bool().Draw(rt, "gateway") {
					own = map[model.Host]bool{}
					for _, h := range rapid.SliceOfNDistinct(rapid.SampledFrom(kinds), 1, 4, rapid.ID[model.Host]).Draw(rt, "listeners") {
						own[h] = true
					}
					w.p.ListenerHosts.Set(tx, class, sortedHosts(own))
				}
				for h := range own {
					of[h] = true
				}
			}
			to := target("web")
			to.Reply = &model.Reply{Status: 204}
			w.host(tx, testClass, "", &to)
			id := model.SecretID{Namespace: "shop", Name: "cert"}
			w.p.In.Certificates.Set(tx, id, selfSigned(t, "cert"))
			w.p.Chains.Set(tx, model.HostKey{Class: testClass}, fleet.Chain{Secrets: []model.SecretID{id}})
		})
		validateAll(rt, w)
		s := newSim(rt, w)
		tab := &requestTable{of: of}
		for _, sni := range append(names, "") {
			for _, host := range names {
				want := uint32(204)
				if at := tab.listener(host); at != "" && at != tab.listener(sni) {
					want = 421
				}
				q := request{tls: true, sni: sni, method: http.MethodGet, host: host, path: "/", header: http.Header{}}
				if got := s.route(httpsPort, q).Status; got != want {
					rt.Fatalf("%s on a connection for %q: %d, want %d; listeners %v", host, sni, got, want, sortedHosts(of))
				}
			}
		}
	})
}

func sortedHosts(of map[model.Host]bool) inc.List[model.Host] {
	return slices.Sorted(maps.Keys(of))
}

// BenchmarkMisdirected measures what it costs Envoy to compare a request with its
// connection: on a port of an Ingress class, which does not, and on one of Gateways, for
// the host of the handshake, for another of the same listener, and for another's.
func BenchmarkMisdirected(b *testing.B) {
	for _, deep := range []bool{false, true} {
		b.Run(map[bool]string{false: "ingress", true: "gateways"}[deep], func(b *testing.B) {
			r := newRigWith(b, timingForTests, static, usual)
			r.commit(func(tx *inc.Tx) {
				class, _ := r.p.ClassInfo.Get(nil, testClass)
				class.Deep = deep
				r.specs.Set(tx, testClass, class)
				if deep {
					of := map[model.Host]bool{"": true, "h7.other": true}
					for i := range 100 {
						of[model.Host(fmt.Sprintf("**.l%d.example", i))] = true
					}
					r.p.ListenerHosts.Set(tx, testClass, sortedHosts(of))
				}
				to := target("web")
				to.Reply = &model.Reply{Status: 204}
				for _, h := range []model.Host{"a.l7.example", "b.l7.example", "h7.other"} {
					r.host(tx, testClass, h, &to)
				}
				id := model.SecretID{Namespace: "shop", Name: "cert"}
				r.p.In.Certificates.Set(tx, id, selfSigned(b, "cert"))
				r.p.Chains.Set(tx, model.HostKey{Class: testClass}, fleet.Chain{Secrets: []model.SecretID{id}})
			})
			r.settled(b)
			for b.Loop() { // figures are reported after it
			}
			for _, ask := range []struct {
				what, host string
				status     int
			}{{"same-host", "a.l7.example", 204}, {"same-listener", "b.l7.example", 204}, {"other-listener", "h7.other", 421}} {
				if !deep {
					ask.status = 204
				}
				const n = 20_000
				flood := func(n int) {
					c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.https), &tls.Config{ServerName: "a.l7.example", InsecureSkipVerify: true}) //nolint:gosec // a test
					if err != nil {
						b.Fatal(err)
					}
					floodOn(b, c, ask.host, "/", ask.status, n)
				}
				flood(n / 10)
				before := cpuOf(r.proc)
				flood(n)
				b.ReportMetric(float64((cpuOf(r.proc)-before).Microseconds())/n, ask.what+"-us")
			}
		})
	}
}
