package envoy

import (
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
