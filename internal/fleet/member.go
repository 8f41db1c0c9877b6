package fleet

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// home is what a group needs to know of a member.
type home struct {
	zone   model.Zone     // of endpoints that have none of their own
	fenced bool           // they may be in ranges only
	ranges []netip.Prefix // sorted
}

func (a home) Equal(b home) bool {
	return a.zone == b.zone && a.fenced == b.fenced && slices.Equal(a.ranges, b.ranges)
}

// allows reports whether an endpoint of the member may be there.
func (a home) allows(ip netip.Addr) bool {
	return !a.fenced || slices.ContainsFunc(a.ranges, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// stand is what placing traffic needs to know of a member.
type stand struct {
	place    model.Place
	networks []string
	serves   bool // it may get new requests
	barred   bool // it is tainted, or another member's cluster: not even as the last one left
	drains   bool
}

func (a stand) Equal(b stand) bool {
	return a.place == b.place && slices.Equal(a.networks, b.networks) && a.serves == b.serves && a.barred == b.barred && a.drains == b.drains
}

// Dials reports whether edges at a vantage reach the pods of a member with these
// networks without a gateway.
func Dials(from model.Vantage, networks []string) bool {
	joined := from.Networks()
	for n := range strings.SplitSeq(joined, ",") {
		if slices.Contains(networks, n) {
			return true
		}
	}
	return joined == "" && len(networks) == 0
}

func (d *program) declareMembers(g *inc.Graph) {
	members := d.In.Members
	d.ages = inc.Derive(g, "ages", func(r *inc.Reader, m model.Member) (inc.Val[int64], bool) {
		spec, ok := members.Get(r, m)
		return inc.ValOf(spec.Created), ok
	}, members)
	d.twins = inc.IndexBy(d.In.Clusters, func(_ model.Member, id inc.Val[model.ClusterID]) []model.ClusterID { return []model.ClusterID{id.V} })
	d.homes = inc.Derive(g, "homes", func(r *inc.Reader, m model.Member) (home, bool) {
		spec, ok := members.Get(r, m)
		return home{model.ZoneOf(spec.Place.Zone), spec.Fenced, spec.PodRanges}, ok
	}, members)
	d.stands = inc.Derive(g, "stands", func(r *inc.Reader, m model.Member) (stand, bool) {
		spec, ok := members.Get(r, m)
		at := stand{place: spec.Place, networks: spec.Networks, serves: spec.Serves(), barred: len(spec.Taints) > 0, drains: spec.Drains()}
		if _, again := d.older(r, m); again {
			at.serves, at.barred = false, true
		}
		return at, ok
	}, members)
	d.allStands = inc.IndexBy(d.stands, func(model.Member, stand) []model.All { return []model.All{{}} })
	d.Missing = inc.Derive(g, "missing", d.missingOf, members)
	d.hidden = inc.IndexBy(d.Missing, func(model.Member, Missing) []model.All { return []model.All{{}} })
	d.missing = inc.IndexBy(d.Missing, func(_ model.Member, row Missing) []model.All {
		if row.Barred {
			return nil
		}
		return []model.All{{}}
	})
	d.anyMissing = inc.Derive(g, "something is missing", func(*inc.Reader, model.All) (model.There, bool) { return model.There{}, true }, d.missing)
}

// older is the oldest member that is the same cluster as this one, if that is
// another: its endpoints are the same, and count once.
func (d *program) older(r *inc.Reader, m model.Member) (model.Member, bool) {
	id, known := d.In.Clusters.Get(r, m)
	since, ok := d.ages.Get(r, m)
	if !known || !ok {
		return "", false
	}
	first := m
	for _, other := range d.twins.Keys(r, id.V) {
		age, there := d.ages.Get(r, other)
		if there && cmp.Or(cmp.Compare(age.V, since.V), other.Compare(first)) < 0 {
			first, since = other, age
		}
	}
	return first, first != m
}

// missingOf tells whether a member's rows are missing. A member that is tainted
// has nothing that anybody could use whose Placement does not tolerate it.
func (d *program) missingOf(r *inc.Reader, m model.Member) (Missing, bool) {
	spec, ok := d.In.Members.Get(r, m)
	if !ok {
		return Missing{}, false
	}
	_, read := d.In.Sources.Get(r, m)
	if _, outdated := d.In.Outdated.Get(r, m); read && !outdated {
		return Missing{}, false
	}
	if _, awaited := d.In.Awaited.Get(r, m); !read && !awaited && !spec.Seen {
		return Missing{}, false // it is new: nothing was made of it
	}
	_, overdue := d.In.Overdue.Get(r, m)
	return Missing{Serves: !spec.Drains(), Overdue: overdue, Old: read, Barred: len(spec.Taints) > 0}, true
}

// declareUnread says, for each vantage, which members could be dialled there
// whose rows are missing. Plans read that row, so that a member that is read after
// others makes nobody look again until it is the last one.
func (d *program) declareUnread(g *inc.Graph) {
	d.unread = inc.Derive(g, "unread members", func(r *inc.Reader, v model.Vantage) (steer.Unread, bool) {
		var out steer.Unread
		names, rows := d.missing.Keys(r, model.All{}), d.missing.Get(r, model.All{})
		for i, row := range rows {
			at, _ := d.stands.Get(r, names[i])
			if Dials(v, at.networks) {
				row.add(&out)
			}
		}
		return out, out != steer.Unread{}
	}, d.edgesAt, d.hostsAt)
}

// add has a member be one of those that are unread.
func (a Missing) add(to *steer.Unread) {
	wait := &to.Drained
	if a.Serves {
		wait = &to.Serving
	}
	*wait = max(*wait, a.wait())
}
