package checkpoint

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// before is a finding as the version before severities had it.
type before struct {
	Object                 model.Object
	Field, Reason, Message string
}

type allBefore []before

func (a allBefore) Equal(b allBefore) bool { return slices.Equal(a, b) }

// openBefore opens a checkpoint as the version before did.
func openBefore(t *testing.T, dir string) (*inc.Graph, *inc.Table[model.Object, allBefore], *Store) {
	t.Helper()
	g := inc.New()
	problems := inc.Input[model.Object, allBefore](g, "problems")
	s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	Register(s, "problems", problems)
	s.Restore(g)
	return g, problems, s
}

// TestSeverityOfOtherVersions: a finding without a severity is an error, and
// the version without severities reads what this one wrote.
func TestSeverityOfOtherVersions(t *testing.T) {
	dir := t.TempDir()
	g, problems, s := openBefore(t, dir)
	s.Complete()
	g.Commit(func(tx *inc.Tx) { problems.Set(tx, webID, allBefore{{webID, "spec", "Invalid", "nothing"}}) })
	s.Committed()
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	s.close()

	w := open(t, dir)
	got, _ := w.in.Problems.Get(nil, webID)
	if want := (model.Findings{model.ErrorOf(webID, "spec", "Invalid", "nothing")}); !got.Equal(want) {
		t.Errorf("of the version before: %v, want %v", got, want)
	}
	w.s.Complete()
	w.commit(func(tx *inc.Tx) {
		w.in.Problems.Set(tx, webID, model.Findings{model.WarningOf(webID, "spec", "Conflict", "look")})
	})
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	again := w.text(t)
	w.s.close()

	w = open(t, dir)
	if got := w.text(t); got != again {
		t.Errorf("of this version:\n%s\nwant\n%s", got, again)
	}
	w.s.close()

	_, problems, s = openBefore(t, dir)
	defer s.close()
	if got, _ := problems.Get(nil, webID); !got.Equal(allBefore{{webID, "spec", "Conflict", "look"}}) {
		t.Errorf("the version before reads %v", got)
	}
}
