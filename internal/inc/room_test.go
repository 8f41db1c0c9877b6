package inc

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// held counts the bytes that a graph keeps, used or not: slices with their
// whole capacity, what pointers lead to once. Of strings and functions it
// counts the headers, of maps the entries; dict has tests of its own.
func held(g *Graph) int {
	seen := map[unsafe.Pointer]bool{}
	return int(reflect.TypeFor[Graph]().Size()) + reach(reflect.ValueOf(g), seen)
}

// reach counts what a value leads to, beside its own size.
func reach(v reflect.Value, seen map[unsafe.Pointer]bool) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.UnsafePointer()] {
			return 0
		}
		seen[v.UnsafePointer()] = true
		return int(v.Type().Elem().Size()) + reach(v.Elem(), seen)
	case reflect.Interface:
		if e := v.Elem(); e.IsValid() && e.Kind() != reflect.Func && !opaque(e.Type()) {
			return reach(e, seen)
		}
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += reach(v.Index(i), seen)
		}
	case reflect.Array:
		for i := range v.Len() {
			n += reach(v.Index(i), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += reach(v.Field(i), seen)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += int(v.Type().Key().Size()+v.Type().Elem().Size()) + reach(it.Value(), seen)
		}
	}
	return n
}

// opaque are types of the runtime.
func opaque(t reflect.Type) bool { return t == reflect.TypeFor[reflect.Type]() }

// TestMemoryOfABurst: what a graph holds is bounded by the rows it has, not by
// those it had.
func TestMemoryOfABurst(t *testing.T) {
	const burst = 100_000
	for _, stay := range []int{0, 1000} {
		t.Run(fmt.Sprintf("%d slices stay", stay), func(t *testing.T) {
			f := newFleet()
			f.load(stay)
			small := held(f.g)
			f.burst(stay, burst)
			large := held(f.g)
			f.end(stay)
			after := held(f.g)
			t.Logf("%d bytes before, %d in the burst, %d after", small, large, after)
			if limit := small*3/2 + 64<<10; after > limit || large < burst*100 {
				t.Errorf("%d bytes before, %d in the burst, %d after: more than %d", small, large, after, limit)
			}
			if err := audit(f.g); err != nil {
				t.Error(err)
			}
		})
	}
}

// burst writes slices until there are n.
func (f *fleet) burst(from, n int) {
	f.g.Commit(func(tx *Tx) {
		for i := from; i < n; i++ {
			k := sliceKey{fmt.Sprint("member-", i%members), "burst", fmt.Sprint(i)}
			f.keys = append(f.keys, k)
			f.slices.Set(tx, k, f.slice(i, 0))
		}
	})
}

// end deletes all slices but the first n.
func (f *fleet) end(n int) {
	f.g.Commit(func(tx *Tx) {
		for _, k := range f.keys[n:] {
			f.slices.Delete(tx, k)
		}
	})
	f.keys = f.keys[:n]
}

// TestMemoryOfAGroup: a group that was large holds what its rows need.
func TestMemoryOfAGroup(t *testing.T) {
	g := New()
	in := Input[num, num](g, "in")
	by := IndexBy(in, func(k, n num) []num { return []num{n} })
	g.Commit(func(tx *Tx) {
		for k := range num(10_000) {
			in.Set(tx, k, 0)
		}
	})
	for _, stay := range []num{100, 2} {
		g.Commit(func(tx *Tx) {
			for k := stay; k < 10_000; k++ {
				in.Delete(tx, k)
			}
		})
		if list := by.list(by.find(0)); len(list) != int(stay) || cap(list) > 4*len(list) {
			t.Errorf("room for %d rows is kept, there are %d", cap(list), len(list))
		}
	}
}

// TestArena: numbers given out are different and keep their memory; what is
// kept beside is bounded by their pages.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a arena[num]
		var notes places
		var given []uint32
		for range rapid.IntRange(1, 20).Draw(t, "bursts") {
			for range rapid.IntRange(0, 5*pageSize).Draw(t, "take") {
				i := a.take()
				if i == 0 || *a.at(i) != 0 || notes.get(i) != 0 {
					t.Fatalf("number %d is given out, which is %d already", i, *a.at(i))
				}
				*a.at(i) = num(i)
				notes.set(i, i)
				given = append(given, i)
			}
			step := rapid.SampledFrom([]int{1, 1, -1, 7}).Draw(t, "order")
			for range min(len(given), rapid.IntRange(0, 8*pageSize).Draw(t, "give")) {
				at := (len(given) + step) % len(given) // the last, the first but one, another
				a.give(given[at])
				notes.clear(given[at])
				given = slices.Delete(given, at, at+1)
			}
			if err := a.audit(); err != nil {
				t.Fatal(err)
			}
			for _, i := range given {
				if *a.at(i) != num(i) || notes.get(i) != i {
					t.Fatalf("number %d has %d, noted %d", i, *a.at(i), notes.get(i))
				}
			}
			if all := slices.Sorted(slices.Values(given)); !slices.Equal(slices.Collect(a.all()), all) {
				t.Fatalf("%d numbers given out, %d told", len(all), a.given)
			}
			bounded(t, "pages", len(a.pages), cap(a.pages))
			bounded(t, "links", len(a.room.links), cap(a.room.links))
			bounded(t, "notes", len(notes.pages), cap(notes.pages))
		}
	})
}

