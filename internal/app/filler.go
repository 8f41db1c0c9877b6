package app

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// batches is into how many batches hosts are dealt: of 10,000 hosts one is some
// 40, of which a view is filled in a few milliseconds.
const batches = 256

// movesEvery is how often it is looked whether all streams left a view.
const movesEvery = 100 * time.Millisecond

// filler fills views that edges want, empties those that none has or wants, and
// gives edges the view that they want when it is whole. What streams still
// follow, though their edge was given another view, stays whole until all of
// them have moved. It belongs to the loop's goroutine.
type filler struct {
	p        *fleet.Program
	put      func(key any, write func(*inc.Tx)) // has a write done in the next commit
	followed func(model.View) bool              // by a stream
	open     map[model.View]fleet.Fill          // neither whole nor gone
	left     map[model.View]fleet.Fill          // nobody's, but streams may follow it
}

func newFiller(p *fleet.Program, followed func(model.View) bool, put func(key any, write func(*inc.Tx))) *filler {
	p.Batches = batches
	f := &filler{p: p, put: put, followed: followed, open: map[model.View]fleet.Fill{}, left: map[model.View]fleet.Fill{}}
	p.Fills.Watch(f.filled)
	p.Handovers.Watch(f.give)
	p.In.Edges.Watch(f.forget)
	return f
}

func (f *filler) filled(changes []inc.Change[model.View, fleet.Fill]) {
	for _, c := range changes {
		delete(f.open, c.Key)
		delete(f.left, c.Key)
		switch {
		case c.New == nil:
		case !c.New.Claimed && c.Old != nil && c.Old.Claimed:
			f.left[c.Key] = *c.New
			type leftKey struct{}
			f.put(leftKey{}, func(*inc.Tx) {}) // look soon
		case !c.New.Claimed || c.New.Batches < batches:
			f.open[c.Key] = *c.New
		}
	}
}

// due begins to empty what streams have left, and returns when it wants to be
// asked again; zero: not before a view changes.
func (f *filler) due(now time.Time) (next time.Time) {
	for view, fill := range f.left {
		if f.followed(view) {
			next = now.Add(movesEvery)
			continue
		}
		delete(f.left, view)
		f.open[view] = fill
	}
	return next
}

// givenKey is a letter about the view that an edge has.
type givenKey struct{ edge model.Edge }

func (f *filler) give(changes []inc.Change[model.Edge, fleet.Given]) {
	for _, c := range changes {
		if c.New == nil {
			continue // what it waited for is done, or the edge is gone: see forget
		}
		f.put(givenKey{c.Key}, func(tx *inc.Tx) {
			// By then the edge may want another one, or be gone.
			if given, ok := f.p.Handovers.Get(nil, c.Key); ok {
				f.p.In.Given.Set(tx, c.Key, given)
			}
		})
	}
}

func (f *filler) forget(changes []inc.Change[model.Edge, model.EdgeSpec]) {
	for _, c := range changes {
		if c.New == nil {
			f.put(givenKey{c.Key}, func(tx *inc.Tx) { f.p.In.Given.Delete(tx, c.Key) })
		}
	}
}

// begin paces what comes from now on: every edge has what it wants, and every
// view is whole.
func (f *filler) begin(tx *inc.Tx) {
	in := &f.p.In
	in.Paced.Set(tx, fleet.Fleet{}, fleet.Paced{})
	for _, view := range f.p.Fills.Keys() {
		in.Filled.Set(tx, view, fleet.Filled{Batches: batches})
	}
	for _, edge := range f.p.Views.Keys() {
		view, _ := f.p.Views.Get(nil, edge)
		in.Given.Set(tx, edge, fleet.Given{View: view.Key})
	}
}

// busy tells whether some view is neither whole nor gone.
func (f *filler) busy() bool { return len(f.open) > 0 }

// next is the view whose turn it is: those that edges want come first.
func (f *filler) next() model.View {
	last := func(v model.View) int {
		if f.open[v].Claimed {
			return 0
		}
		return 1
	}
	return slices.MinFunc(slices.Collect(maps.Keys(f.open)), func(a, b model.View) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), a.Compare(b))
	})
}

// step is the write of n batches more, or fewer, of one view.
func (f *filler) step(n int) func(*inc.Tx) {
	view := f.next()
	fill := f.open[view]
	return func(tx *inc.Tx) {
		switch {
		case fill.Claimed:
			f.p.In.Filled.Set(tx, view, fleet.Filled{Batches: min(fill.Batches+n, batches)})
		case fill.Batches > n:
			f.p.In.Filled.Set(tx, view, fleet.Filled{Batches: fill.Batches - n})
		default:
			f.p.In.Filled.Delete(tx, view)
		}
	}
}
