package envoy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds/envoytest"
)

// own is the address of a rig's edge that is for one class.
var own = model.PoolAddress{Address: netip.MustParseAddr("192.0.2.9"), Bind: netip.MustParseAddr("127.0.0.1")}

// alone gives the class of a rig an address of its own, which is remembered, or has
// it share again.
func (r *rig) alone(alone bool) {
	r.commit(func(tx *inc.Tx) {
		row, _ := r.p.ClassInfo.Get(nil, testClass)
		row.Config.Own = alone
		r.specs.Set(tx, testClass, row)
		edge, _ := r.p.In.Edges.Get(nil, "fra")
		edge.Pool = []model.PoolEntry{{PoolAddress: own}}
		r.p.In.Edges.Set(tx, "fra", edge)
		view, _ := r.p.Views.Get(nil, "fra")
		key := view.Key.Key()
		key.Edge = "fra"
		r.p.Views.Set(tx, "fra", fleet.View{Key: key.View(), Classes: view.Classes})
		r.p.In.Tenures.Set(tx, tenure, model.Tenure{})
	})
}

var tenure = model.TenureID{LeaseID: model.LeaseID{Edge: "fra", Class: testClass}, PoolAddress: own}

// TestAddressOfAClass: a class has an address for itself, on the ports that others
// have everywhere else, with its own hosts and certificates. No request fails while
// it moves there, nor at the address when it has left it, as long as clients may
// have that of a resolver. Then it is closed.
func TestAddressOfAClass(t *testing.T) {
	overConnections(t, func(t *testing.T, q request) {
		r := oneHost(t, newPod(t, "web@eu-1/0"), "")
		m := &twoMembers{rig: r}
		r.commit(func(tx *inc.Tx) {
			r.class(tx, "younger", 2, uint16(r.http), uint16(r.https))
			r.together(tx, "younger")
			def := target("other")
			r.host(tx, "younger", "other.example", &def)
		})
		r.settled(t)
		there, elsewhere := request{host: "other.example", path: "/"}, request{host: "other.example", path: "/", at: "127.0.0.2"}
		look := func(when string, want int) {
			t.Helper()
			if got := r.ask(t, there); got.status != want {
				t.Errorf("%s: a host of the other class there is answered %d (%v), want %d", when, got.status, got.err, want)
			}
			if got := r.ask(t, elsewhere); got.status != http.StatusServiceUnavailable {
				t.Errorf("%s: a host of the other class elsewhere is answered %d (%v)", when, got.status, got.err)
			}
			if name, _ := r.presented(t, "shop.example"); name != "first" {
				t.Errorf("%s: presented with %q", when, name)
			}
		}
		for _, alone := range []bool{true, false} {
			noneFailed(t, m.load(t, 200, 2, q, 50, func() {
				r.alone(alone)
				r.settled(t)
			}))
			look(fmt.Sprintf("it has the address: %v", alone), http.StatusNotFound)
		}
		r.commit(func(tx *inc.Tx) { r.p.In.Tenures.Delete(tx, tenure) })
		r.settled(t)
		// What connects while Envoy closes a port is cut off, whoever it is meant for.
		envoytest.Until(t, "its listeners are closed", func() bool {
			return strings.Contains(r.proc.Stats(t, "listener_manager.total_"), "listeners_draining: 0")
		})
		look("nobody has the address of a resolver", http.StatusServiceUnavailable)
	})
}
