package app

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/xds"
)

// refusing is a world in which proxies of fra say something of a route.
type refusing struct {
	*world
	*acks
	t       *testing.T
	now     time.Time
	version string
	stream  uint64
	open    map[string]uint64
}

var refusedRoot = model.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}

func newRefusing(t *testing.T) *refusing {
	r := &refusing{world: newWorld(), t: t, now: time.Unix(1000, 0), open: map[string]uint64{}}
	r.acks = newAcks(r.world.p, r.envoy, func() time.Time { return r.now }, r.put)
	r.load()
	view, _ := r.world.p.Views.Get(nil, "fra")
	res, _ := r.envoy.Find(nil, view.Key, envoy.RouteType, "shop.example", false)
	r.version = res.Version
	return r
}

func (r *refusing) says(node string, v xds.Verdict) { r.say(said("fra", node, v)) }

// say is what was said since the last turn.
func (r *refusing) say(all ...xds.ProxyVerdict) {
	r.g.Commit(func(tx *inc.Tx) { r.apply(tx, all) })
}

func said(edge, node string, v xds.Verdict) xds.ProxyVerdict {
	v.Type, v.Name = xds.RouteConfiguration, "shop.example"
	return xds.ProxyVerdict{Proxy: xds.Proxy{Edge: edge, Node: node}, Envoy: "1.36.4", View: viewOfFra, Verdict: v}
}

func (r *refusing) connects(node string) {
	r.stream++
	r.open[node] = r.stream
	r.streamed([]xds.StreamChange{{Proxy: xds.Proxy{Edge: "fra", Node: node}, Stream: r.stream, Open: true}})
}

func (r *refusing) leaves(node string) {
	r.streamed([]xds.StreamChange{{Proxy: xds.Proxy{Edge: "fra", Node: node}, Stream: r.open[node]}})
}

// told is what the owner is told after some time.
func (r *refusing) told(after time.Duration) string {
	r.now = r.now.Add(after)
	writes, _ := r.due(r.now)
	r.g.Commit(func(tx *inc.Tx) {
		for _, write := range writes {
			write(tx)
		}
	})
	r.turn()
	found, _ := r.envoy.Findings.Get(nil, refusedRoot)
	var out []string
	for _, f := range found {
		out = append(out, f.Message)
	}
	return strings.Join(out, "; ")
}

func (r *refusing) expect(when string, after time.Duration, want string) {
	r.t.Helper()
	if got := r.told(after); want == "" && got != "" || !strings.Contains(got, want) {
		r.t.Errorf("%s: told %q, want %q", when, got, want)
	}
	if want == "" && (r.world.p.In.Rejections.Len() != 0 || len(r.said)+len(r.expiring) != 0) {
		r.t.Errorf("%s: kept %v, %v, %v", when, r.world.p.In.Rejections.Keys(), r.said, r.expiring)
	}
}

const oneRefuses = "proxy fra-1 (Envoy 1.36.4) of edge fra refused the RouteConfiguration shop.example made of this: no"

// TestARejectionEndsWithTheProxyThatSaidIt, some seconds after its last stream,
// so that one that comes back and says it again makes no difference.
func TestARejectionEndsWithTheProxyThatSaidIt(t *testing.T) {
	r := newRefusing(t)
	r.connects("fra-1")
	no := xds.Verdict{Version: r.version, Error: "no"}
	r.says("fra-1", no)
	r.expect("one refuses", time.Hour, oneRefuses)
	r.leaves("fra-1")
	r.expect("its stream ended", time.Second, oneRefuses)
	r.connects("fra-1")
	r.says("fra-1", no)
	r.expect("it said it again", time.Hour, oneRefuses)
	r.connects("fra-2")
	r.says("fra-2", no)
	r.expect("another one agrees", 0, "fra-1 (Envoy 1.36.4) of edge fra and others refused")
	r.leaves("fra-1")
	r.expect("the first is gone", rejectionLinger, "proxy fra-2 (Envoy 1.36.4)")
	r.leaves("fra-2")
	r.expect("both are gone", rejectionLinger, "")
}

// TestARejectionEndsWhenAProxyAccepts that version, not when one acknowledges a
// removal, nor with an answer to an older version.
func TestARejectionEndsWhenAProxyAccepts(t *testing.T) {
	r := newRefusing(t)
	r.connects("fra-1")
	r.connects("fra-2")
	r.says("fra-1", xds.Verdict{Version: r.version, Error: "no"})
	r.says("fra-2", xds.Verdict{})
	r.expect("another one was told that there is none", 0, oneRefuses)
	r.says("fra-2", xds.Verdict{Version: "older"})
	r.expect("another one acknowledged what was before", 0, oneRefuses)
	r.says("fra-2", xds.Verdict{Version: r.version})
	r.expect("another one acknowledged it", 0, "")
	r.says("fra-1", xds.Verdict{Version: r.version, Error: "no", Lone: true})
	r.expect("it is alone with that", 0, "")
	r.says("fra-1", xds.Verdict{Version: "older", Error: "no"})
	r.expect("it refused what is not there", 0, "")
	r.says("fra-1", xds.Verdict{Version: r.version, Error: "no"})
	r.says("fra-1", xds.Verdict{})
	r.expect("it wants it no more", 0, "")
}

