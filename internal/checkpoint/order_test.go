package checkpoint

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// Rows are read in the order of their keys, in which they were first written,
// so that a start has next to nothing to sort. One that changes, or goes and
// comes back, keeps its place.
func TestRowsKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir)
	w.s.Complete()
	const n = 300
	var want []model.Member
	for i := range n {
		want = append(want, model.Member(fmt.Sprintf("m-%03d", i)))
	}
	w.commit(func(tx *inc.Tx) {
		for _, m := range slices.Backward(want) {
			w.in.Sources.Set(tx, m, model.Source{Connected: true})
		}
	})
	steps := []func(*inc.Tx){
		func(tx *inc.Tx) { w.in.Sources.Set(tx, want[7], model.Source{StaleSince: 1}) },
		func(tx *inc.Tx) { w.in.Sources.Delete(tx, want[8]) },
		func(tx *inc.Tx) { w.in.Sources.Delete(tx, want[9]) },
		func(tx *inc.Tx) { w.in.Sources.Set(tx, want[9], model.Source{StaleSince: 2}) },
	}
	for i := range 1 + len(steps) {
		if i > 0 {
			w.commit(steps[i-1])
		}
		if err := w.s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	want = slices.Delete(want, 8, 9)
	check := func(when string) {
		t.Helper()
		_, found, err := openLog(w.s.path(), w.s.key)
		if err != nil {
			t.Fatal(err)
		}
		var got []model.Member
		for _, r := range found.of("sources") {
			var m model.Member
			if err := decoder.Unmarshal(r.Key, &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", when, got)
		}
	}
	check("as written")
	if err := w.s.compact(); err != nil {
		t.Fatal(err)
	}
	check("compacted")
	w.s.close()
}
