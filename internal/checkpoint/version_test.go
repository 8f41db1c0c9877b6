package checkpoint

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
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

// rejectionBefore is the key of a rejection as the version before edges had it.
type rejectionBefore struct {
	View       model.View
	Type, Name string
	GRPC       bool
}

func (a rejectionBefore) Compare(b rejectionBefore) int {
	return cmp.Or(a.View.Compare(b.View), strings.Compare(a.Name, b.Name))
}

// refusedBefore is what it said.
type refusedBefore struct {
	Version, Error string
	By             []struct {
		Edge          model.Edge
		Node, Version string
	}
}

func (a refusedBefore) Equal(b refusedBefore) bool { return a.Version == b.Version }

// TestRejectionsOfOtherVersions: those of a view are of no edge, and those of an
// edge are of no view: whoever reads them keeps them, and says nothing of them.
func TestRejectionsOfOtherVersions(t *testing.T) {
	dir := t.TempDir()
	before := func() (*inc.Graph, *inc.Table[rejectionBefore, refusedBefore], *Store) {
		g := inc.New()
		rejections := inc.Input[rejectionBefore, refusedBefore](g, "rejections")
		s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		Register(s, "rejections", rejections)
		s.Restore(g)
		s.Complete()
		return g, rejections, s
	}
	g, rejections, s := before()
	said := refusedBefore{Version: "1"}
	said.By = append(said.By, struct {
		Edge          model.Edge
		Node, Version string
	}{"fra", "fra-1", "1.40"})
	g.Commit(func(tx *inc.Tx) {
		rejections.Set(tx, rejectionBefore{View: view, Type: "t", Name: "n"}, said)
		rejections.Set(tx, rejectionBefore{Type: "t", Name: "n"}, said) // another view
	})
	s.Committed()
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	s.close()

	w := open(t, dir)
	if got := w.in.Rejections.Keys(); len(got) != 1 || got[0] != (model.RejectionID{Type: "t", Name: "n"}) {
		t.Errorf("of the version before: %v", got)
	}
	w.s.Complete()
	w.commit(func(tx *inc.Tx) {
		w.in.Rejections.Set(tx, model.RejectionID{Edge: "fra", Type: "t", Name: "m"}, model.Rejection{Version: "2", By: []model.Refuser{{Node: "fra-1"}}})
	})
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	w.s.close()

	_, rejections, s = before()
	defer s.close()
	if row, ok := rejections.Get(nil, rejectionBefore{Type: "t", Name: "m"}); !ok || row.Version != "2" {
		t.Errorf("the version before reads %v", rejections.Keys())
	}
}

// zoneBefore is a zone as it was before name servers had a TTL of their own.
type zoneBefore struct {
	Domain model.Host
	TTL    uint32
}

func (a zoneBefore) Equal(b zoneBefore) bool { return a == b }

// TestZoneOfOtherVersions: what a zone did not say yet has its default.
func TestZoneOfOtherVersions(t *testing.T) {
	dir, id := t.TempDir(), model.ZoneID{Namespace: "shop", Name: "shop"}
	store := func() *Store {
		s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	g, s := inc.New(), store()
	zones := inc.Input[model.ZoneID, zoneBefore](g, "zones")
	Register(s, "zones", zones)
	s.Restore(g)
	s.Complete()
	g.Commit(func(tx *inc.Tx) { zones.Set(tx, id, zoneBefore{Domain: "shop.example", TTL: 5}) })
	s.Committed()
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	s.close()

	g, s = inc.New(), store()
	defer s.close()
	now := inc.Input[model.ZoneID, model.ZoneSpec](g, "zones")
	Register(s, "zones", now)
	s.Restore(g)
	if z, ok := now.Get(nil, id); !ok || z.Domain != "shop.example" || z.TTL != 5 || z.ServerTTL != model.DefaultServerTTL {
		t.Errorf("of the version before: %+v, %t", z, ok)
	}
}
