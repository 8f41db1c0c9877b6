package envoy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// The ports of a class are edited, so that those of another one share their hosts
// with it, and back: its hosts are in another table each time. No request fails, on
// new connections and on old ones, until the last host of the old table has left.
func TestPortsEditedUnderLoad(t *testing.T) {
	overConnections(t, func(t *testing.T, q request) {
		r := oneHost(t, newPod(t, "web@eu-1/0"), "")
		m := &twoMembers{rig: r}
		apart, together := envoytest.FreePort(t), r.http
		r.commit(func(tx *inc.Tx) {
			r.class(tx, "younger", 2, uint16(apart), uint16(apart+1))
			r.together(tx, "younger")
		})
		r.settled(t)
		before := r.scopes(t)
		for _, port := range []int{together, apart} {
			noneFailed(t, m.load(t, 200, 2, q, 50, func() {
				r.commit(func(tx *inc.Tx) { r.class(tx, "younger", 2, uint16(port), uint16(apart+1)) })
				r.settled(t)
				envoytest.Until(t, "the hosts that moved to leave", func() bool { return r.scopes(t) == distinct(r.t.Scopes) })
			}))
			if moved := port == together; moved == (r.scopes(t) == before) {
				t.Errorf("younger at %d: Envoy has %d scopes, %d before: the test moves nothing", port, r.scopes(t), before)
			}
		}
	})
}

// scopes is how many scopes Envoy holds.
func (r *rig) scopes(t testing.TB) int {
	return strings.Count(r.proc.Get(t, "/config_dump?resource=dynamic_scoped_route_configs"), `"route_configuration_name"`)
}

// distinct is how many names there are. Collections may share one.
func distinct(rows Rows) int {
	names := map[string]bool{}
	for _, key := range rows.Keys() {
		names[key.Name] = true
	}
	return len(names)
}

// overConnections tests with requests for shop.example on connections of each kind.
func overConnections(t *testing.T, test func(*testing.T, request)) {
	fresh := shopRequest
	fresh.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for connections, q := range map[string]request{"new": fresh, "kept, HTTP/1.1": shopRequest, "kept, HTTP/2": shopRequest.overHTTP2(t)} {
		t.Run(connections, func(t *testing.T) {
			t.Parallel()
			test(t, q)
		})
	}
}
