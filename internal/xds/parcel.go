package xds

import (
	"slices"
	"sync"
	"weak"
)

// parcel is the resources of a response, apart from the stream that it is for:
// streams that are sent the same ones share it, and it is encoded once.
type parcel struct {
	resources []*Resource
	once      sync.Once
	wire      []byte
}

// encoded is the resources as fields of a DeltaDiscoveryResponse. Any goroutine
// may call it.
func (p *parcel) encoded() []byte {
	if p == nil {
		return nil
	}
	p.once.Do(func() { p.wire = appendResources(make([]byte, 0, sizeOf(p.resources)), p.resources) })
	return p.wire
}

// parcels finds the parcels that were made last. It does not keep them: each is
// there as long as a response has it.
type parcels struct {
	recent [kinds][recentParcels]weak.Pointer[parcel]
	last   [kinds]int
	gather []*Resource // of the response that is built
}

// recentParcels is how many of a type are looked at: streams that are sent the
// same, one response after another, are not all at the same one.
const recentParcels = 64

// of is the parcel of some resources, which are copied.
func (p *parcels) of(k kind, resources []*Resource) *parcel {
	recent := &p.recent[k]
	for i := range recentParcels {
		made := recent[(p.last[k]-i+recentParcels)%recentParcels].Value()
		if made != nil && slices.Equal(made.resources, resources) {
			return made
		}
	}
	made := &parcel{resources: slices.Clone(resources)}
	p.last[k] = (p.last[k] + 1) % recentParcels
	recent[p.last[k]] = weak.Make(made)
	return made
}

// pack is what was gathered, in two parts: of each of many streams one may be its
// own, but not the other.
func (p *parcels) pack(k kind, a, b []*Resource) (all []*Resource, parts [2]*parcel) {
	for i, part := range [2][]*Resource{a, b} {
		if len(part) > 0 {
			parts[i] = p.of(k, part)
		}
	}
	switch {
	case parts[0] == nil && parts[1] == nil:
		return nil, parts
	case parts[1] == nil:
		return parts[0].resources, parts
	case parts[0] == nil:
		return parts[1].resources, parts
	}
	return slices.Concat(parts[0].resources, parts[1].resources), parts
}

// gathered gives back the room in which resources were gathered.
func (p *parcels) gathered(resources []*Resource) {
	clear(resources)
	p.gather = resources[:0]
}
