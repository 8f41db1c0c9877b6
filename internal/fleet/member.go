package fleet

import (
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// age is when a member came to be.
type age int64

func (a age) Equal(b age) bool { return a == b }

// home is the zone of endpoints that have none of their own.
type home struct{ model.Zone }

func (a home) Equal(b home) bool { return a == b }

// stand is what placing traffic needs to know of a member.
type stand struct {
	place    model.Place
	networks []string
	serves   bool // it may get new requests
	barred   bool // it is tainted: not even as the last one left
}

func (a stand) Equal(b stand) bool {
	return a.place == b.place && slices.Equal(a.networks, b.networks) && a.serves == b.serves && a.barred == b.barred
}

// Dials reports whether the edges of a view reach the pods of a member with
// these networks without a gateway.
func Dials(view model.View, networks []string) bool {
	joined := view.Networks()
	for n := range strings.SplitSeq(joined, ",") {
		if slices.Contains(networks, n) {
			return true
		}
	}
	return joined == "" && len(networks) == 0
}

func (d *program) declareMembers(g *inc.Graph) {
	members := d.In.Members
	d.ages = inc.Derive(g, "ages", func(r *inc.Reader, m model.Member) (age, bool) {
		spec, ok := members.Get(r, m)
		return age(spec.Created), ok
	}, members)
	d.homes = inc.Derive(g, "homes", func(r *inc.Reader, m model.Member) (home, bool) {
		spec, ok := members.Get(r, m)
		return home{model.ZoneOf(spec.Place.Zone)}, ok
	}, members)
	d.stands = inc.Derive(g, "stands", func(r *inc.Reader, m model.Member) (stand, bool) {
		spec, ok := members.Get(r, m)
		return stand{place: spec.Place, networks: spec.Networks, serves: spec.Serves(), barred: len(spec.Taints) > 0}, ok
	}, members)
	d.allStands = inc.IndexBy(d.stands, func(model.Member, stand) []all { return []all{{}} })
	d.Missing = inc.Derive(g, "missing", func(r *inc.Reader, m model.Member) (Missing, bool) {
		spec, ok := members.Get(r, m)
		_, read := d.In.Sources.Get(r, m)
		return Missing{}, ok && spec.Seen && spec.Serves() && !read
	}, members)
	d.missing = inc.IndexBy(d.Missing, func(model.Member, Missing) []all { return []all{{}} })
}