// TestWhatIsSaidTogether is all taken: each finds what the one before left.
func TestWhatIsSaidTogether(t *testing.T) {
	r := newRefusing(t)
	no := xds.Verdict{Version: r.version, Error: "no"}
	for _, node := range []string{"fra-1", "fra-2", "fra-3"} {
		r.connects(node)
	}
	r.say(said("fra", "fra-1", no), said("fra", "fra-2", no))
	r.expect("two refuse", 0, "fra-1 (Envoy 1.36.4) of edge fra and others refused")
	r.say(said("fra", "fra-1", xds.Verdict{}), said("fra", "fra-2", xds.Verdict{}), said("fra", "fra-3", no))
	r.expect("it is another one now", 0, "proxy fra-3 (Envoy 1.36.4)")
	r.say(said("fra", "fra-1", no), said("fra", "fra-2", no), said("fra", "fra-3", xds.Verdict{Version: r.version}))
	r.expect("one of them takes it after all", 0, "")
}

// TestAnEdgeSpeaksForItself: what proxies of one edge refuse those of another
// one may accept.
func TestAnEdgeSpeaksForItself(t *testing.T) {
	r := newRefusing(t)
	r.g.Commit(func(tx *inc.Tx) {
		spec, _ := r.world.p.In.Edges.Get(nil, "fra")
		r.world.p.In.Edges.Set(tx, "ams", spec) // of the same view
	})
	r.connects("fra-1")
	r.says("fra-1", xds.Verdict{Version: r.version, Error: "no"})
	r.say(said("ams", "ams-1", xds.Verdict{Version: r.version}))
	r.expect("another edge accepts", 0, oneRefuses)
	r.say(said("ams", "ams-2", xds.Verdict{Version: r.version, Error: "never"}))
	r.expect("one there does not", 0, "and others")
	r.says("fra-2", xds.Verdict{Version: r.version})
	r.expect("one here does", 0, "proxy ams-2 (Envoy 1.36.4) of edge ams")
}

// TestARejectionFromBeforeARestartEnds, if nobody says it again: be it of a
// proxy that is gone, of one that changed its mind, or of a version that did not
// know of which edge it is.
func TestARejectionFromBeforeARestartEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		edge  model.Edge
		again bool
		want  string
	}{
		{"no edge known", "", false, ""},
		{"gone", "fra", false, ""},
		{"said again", "fra", true, oneRefuses},
		{"no edge known, said again", "", true, oneRefuses},
	} {
		r := newRefusing(t)
		r.g.Commit(func(tx *inc.Tx) {
			r.world.p.In.Rejections.Set(tx, model.RejectionID{Edge: c.edge, Type: envoy.RouteType, Name: "shop.example"},
				model.Rejection{Version: r.version, Error: "no", By: []model.Refuser{{Node: "fra-1", Version: "1.36.4"}}})
		})
		r.adopt()
		r.connects("fra-1")
		if c.again {
			r.says("fra-1", xds.Verdict{Version: r.version, Error: "no"})
		}
		r.expect(c.name, rejectionLinger, c.want)
	}
}

// TestARejectionGoesWithItsEdge: another view with the same resource is refused
// like the one before. It ends with the edge.
func TestARejectionGoesWithItsEdge(t *testing.T) {
	r := newRefusing(t)
	spec, _ := r.world.p.In.Edges.Get(nil, "fra")
	r.g.Commit(func(tx *inc.Tx) { r.world.p.In.Edges.Set(tx, "par", spec) }) // its view stays
	r.connects("fra-1")
	r.says("fra-1", xds.Verdict{Version: r.version, Error: "no"})
	r.expect("one refuses", 0, oneRefuses)
	spec.Place.Zone = "eu-b"
	r.g.Commit(func(tx *inc.Tx) { r.world.p.In.Edges.Set(tx, "fra", spec) })
	r.expect("its edge moved", rejectionLinger, oneRefuses)
	if keys := r.world.p.In.Rejections.Keys(); len(keys) != 1 || keys[0].Edge != "fra" {
		t.Errorf("rejections %v, want one of fra", keys)
	}
	r.g.Commit(func(tx *inc.Tx) { r.world.p.In.Edges.Delete(tx, "fra") })
	r.expect("it is gone", rejectionLinger, "")
}
