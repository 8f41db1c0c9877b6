package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
)

// A fleet has many Services that nothing on the hub refers to, and most of what changes
// in it are their pods. They give no rows: of a member's Services those wait aside, and
// EndpointSlices are dropped as they come. When an object of the hub refers to another
// Service, the members that have it are asked for its EndpointSlices, and the object
// waits for them (asks.go): a route that is edited is never without the endpoints that
// are there.

// SpareAfter is how long a Service is read on to which nothing refers any more: what is
// deleted and made again costs no question.
const SpareAfter = 10 * time.Minute

// lately is how long a topic counts as referred to by an object that named it.
const lately = SpareAfter / 2

// reads are the topics that something refers to. What an
// object referred to before it changed is not known here, so that they become more by
// themselves, and who knows all references says which have none: see Members.Spare.
type reads[T comparable] struct {
	now func() time.Time

	mu      sync.RWMutex
	limited bool        // only these are read; else all are
	since   map[T]int64 // when an object last named it, in Unix seconds
}

func newReads[T comparable](now func() time.Time) *reads[T] {
	return &reads[T]{now: now, since: map[T]int64{}}
}

// has reports whether a topic is read.
func (r *reads[T]) has(s T) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.limited {
		return true
	}
	_, ok := r.since[s]
	return ok
}

// some reports whether not everything is read.
func (r *reads[T]) some() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.limited
}

// add notes that something refers to topics, and returns those that were not read
// before.
func (r *reads[T]) add(topics []T) (more []T) {
	at := r.now().Unix()
	r.mu.RLock()
	late := false
	for _, s := range topics {
		since, ok := r.since[s]
		late = late || !ok || at-since > int64(lately/time.Second)
	}
	r.mu.RUnlock()
	if !late {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range topics {
		if _, ok := r.since[s]; !ok && r.limited {
			more = append(more, s)
		}
		r.since[s] = at
	}
	return more
}

// limit has only these be read from now on.
func (r *reads[T]) limit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limited = true
}

// drop has a topic be read no more to which nothing refers, unless an object has named
// it lately: that may be on its way.
func (r *reads[T]) drop(s T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, ok := r.since[s]
	if ok && r.now().Unix()-since < int64(lately/time.Second) {
		return false
	}
	delete(r.since, s)
	return true
}

// all are the topics that are read.
func (r *reads[T]) all() []T {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]T, 0, len(r.since))
	for s := range r.since {
		out = append(out, s)
	}
	return out
}

// referred are the Services that facts of an object of the hub refer to.
func referred(facts []fact) (out []model.Service) {
	for _, f := range facts {
		switch f := f.(type) {
		case row[model.Object, model.Root]:
			if f.v.Default != nil {
				out = append(out, f.v.Default.Service())
			}
		case row[model.RulesID, model.Rules]:
			for _, b := range fleet.NamedBy(f.k.Root, f.v) {
				out = append(out, b.Service())
			}
		}
	}
	return out
}

// Remember takes over what a checkpoint refers to: from then on members give rows only of
// that, and of what else something refers to. Call it before Adopt.
func (f *Members) Remember(past Past) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rows(past, f.in.Members) {
		if len(r.v.Spaces) > 0 {
			f.member(r.k).spaces.Store(&r.v.Spaces)
		}
	}
	var all []model.Service
	for _, r := range rows(past, f.in.Roots) {
		all = append(all, referred([]fact{r})...)
	}
	for _, r := range rows(past, f.in.Rules) {
		all = append(all, referred([]fact{r})...)
	}
	for _, r := range rows(past, f.in.Exports) {
		all = append(all, f.member(r.k.Member).called(r.k.Service))
	}
	f.reads.add(all)
	f.reads.limit()
}

// Limit has members give rows only of what something refers to, once what the hub has is
// in the tables. The caller is inside a later commit.
func (f *Members) Limit() {
	f.reads.limit()
	for _, k := range f.in.Services.Keys() {
		v, _ := f.in.Services.Get(nil, k)
		f.spare(k, v)
	}
	f.sweep()
}

// Spare has a Service give no rows to which nothing refers any more, and reports whether
// it does: an object that names it may be on its way. The caller is inside a commit.
func (f *Members) Spare(s model.Service) bool {
	if !f.reads.drop(s) {
		return false
	}
	f.asks.forget(s)
	for _, m := range f.everyone() {
		n, ok := m.nameOf(s)
		if !ok {
			continue
		}
		k := model.MemberService{Service: model.ServiceOf(n.namespace, n.name), Member: m.id}
		if v, there := f.in.Services.Get(nil, k); there {
			f.spare(k, v)
		}
	}
	return true
}

// Sweep drops EndpointSlices of what is not read any more. Any goroutine may call it.
func (f *Members) Sweep() { f.sweep() }

func (f *Members) sweep() {
	f.all.Go(func() {
		for _, m := range f.everyone() {
			m.services.sweep(func(fact) bool { return true }) // of those that were put aside
			m.slices.sweep(func(of fact) bool {
				r, ok := of.(placed[model.SliceID, model.Slice])
				return !ok || m.reads.has(m.called(r.at().k.Service))
			})
		}
	})
}

// spare puts a Service aside, given its row.
func (f *Members) spare(k model.MemberService, v model.ServiceSpec) {
	f.mu.Lock()
	m := f.members[k.Member]
	f.mu.Unlock()
	if m == nil || f.reads.has(m.called(k.Service)) {
		return
	}
	m.services.spare(name{k.Service.Namespace(), k.Service.Name()}, row[model.MemberService, model.ServiceSpec]{f.in.Services, k, v})
}

// everyone are the members that there are. It takes no lock: who asks has that of a store,
// which is taken under that of Members when one leaves.
func (f *Members) everyone() []*member {
	if all := f.present.Load(); all != nil {
		return *all
	}
	return nil
}

// counted says that members came or went; f.mu is held.
func (f *Members) counted() {
	all := slices.Collect(maps.Values(f.members))
	f.present.Store(&all)
}

// called is what most members call a Service of this one; of a namespace that is no
// other member's, that Service itself.
func (m *member) called(s model.Service) model.Service {
	all := m.spaces.Load()
	if all == nil || len(*all) == 0 {
		return s
	}
	k := s.Key()
	of, ok := all.Back(k.Namespace)
	if !ok || of == k.Namespace {
		return s
	}
	k.Namespace = of
	return k.Service()
}

// nameOf is what the member calls a Service, given as most do; false: it has none.
func (m *member) nameOf(s model.Service) (name, bool) {
	as, ok := s.Namespace(), true
	if all := m.spaces.Load(); all != nil {
		as, ok = all.In(as)
	}
	return name{as, s.Name()}, ok
}
