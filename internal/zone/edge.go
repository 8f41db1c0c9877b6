package zone

import (
	"math"
	"net/netip"
	"slices"

	"github.com/spillway-dev/spillway/internal/model"
)

// MaxAddresses is how many addresses of one family an edge has in DNS; more are left out.
const MaxAddresses = 8

// Edge is a place where clients are served, as DNS sees it. It is immutable;
// record sets share it.
type Edge struct {
	name  model.Edge
	place model.Place
	v4    []netip.Addr // sorted, each once
	v6    []netip.Addr
	at    point
}

// NewEdge keeps the usable addresses among those given: unicast ones without a
// zone, IPv4-mapped ones as IPv4, sorted, each once, MaxAddresses a family.
func NewEdge(name model.Edge, place model.Place, addresses []netip.Addr) *Edge {
	e := &Edge{name: name, place: place, at: pointOf(place)}
	for _, a := range addresses {
		a = a.Unmap()
		switch {
		case !a.IsValid() || a.Zone() != "" || a.IsMulticast() || a.IsUnspecified():
		case a.Is4():
			e.v4 = append(e.v4, a)
		default:
			e.v6 = append(e.v6, a)
		}
	}
	e.v4, e.v6 = addressSet(e.v4), addressSet(e.v6)
	return e
}

func addressSet(in []netip.Addr) []netip.Addr {
	slices.SortFunc(in, netip.Addr.Compare)
	in = slices.Compact(in)
	return slices.Clip(in[:min(len(in), MaxAddresses)])
}

// Name is the name of the Edge object.
func (e *Edge) Name() model.Edge { return e.name }

// Equal reports whether both say the same. Either may be nil.
func (e *Edge) Equal(o *Edge) bool {
	if e == o || e == nil || o == nil {
		return e == o
	}
	return e.name == o.name && e.place == o.place && slices.Equal(e.v4, o.v4) && slices.Equal(e.v6, o.v6)
}

// Addresses are the addresses of one family: TypeA or TypeAAAA.
func (e *Edge) Addresses(t Type) []netip.Addr {
	switch t {
	case TypeA:
		return e.v4
	case TypeAAAA:
		return e.v6
	}
	return nil
}

// point is a place on the unit sphere; known is false without coordinates.
type point struct {
	x, y, z float64
	known   bool
}

func pointOf(p model.Place) point {
	if !p.Located {
		return point{}
	}
	lat, lon := p.Latitude*math.Pi/180, p.Longitude*math.Pi/180
	return point{x: math.Cos(lat) * math.Cos(lon), y: math.Cos(lat) * math.Sin(lon), z: math.Sin(lat), known: true}
}

// earthDiameter is twice the mean radius of the Earth in kilometres (IUGG), as in model.Kilometres.
const earthDiameter = 2 * 6371.0088

// farthest is the distance to a place without coordinates: beyond all others.
const farthest = math.MaxInt32

// kilometres is the great-circle distance in whole kilometres, so that places
// equally far count as equally far whatever the last bit of a float says.
func kilometres(a, b point) int32 {
	if !a.known || !b.known {
		return farthest
	}
	// The conversions forbid fused operations, which differ between processors.
	dx, dy, dz := a.x-b.x, a.y-b.y, a.z-b.z
	chord := math.Sqrt(float64(dx*dx) + float64(dy*dy) + float64(dz*dz))
	return int32(earthDiameter * math.Asin(min(chord/2, 1)))
}

// rank is how near an edge is to a client: first the tier, then the distance.
type rank struct {
	tier int32 // 0 same zone, 1 same region, 2 elsewhere
	km   int32
}

func (r rank) before(o rank) bool {
	return r.tier < o.tier || r.tier == o.tier && r.km < o.km
}

// rankOf ranks an edge for a client at a place. A client nobody located has the
// zero place: then all edges rank alike and their names decide.
func (e *Edge) rankOf(p model.Place, at point) rank {
	switch {
	case p.Region == "" || p.Region != e.place.Region:
		return rank{tier: 2, km: kilometres(at, e.at)}
	case p.Zone == "" || p.Zone != e.place.Zone:
		return rank{tier: 1, km: kilometres(at, e.at)}
	}
	return rank{km: kilometres(at, e.at)}
}
