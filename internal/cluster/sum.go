package cluster

import (
	"hash/maphash"

	"github.com/spillway-dev/spillway/internal/model"
)

// The sums of values see all that their Equal looks at: a test changes each
// field. A list is preceded by its length, so that no two give one stream. What
// is interned is summed by its content: its address is new once the collector
// has taken the last one who had it.

func sumService(h *maphash.Hash, v model.ServiceSpec) {
	maphash.WriteComparable(h, v.Kind)
	maphash.WriteComparable(h, v.External)
	sumList(h, v.Ports)
}

func sumExport(h *maphash.Hash, v model.Export) { maphash.WriteComparable(h, v) }

func sumSlice(h *maphash.Hash, v model.Slice) {
	sumList(h, v.Ports)
	maphash.WriteComparable(h, v.Endpoints.Len())
	for e := range v.Endpoints.All() {
		maphash.WriteComparable(h, e.Addr)
		maphash.WriteComparable(h, e.Zone.String())
		maphash.WriteComparable(h, uint32(e.Port)<<8|uint32(e.State))
	}
}

func sumRoot(h *maphash.Hash, v model.Root) {
	maphash.WriteComparable(h, v.Created)
	maphash.WriteComparable(h, v.Classes)
	maphash.WriteComparable(h, v.Published)
	maphash.WriteComparable(h, v.Ours)
	maphash.WriteComparable(h, v.Default != nil)
	if v.Default != nil {
		sumBackend(h, *v.Default)
	}
	maphash.WriteComparable(h, len(v.TLS))
	for i := range v.TLS {
		t := &v.TLS[i]
		maphash.WriteComparable(h, t.Secret)
		maphash.WriteComparable(h, t.Field)
		maphash.WriteComparable(h, t.All)
		sumList(h, t.Hosts)
	}
	sumRoute(h, v.Route)
	maphash.WriteComparable(h, v.Admit != nil)
	if v.Admit != nil {
		maphash.WriteComparable(h, *v.Admit)
	}
}

func sumRoute(h *maphash.Hash, r *model.RouteSpec) {
	maphash.WriteComparable(h, r != nil)
	if r == nil {
		return
	}
	maphash.WriteComparable(h, r.Generation)
	maphash.WriteComparable(h, r.Broken)
	maphash.WriteComparable(h, r.Refused)
	sumList(h, r.Parents)
}

func sumRules(h *maphash.Hash, v model.Rules) {
	maphash.WriteComparable(h, len(v))
	for i := range v {
		r := &v[i]
		maphash.WriteComparable(h, r.Name)
		maphash.WriteComparable(h, r.Field)
		maphash.WriteComparable(h, len(r.Matches))
		for _, m := range r.Matches {
			maphash.WriteComparable(h, m.Kind)
			maphash.WriteComparable(h, m.Path)
			maphash.WriteComparable(h, m.When.Key())
		}
		maphash.WriteComparable(h, len(r.Backends))
		for _, b := range r.Backends {
			sumBackend(h, b.Backend)
			maphash.WriteComparable(h, b.Weight)
			maphash.WriteComparable(h, b.Filters.Key())
		}
		sumReply(h, r.Reply)
		maphash.WriteComparable(h, r.Filters.Key())
	}
}

func sumReply(h *maphash.Hash, r *model.Reply) {
	maphash.WriteComparable(h, r != nil)
	if r == nil {
		return
	}
	maphash.WriteComparable(h, r.Status)
	maphash.WriteComparable(h, r.Body)
	maphash.WriteComparable(h, r.Redirect != nil)
	if r.Redirect != nil {
		maphash.WriteComparable(h, *r.Redirect)
	}
}

func sumBackend(h *maphash.Hash, b model.Backend) {
	k := b.Key()
	maphash.WriteComparable(h, k.Workspace)
	maphash.WriteComparable(h, k.Service.Key())
	maphash.WriteComparable(h, k.Port)
}

func sumList[T comparable](h *maphash.Hash, list []T) {
	maphash.WriteComparable(h, len(list))
	for _, v := range list {
		maphash.WriteComparable(h, v)
	}
}