func bounded(t *rapid.T, what string, n, room int) {
	if room > max(4*n, smallRoom) {
		t.Fatalf("room for %d %s is kept, there are %d", room, what, n)
	}
}

// TestDict: a dict holds what was set, has room for at most four times as much,
// and is copied less than it is changed.
func TestDict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d dict[num]
		want := map[uint32]num{}
		for range rapid.IntRange(1, 10).Draw(t, "bursts") {
			for range rapid.IntRange(0, 200).Draw(t, "set") {
				k := uint32(len(want) * 7 % 1000)
				d.set(k, num(k))
				want[k] = num(k)
			}
			most := max(len(want), d.room)
			if d.room < len(want) {
				t.Fatalf("room for %d, there are %d", d.room, len(want))
			}
			for k := range uint32(rapid.IntRange(0, 1000).Draw(t, "drop")) {
				d.drop(k)
				delete(want, k)
			}
			if !maps.Equal(d.entries, want) || d.get(1001) != 0 {
				t.Fatalf("holds %v, want %v", d.entries, want)
			}
			if n := len(want); d.room != most && d.room > most/4 {
				t.Fatalf("copied with %d entries of %d", n, most)
			}
			bounded(t, "entries", len(want), d.room)
		}
	})
}

// TestHashes: numbers are found by their hashes, many of which are alike, whatever
// came and went; and there is room for at most four times as many as there are.
func TestHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hashes
		want := map[slot]bool{}
		mask := rapid.SampledFrom([]uint32{0, 7, 63, math.MaxUint32}).Draw(t, "mask")
		draw := func() slot {
			n := rapid.Uint32Range(1, 300).Draw(t, "number")
			return slotOf(n*2654435761&mask, n)
		}
		found := func(p slot) bool {
			for i := range uint32(len(h.slots)) {
				switch h.slots[h.at(p.hash(), i)] {
				case p:
					return true
				case 0:
					return false
				}
			}
			return false
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			p := draw()
			switch add := rapid.Bool().Draw(t, "add"); {
			case add && !want[p]:
				h.add(p.hash(), p.number())
				want[p] = true
			case add:
			case h.remove(p.hash(), p.number()) != want[p]:
				t.Fatalf("%d is removed, though it is not there; or the other way", p.number())
			default:
				delete(want, p)
			}
			for p := range want {
				if !found(p) {
					t.Fatalf("%d is lost", p.number())
				}
			}
			if h.n != len(want) {
				t.Fatalf("%d, want %d", h.n, len(want))
			}
			bounded(t, "slots", h.n, holds(len(h.slots)))
		}
	})
}

// TestBorder: what comes and goes at the border of a page, or where memory is
// given back, makes no page, list or map each time.
func TestBorder(t *testing.T) {
	for _, n := range []int{0, 1, pageSize - 1, pageSize, 4 * pageSize, 100*pageSize + 1} {
		var a arena[num]
		var notes places
		var d dict[num]
		var h hashes
		var list []uint32
		for range n {
			a.take()
		}
		for i := range uint32(n) {
			notes.set(i, 1)
			d.set(i, 1)
			h.add(i, i+1)
			list = append(list, i)
		}
		for swing, limit := range map[int]int{1: 0, 2: 0, pageSize: pageSize / 2, 10 * pageSize: 2 * pageSize} {
			var taken []uint32
			allocs := testing.AllocsPerRun(100, func() {
				for i := range uint32(swing) {
					taken = append(taken, a.take())
					notes.set(uint32(n)+i, 1)
					d.set(uint32(n)+i, 1)
					h.add(uint32(n)+i, uint32(n)+i+1)
					list = append(list, i)
				}
				for i := range uint32(swing) {
					a.give(taken[i])
					notes.clear(uint32(n) + i)
					d.drop(uint32(n) + i)
					h.remove(uint32(n)+i, uint32(n)+i+1)
					list = fit(list[:len(list)-1])
				}
				taken = taken[:0]
			})
			if int(allocs) > limit {
				t.Errorf("%d that come and go beside %d make %.0f pages, lists or maps, more than %d", swing, n, allocs, limit)
			}
		}
	}
}
