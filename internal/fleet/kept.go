package fleet

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// A member that was chosen and whose Service is gone keeps its place for as long as its
// Placement says. Who was chosen is an input (Inputs.Kept) that follows from Program.Kept,
// and so is whose time is over: here is no clock. Backends that no Placement with a hold
// is for have no such rows, and read none.

// Kept is what is to be remembered of the places of a backend.
type Kept struct {
	Places model.Kept
	Held   []model.Member // those of Places that lack the Service, sorted
	Hold   time.Duration  // for how long they are held
}

// Equal reports whether both are the same.
func (a Kept) Equal(b Kept) bool {
	return a.Places.Equal(b.Places) && slices.Equal(a.Held, b.Held) && a.Hold == b.Hold
}

// At is what is remembered if it is now, in Unix milliseconds: who lacks the Service from
// now on does so since then.
func (a Kept) At(now int64) model.Kept {
	out := slices.Clone(a.Places)
	for i, p := range out {
		if p.Since == 0 && slices.Contains(a.Held, p.Member) {
			out[i].Since = now
		}
	}
	return out
}

// declareKept says who has places.
func (d *program) declareKept(g *inc.Graph) {
	limited := inc.IndexBy(d.Backends, func(b model.Backend, row Backend) []model.Backend {
		if row.Placing == nil || row.Placing.Hold == 0 {
			return nil
		}
		return []model.Backend{b}
	})
	d.Kept = inc.Derive(g, "kept places", d.keptOf, limited)
}

// keptOf is who has a place of a backend. A member of which rows are missing has one if
// it had it before: else nobody knows that it ever had the Service.
func (d *program) keptOf(r *inc.Reader, b model.Backend) (Kept, bool) {
	row, _ := d.Backends.Get(r, b)
	was, _ := d.In.Kept.Get(r, b)
	out := Kept{Held: row.Placing.Held, Hold: row.Placing.Hold}
	for _, m := range row.Members {
		out.Places = append(out.Places, model.KeptPlace{Member: m})
	}
	for _, m := range slices.Concat(row.Placing.Unknown, row.Placing.Held) {
		if p, had := was.Find(m); had && !slices.Contains(row.Members, m) {
			out.Places = append(out.Places, p)
		}
	}
	slices.SortFunc(out.Places, func(a, b model.KeptPlace) int { return a.Member.Compare(b.Member) })
	return out, len(out.Places) > 0
}

// keeping are the members that had a place of a backend, still fit, and lack the Service,
// given those that have it. One whose hold is over is so only while nobody has it:
// somebody is the last one.
func (d *program) keeping(r *inc.Reader, b model.Backend, fits fitting, out *Backend) []fit {
	if fits.hold == 0 {
		return nil
	}
	was, _ := d.In.Kept.Get(r, b)
	var all []fit
	for _, p := range was {
		f, ok := fits.find(p.Member)
		_, has := slices.BinarySearch(out.Members, p.Member)
		differs := slices.ContainsFunc(out.Problems, func(x Problem) bool { return x.Member == p.Member }) // its Service is there, and no good
		if ok && !has && !differs && (!p.Over || len(out.Members) == 0) {
			all = append(all, f)
		}
	}
	return all
}
