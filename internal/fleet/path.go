package fleet

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// report is a report and the path that it is about.
type report struct {
	path    model.Path
	failing bool
}

func (a report) Equal(b report) bool { return a == b }

// declarePaths brings together what all proxies of one place report of a
// member. One that has no canaries has seen nothing.
func (d *program) declarePaths(g *inc.Graph) {
	places := inc.Derive(g, "places", func(r *inc.Reader, e model.Edge) (inc.Val[model.Place], bool) {
		spec, ok := d.In.Edges.Get(r, e)
		return inc.ValOf(spec.Place), ok
	}, d.In.Edges)
	reports := inc.Derive(g, "reports of places", func(r *inc.Reader, id model.ReportID) (report, bool) {
		from, known := places.Get(r, id.Edge)
		seen, ok := d.In.Reports.Get(r, id)
		return report{model.Path{From: from.V, Member: id.Member}, seen.Failing >= seen.Canaries}, ok && known && seen.Canaries > 0
	}, d.In.Reports)
	ofPath := inc.IndexBy(reports, func(_ model.ReportID, o report) []model.Path { return []model.Path{o.path} })
	d.Paths = inc.Derive(g, "paths", func(r *inc.Reader, p model.Path) (PathHealth, bool) {
		all := ofPath.Get(r, p)
		health := model.Up
		if !slices.ContainsFunc(all, func(o report) bool { return !o.failing }) {
			health = model.Down
		}
		return PathHealth{Health: health, Proxies: len(all)}, true
	}, ofPath)
	d.declareSights(g)
}

// sightID names a member as seen from a vantage.
type sightID struct {
	from   model.Vantage
	member model.Member
}

// Compare orders by vantage and member.
func (a sightID) Compare(b sightID) int {
	return cmp.Or(a.from.Compare(b.from), a.member.Compare(b.member))
}

// String is the member and the vantage.
func (a sightID) String() string { return string(a.member) + " from " + a.from.String() }

// sight is all that placing traffic at a vantage needs to know of a member. One
// that can't be dialled from there has none.
type sight struct {
	place  model.Place
	health model.Health
	serves bool // it may get new requests
	barred bool // it is tainted: not even as the last one left
	drains bool
	stale  bool // it has been away for too long
	old    bool // what is known of it is of an old checkpoint
}

func (a sight) Equal(b sight) bool { return a == b }

func (d *program) declareSights(g *inc.Graph) {
	pairs := inc.Derive(g, "members of vantages", func(r *inc.Reader, _ model.Vantage) (inc.List[model.Member], bool) {
		return d.allStands.Keys(r, model.All{}), true
	}, d.edgesAt, d.hostsAt)
	keys := inc.IndexBy(pairs, func(v model.Vantage, members inc.List[model.Member]) []sightID {
		out := make([]sightID, len(members))
		for i, m := range members {
			out[i] = sightID{v, m}
		}
		return out
	})
	d.sights = inc.Derive(g, "sights", func(r *inc.Reader, k sightID) (sight, bool) {
		at, ok := d.stands.Get(r, k.member)
		if !ok || !Dials(k.from, at.networks) {
			return sight{}, false
		}
		path, _ := d.Paths.Get(r, model.Path{From: k.from.Place(), Member: k.member})
		missing, _ := d.Missing.Get(r, k.member)
		_, stale := d.In.Stale.Get(r, k.member)
		return sight{place: at.place, health: path.Health, serves: at.serves, barred: at.barred, drains: at.drains, stale: stale, old: missing.Old}, true
	}, keys)
}
