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

// dials reports whether edges with these networks, joined by ",", reach the
// member's pods.
func (a stand) dials(networks string) bool {
	for n := range strings.SplitSeq(networks, ",") {
		if slices.Contains(a.networks, n) {
			return true
		}
	}
	return networks == "" && len(a.networks) == 0
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
	d.Missing = inc.Derive(g, "missing", func(r *inc.Reader, m model.Member) (Missing, bool) {
		spec, ok := members.Get(r, m)
		_, read := d.In.Sources.Get(r, m)
		return Missing{}, ok && spec.Seen && spec.Serves() && !read
	}, members)
	d.missing = inc.IndexBy(d.Missing, func(model.Member, Missing) []all { return []all{{}} })
}

// report is a report and the path that it is about.
type report struct {
	path    model.Path
	failing bool
}

func (a report) Equal(b report) bool { return a == b }

// declarePaths brings together what all proxies of one place report of a
// member. One that has no canaries has seen nothing.
func (d *program) declarePaths(g *inc.Graph) {
	places := inc.Derive(g, "places", func(r *inc.Reader, e model.Edge) (place, bool) {
		spec, ok := d.In.Edges.Get(r, e)
		return place{spec.Place}, ok
	}, d.In.Edges)
	reports := inc.Derive(g, "reports of places", func(r *inc.Reader, id model.ReportID) (report, bool) {
		from, known := places.Get(r, id.Edge)
		seen, ok := d.In.Reports.Get(r, id)
		return report{model.Path{From: from.Place, Member: id.Member}, seen.Failing >= seen.Canaries}, ok && known && seen.Canaries > 0
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
	d.verdicts = inc.Derive(g, "verdicts", func(r *inc.Reader, p model.Path) (model.Health, bool) {
		h, ok := d.Paths.Get(r, p)
		return h.Health, ok
	}, d.Paths)
}

// place is a Place as a value.
type place struct{ model.Place }

func (a place) Equal(b place) bool { return a == b }
