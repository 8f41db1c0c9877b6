package cluster

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unique"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// colliding returns names of which some have equal hashes.
func colliding(t *testing.T) []name {
	by := map[uint32]name{}
	var out []name
	for i := 0; len(out) < 6; i++ {
		if i > 1<<21 {
			t.Fatal("no hashes collide")
		}
		n := name{"shop", fmt.Sprint(i)}
		if other, ok := by[hashOf(n)]; ok {
			out = append(out, n, other)
		}
		by[hashOf(n)] = n
	}
	return append(out, name{"shop", "web"}, name{"", "web"})
}

// TestShelfTwin puts and drops objects whose hashes collide, in both forms, with
// parts and without, and compares with a map.
func TestShelfTwin(t *testing.T) {
	names := colliding(t)
	g := inc.New()
	table, parts := inc.Input[text, text](g, "table"), inc.Input[text, text](g, "parts")
	both := withParts{shortKey(table), kindOf[text, text]{
		table: parts,
		key:   func(n name, also string) text { return text(n.name + "/" + also) },
		also: func(k text) string {
			_, also, _ := strings.Cut(string(k), "/")
			return also
		},
		sum: func(h *maphash.Hash, v text) { maphash.WriteComparable(h, v) },
	}}
	rapid.Check(t, func(t *rapid.T) {
		s, want := newShelf(both), map[name][]fact{}
		value := func() text { return text(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value")) }
		draw := func(n name) []fact {
			facts := []fact{row[text, text]{table, text(n.name), value()}}
			for i := range rapid.IntRange(0, 3).Draw(t, "parts") {
				facts = append(facts, row[text, text]{parts, text(fmt.Sprint(n.name, "/", i)), value()})
			}
			return facts
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.SampledFrom(names).Draw(t, "name")
			facts := draw(n)
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 4:
				s.shrink(0)
				continue
			case 0:
				s.drop(n)
				delete(want, n)
				continue
			case 1: // has no short form
				facts = append(facts, row[text, text]{table, "more", "x"})
			}
			s.put(n, facts, packedAs(both, n, facts), weight{})
			want[n] = facts
		}
		for _, n := range names {
			there, ok := want[n]
			known, has := s.facts(n)
			if has != ok || len(known) != len(there) {
				t.Fatalf("%v has facts %v, want %v", n, known, there)
			}
			facts := draw(n)
			equal := func(a, b fact) bool { return a.equal(b) }
			if same := s.same(n, facts, packedAs(both, n, facts)); same != slices.EqualFunc(there, facts, equal) {
				t.Fatalf("%v: same as %v is %t, of %v", n, facts, same, there)
			}
			find := finder(known)
			for _, f := range facts {
				was, is := find(f), slices.IndexFunc(there, f.is)
				if (was != nil) != (is >= 0) || is >= 0 && was.equal(f) != there[is].equal(f) {
					t.Fatalf("%v: %v is %v, of %v", n, f, was, there)
				}
			}
		}
		if got := s.names(every); len(got) != len(want) {
			t.Fatalf("%d names, want %d", len(got), len(want))
		}
	})
}

// TestSumsKnowEveryField changes one field at a time, however deep: a sum that
// forgets one would let a change go unnoticed for ever.
func TestSumsKnowEveryField(t *testing.T) {
	knows(t, model.ServiceSpec{}, sumService)
	knows(t, model.Slice{}, sumSlice)
	knows(t, model.Endpoint{}, func(h *maphash.Hash, e model.Endpoint) { sumSlice(h, model.Slice{Endpoints: model.EndpointsOf(e)}) })
	knows(t, model.Root{}, sumRoot)
	knows(t, model.Rules{}, sumRules)
}

// TestSumsAreOfContents: what is interned has a new address once nobody had it.
func TestSumsAreOfContents(t *testing.T) {
	of := func(i int) (sums [3]uint64) {
		name := fmt.Sprintf("web-%d", i)
		backend := model.BackendKey{Service: model.ServiceOf("shop", name)}.Backend()
		for i, sum := range []func(*maphash.Hash){
			func(h *maphash.Hash) {
				sumSlice(h, model.Slice{Endpoints: model.EndpointsOf(model.Endpoint{Zone: model.ZoneOf(name)})})
			},
			func(h *maphash.Hash) { sumRoot(h, model.Root{Default: &backend}) },
			func(h *maphash.Hash) {
				sumRules(h, model.Rules{{Backends: []model.WeightedBackend{{Backend: backend}}}})
			},
		} {
			var h maphash.Hash
			h.SetSeed(seed)
			sum(&h)
			sums[i] = h.Sum64()
		}
		return sums
	}
	const n = 1000
	all := func() (out [n][3]uint64) {
		for i := range out {
			out[i] = of((i * 7) % n) // in turn, so that addresses go to others
		}
		return out
	}
	before := all()
	runtime.GC()
	runtime.GC()
	of(n)
	if all() != before {
		t.Error("sums of equal values differ")
	}
}

func knows[V any](t *testing.T, zero V, sum func(*maphash.Hash, V)) {
	t.Helper()
	of := func(v V) uint64 {
		var h maphash.Hash
		h.SetSeed(seed)
		sum(&h, v)
		return h.Sum64()
	}
	seen := map[uint64]string{of(zero): "nothing"}
	variants(reflect.ValueOf(&zero).Elem(), reflect.TypeFor[V]().Name(), func(what string) {
		if was, ok := seen[of(zero)]; ok {
			t.Errorf("the sum with %s is that with %s", what, was)
		}
		seen[of(zero)] = what
	})
}

// others are values that are changed as a whole.
var others = []any{
	netip.MustParseAddr("192.0.2.1"), model.EndpointsOf(model.Endpoint{Addr: netip.MustParseAddr("192.0.2.1")}), model.ZoneOf("a"), model.TextsOf([]string{"a"}), unique.Make("a"), model.ServiceOf("a", "b"), model.BackendKey{Service: model.ServiceOf("a", "b")}.Backend(),
	model.ConditionsKey{Method: "POST"}.Conditions(), model.FiltersKey{Rewrite: model.Rewrite{Host: "a"}}.Filters(),
}

// variants calls f with each part of v set in turn.
func variants(v reflect.Value, what string, f func(string)) {
	set := func(to reflect.Value, what string) {
		old := reflect.ValueOf(v.Interface())
		v.Set(to)
		f(what)
		v.Set(old)
	}
	if i := slices.IndexFunc(others, func(o any) bool { return reflect.TypeOf(o) == v.Type() }); i >= 0 {
		set(reflect.ValueOf(others[i]), what)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			variants(v.Field(i), what+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		old := reflect.ValueOf(v.Interface())
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f(what + " of one")
		variants(v.Index(0), what+"[0]", f)
		v.Set(old)
	case reflect.Pointer:
		old := reflect.ValueOf(v.Interface())
		v.Set(reflect.New(v.Type().Elem()))
		f("*" + what)
		variants(v.Elem(), "*"+what, f)
		v.Set(old)
	case reflect.String:
		set(reflect.ValueOf("x").Convert(v.Type()), what)
	case reflect.Bool:
		set(reflect.ValueOf(true), what)
	default:
		set(reflect.ValueOf(7).Convert(v.Type()), what)
	}
}

// TestAlike: equal lists share their memory, others don't, and what is
// remembered is bounded.
func TestAlike(t *testing.T) {
	var a alike[model.SlicePort]
	list := func(n uint16) []model.SlicePort { return []model.SlicePort{{Name: "http", Number: n}} }
	first, again, other := a.of(list(80)), a.of(list(80)), a.of(list(81))
	if &first[0] != &again[0] || other[0].Number != 81 {
		t.Errorf("%v, %v and %v", first, again, other)
	}
	for i := range 3 * mostAlike {
		if got := a.of(list(uint16(i))); got[0].Number != uint16(i) || len(a.seen) > mostAlike {
			t.Fatalf("%v after %d; %d are kept", got, i, len(a.seen))
		}
	}
}
