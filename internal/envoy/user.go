package envoy

import (
	"cmp"
	"slices"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// user is a class and a backend that its hosts use.
type user struct {
	backend model.Backend
	class   model.Class
}

func (a user) Compare(b user) int {
	return cmp.Or(a.backend.Compare(b.backend), a.class.Compare(b.class))
}

// declareUsers says which classes use a backend, where a front has several: a
// class that does not use it has no say in its clusters. A host that goes on
// using it changes nothing.
func (d *derivation) declareUsers(g *inc.Graph) {
	d.hostsOfUser = inc.IndexBy(d.p.Hosts, func(key model.HostKey, h fleet.Host) []user {
		var out []user
		eachTarget(h, func(t fleet.Target) {
			for _, b := range t.Backends {
				out = append(out, user{b.Backend, key.Class})
			}
		})
		return out
	})
	shared := inc.IndexBy(d.needs, func(need fleet.NeedID, _ clusterName) []user {
		list := fleet.ClassList(need.Front.Classes())
		if !list.Shared() {
			return nil
		}
		var out []user
		for _, c := range list.Classes() {
			out = append(out, user{need.Backend, c})
		}
		return out
	})
	d.users = inc.Derive(g, "envoy.users", func(r *inc.Reader, k user) (model.There, bool) {
		return model.There{}, d.hostsOfUser.Has(r, k)
	}, shared)
}

// impatience is the timing of a cluster: the shortest of the classes that use
// its backend.
func (d *derivation) impatience(r *inc.Reader, need fleet.NeedID) timing {
	list, b := fleet.ClassList(need.Front.Classes()), need.Backend
	users := list.Classes()
	if list.Shared() {
		users = slices.DeleteFunc(users, func(c model.Class) bool { _, ok := d.users.Get(r, user{b, c}); return !ok })
	}
	out := usualTiming
	for _, c := range users {
		t, ok := d.timings.Get(r, c)
		if ok && t.ConnectTimeout > 0 && (out.ConnectTimeout == 0 || t.ConnectTimeout < out.ConnectTimeout) {
			out = t
		}
	}
	return out
}
