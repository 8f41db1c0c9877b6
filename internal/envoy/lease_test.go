package envoy

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// alone gives the class of a rig an address of its own, or has it share again.
func (r *rig) alone(own bool) {
	r.commit(func(tx *inc.Tx) {
		row, _ := r.p.ClassInfo.Get(nil, testClass)
		row.Config.Own = own
		r.specs.Set(tx, testClass, row)
		edge, _ := r.p.In.Edges.Get(nil, "fra")
		edge.Pool = []model.PoolAddress{{Address: netip.MustParseAddr("192.0.2.9"), Bind: netip.MustParseAddr("127.0.0.1")}}
		r.p.In.Edges.Set(tx, "fra", edge)
		view, _ := r.p.Views.Get(nil, "fra")
		key := view.Key.Key()
		key.Edge = "fra"
		r.p.Views.Set(tx, "fra", fleet.View{Key: key.View(), Classes: view.Classes})
	})
}

// TestAddressOfAClass: a class has an address for itself, on the ports that others
// have everywhere else, with its own hosts and certificates. No request fails while
// it moves there. An address that it leaves is closed.
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
		for _, own := range []bool{true, false} {
			replies := m.load(t, 200, 2, q, 50, func() {
				r.alone(own)
				r.settled(t)
			})
			if own {
				noneFailed(t, replies)
			}
			there, elsewhere := request{host: "other.example", path: "/"}, request{host: "other.example", path: "/", at: "127.0.0.2"}
			want := map[bool]int{true: http.StatusNotFound, false: http.StatusServiceUnavailable}[own]
			if got := r.ask(t, there); got.status != want {
				t.Errorf("own address %v: a host of the other class there is answered %d (%v), want %d", own, got.status, got.err, want)
			}
			if got := r.ask(t, elsewhere); got.status != http.StatusServiceUnavailable {
				t.Errorf("own address %v: a host of the other class elsewhere is answered %d (%v)", own, got.status, got.err)
			}
			if name, _ := r.presented(t, "shop.example"); name != "first" {
				t.Errorf("own address %v: presented with %q", own, name)
			}
		}
	})
}
