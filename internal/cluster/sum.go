package cluster

import (
	"hash/maphash"

	"github.com/spillway-dev/spillway/internal/model"
)

// The sums of values see all that their Equal looks at: a test changes each
// field. A list is preceded by its length, so that no two give one stream.

func sumService(h *maphash.Hash, v model.ServiceSpec) {
	maphash.WriteComparable(h, v.Kind)
	maphash.WriteComparable(h, v.External)
	sumList(h, v.Ports)
}

func sumSlice(h *maphash.Hash, v model.Slice) {
	sumList(h, v.Ports)
	sumList(h, v.Endpoints)
}

func sumRoot(h *maphash.Hash, v model.Root) {
	maphash.WriteComparable(h, v.Created)
	maphash.WriteComparable(h, v.Class)
	maphash.WriteComparable(h, v.Published)
	maphash.WriteComparable(h, v.Ours)
	maphash.WriteComparable(h, v.Default != nil)
	if v.Default != nil {
		maphash.WriteComparable(h, *v.Default)
	}
	maphash.WriteComparable(h, len(v.TLS))
	for i := range v.TLS {
		t := &v.TLS[i]
		maphash.WriteComparable(h, t.Secret)
		maphash.WriteComparable(h, t.Field)
		maphash.WriteComparable(h, t.All)
		sumList(h, t.Hosts)
	}
}

func sumRules(h *maphash.Hash, v model.Rules) {
	maphash.WriteComparable(h, len(v))
	for i := range v {
		r := &v[i]
		maphash.WriteComparable(h, r.Match)
		maphash.WriteComparable(h, r.Field)
		sumList(h, r.Backends)
	}
}

func sumList[T comparable](h *maphash.Hash, list []T) {
	maphash.WriteComparable(h, len(list))
	for _, v := range list {
		maphash.WriteComparable(h, v)
	}
}
