package envoy

import (
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A backend of many endpoints is several clusters, its parts, so that a change
// of one endpoint sends an assignment of a part and not of all. Routes give
// each part as much. They lead to it by an entry: an aggregate cluster of the
// part and the next ones, which get its requests while it has no endpoint that
// can take them.
//
// An endpoint belongs to the part that a hash of its address says, so that no
// other one moves when it comes or goes. Parts have the number of parts in
// their names: another number makes other clusters, and the old ones serve
// until the new ones are there.

const (
	partSize = 1000 // endpoints of a backend, of all members, from which it is split
	maxParts = 64
	// dealtFrom is how many endpoints of a tier a part has to get for the tier
	// to be dealt out. Of fewer, chance would give parts too unequal numbers, or
	// none, and requests would leave a tier that has room: each part has them all.
	dealtFrom = 32
	// fallbackParts is how many parts follow after the first in an entry.
	fallbackParts = 2
)

// Parts is a number of parts, a power of two.
type Parts int32

// Equal reports whether both are the same.
func (a Parts) Equal(b Parts) bool { return a == b }

// parts decides the number for n endpoints, from the last one: it grows as soon
// as parts would be larger than size, and shrinks when they are below a third of it.
//
// The last number is an input, not a memory: who runs the program stores each
// row of Tables.Parts in Tables.LastParts. It settles at once, since
// parts(parts(last)) is parts(last).
func parts(last Parts, n, size int) Parts {
	need := Parts(1)
	for need < maxParts && int(need)*size < n {
		need *= 2
	}
	if need < last && 3*n >= int(last)*size {
		return last
	}
	return need
}

// partsOf counts the endpoints of a backend. The last number is read only where it
// may count: a backend that was split has two parts at least.
func (d *derivation) partsOf(r *inc.Reader, b model.Backend) Parts {
	n, last := 0, Parts(0)
	for _, shape := range d.shapesOfBackend.Get(r, b) {
		for _, zone := range shape.Zones {
			n += int(zone.Ready + zone.Draining)
		}
	}
	if 3*n >= 2*d.sizes.part {
		last, _ = d.lastParts.Get(r, b)
	}
	return parts(last, n, d.sizes.part)
}

const entryMark = "from-"

// part names the assignment of part i: "shop/web/http/0-of-4". A backend that is
// not split is its only part.
func (n clusterName) part(i int) string {
	if n.parts <= 1 {
		return n.name
	}
	return n.name + "/" + strconv.Itoa(i) + n.ofParts()
}

// cluster names the cluster of part i.
func (n clusterName) cluster(i int) string {
	n.name = n.spoken()
	return n.part(i)
}

// entry names the cluster that routes to part i lead to: "shop/web/http/from-0-of-4".
func (n clusterName) entry(i int) string {
	if n.parts <= 1 {
		return n.spoken()
	}
	return n.spoken() + "/" + entryMark + strconv.Itoa(i) + n.ofParts()
}

func (n clusterName) ofParts() string { return "-of-" + strconv.Itoa(int(n.parts)) }

// entries are the clusters that routes lead to.
func (n clusterName) entries() []string {
	out := make([]string, max(n.parts, 1))
	for i := range out {
		out[i] = n.entry(i)
	}
	return out
}

// clusters are all that there are of a backend.
func (n clusterName) clusters() []string {
	out := n.entries()
	if n.parts > 1 {
		for i := range int(n.parts) {
			out = append(out, n.cluster(i))
		}
	}
	return out
}

// find tells which part a cluster is of, and whether it is the part's entry.
func (n clusterName) find(name string) (i int, entry bool) {
	rest, entry := strings.CutPrefix(strings.TrimPrefix(name, n.spoken()+"/"), entryMark)
	i, _ = strconv.Atoi(strings.TrimSuffix(rest, n.ofParts()))
	return i, entry && n.parts > 1
}

// from are the parts that the entry of part i tries, in order.
func (n clusterName) from(i int) []string {
	var out []string
	for j := range min(1+fallbackParts, int(n.parts)) {
		out = append(out, n.cluster((i+j)%int(n.parts)))
	}
	return out
}

// deal gives each of n parts its endpoints of each locality.
//
// The weight of a locality goes by its share of the endpoints, times n so that
// little is lost in whole numbers. Weights that count endpoints, as the plan's
// do, thereby count those of the part: an endpoint that comes or goes leaves
// the other parts as they are.
func deal(all []locality, n Parts, dealtFrom int) [][]locality {
	tiers := map[uint32]int{}
	for _, l := range all {
		tiers[l.priority] += len(l.endpoints)
	}
	out := make([][]locality, n)
	for _, l := range all {
		if tiers[l.priority] < dealtFrom*int(n) {
			for i := range out {
				out[i] = appendLocality(out[i], l)
			}
			continue
		}
		whole := uint64(len(l.endpoints))
		for i, endpoints := range l.dealt(n) {
			if share := uint64(len(endpoints)); share > 0 {
				p := l
				p.endpoints, p.weight = endpoints, uint32(max(1, uint64(l.weight)*uint64(n)*share/whole))
				out[i] = appendLocality(out[i], p)
			}
		}
	}
	return out
}

func (l *locality) dealt(n Parts) [][]endpoint {
	out := make([][]endpoint, n)
	for _, e := range l.endpoints {
		i := e.part(n)
		if out[i] == nil {
			out[i] = make([]endpoint, 0, len(l.endpoints)/int(n)*5/4)
		}
		out[i] = append(out[i], e)
	}
	return out
}

// part is the one of n that an endpoint belongs to (FNV-1a, then the finalizer
// of MurmurHash3, so that the low bits depend on all).
func (e endpoint) part(n Parts) int {
	h := uint64(14695981039346656037)
	for _, b := range e.addr.As16() {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ uint64(e.port)) * 1099511628211
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return int(h & uint64(n-1))
}
