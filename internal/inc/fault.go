package inc

import (
	"fmt"
	"maps"
	"math"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// Fault is a row whose function panicked. The row keeps the value it had, none
// on a cold start, until its function succeeds: it is called again when
// something it read before the panic changes. A fault of an input row comes
// from its Equal or an index over its table; the next write clears it.
type Fault struct {
	Table, Key string
	Panic      string // what was passed to panic
	At         string // file:line
	Reads      []Read // what the row had read by then
}

// panicked is a fault without what can be had from the row.
type panicked struct{ value, at string }

// faultLog is what watchers of faults were told last.
type faultLog struct {
	last    []Fault
	touched bool
	watch   []func([]Fault)
}

// Faults lists the rows whose functions panicked, by table and key.
func (g *Graph) Faults() []Fault {
	var out []Fault
	for _, t := range g.tables {
		out = append(out, t.faulty()...)
	}
	return out
}

// WatchFaults calls f with all faults after each commit that changed them.
func (g *Graph) WatchFaults(f func([]Fault)) { g.faults.watch = append(g.faults.watch, f) }

func (g *Graph) publishFaults() {
	if !g.faults.touched {
		return
	}
	g.faults.touched = false
	now := g.Faults()
	if reflect.DeepEqual(now, g.faults.last) {
		return
	}
	g.faults.last = now
	for _, f := range g.faults.watch {
		g.publish = append(g.publish, func() { f(now) })
	}
}

func (t *Table[K, V]) faulty() []Fault {
	var out []Fault
	for _, i := range slices.SortedFunc(maps.Keys(t.faults.entries), t.compare) {
		p := t.faults.get(i)
		out = append(out, Fault{t.name, t.text(i), p.value, p.at, t.reads(i, math.MaxInt)})
	}
	return out
}

// update evaluates row i and applies the result if it differs. All that the
// program's own functions may break runs in try, before anything is written.
func (t *Table[K, V]) update(i uint32, f func(*Reader, K) (V, bool)) {
	val, ok, differs, failed := t.try(i, f)
	row := t.at(i)
	if failed != nil {
		t.faults.set(i, *failed)
		row.flags |= faulted
		t.g.faults.touched = true
		return
	}
	if row.flags&faulted != 0 {
		t.faults.drop(i)
		row.flags &^= faulted
		t.g.faults.touched = true
	}
	if differs {
		t.set(i, val, ok)
	}
}

// try calls f for row i and plans the change of the indexes.
func (t *Table[K, V]) try(i uint32, f func(*Reader, K) (V, bool)) (val V, ok, differs bool, failed *panicked) {
	g, row, k := t.g, t.at(i), t.key(i)
	g.reader = Reader{g, t.id, i, t.crowd}
	defer func() {
		t.crowd.settle(&g.reader, &row.meta)
		g.reader.row = 0
		p := recover()
		if m, is := p.(misuse); is {
			panic(m)
		}
		if p != nil {
			failed = &panicked{fmt.Sprint(p), origin()}
		}
	}()
	val, ok = f(&g.reader, k)
	if !ok {
		var none V // a function may return what it likes beside false
		val = none
	}
	had := row.flags&present != 0
	if had == ok && (!ok || row.val.Equal(val)) {
		return val, ok, false, nil
	}
	for _, x := range t.indexes {
		x.plan(k, row.val, had, val, ok)
	}
	return val, ok, true, nil
}

// origin tells where the present panic began; only a deferred function may ask.
func origin() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for thrown := false; ; {
		f, more := frames.Next()
		system := strings.HasPrefix(f.Function, "runtime.")
		if thrown && !system {
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
		thrown = thrown || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}
