package checkpoint

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// AckID and Ack are as the version before sets of edges had them: a row for
// each edge and host.
type (
	AckID struct {
		Edge model.Edge
		Host model.HostKey
	}
	Ack struct{}
)

func (a AckID) Compare(b AckID) int { return cmp.Or(a.Host.Compare(b.Host), a.Edge.Compare(b.Edge)) }
func (Ack) Equal(Ack) bool          { return true }

// acksBefore is a checkpoint as the version before had it.
type acksBefore struct {
	g    *inc.Graph
	acks *inc.Table[AckID, Ack]
	s    *Store
}

func openAcksBefore(t testing.TB, dir string) acksBefore {
	g := inc.New()
	b := acksBefore{g: g, acks: inc.Input[AckID, Ack](g, "acks")}
	var err error
	if b.s, err = Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	Register(b.s, "acks", b.acks)
	b.s.Restore(g)
	return b
}

// rowsOf are the rows that the version before would have.
func rowsOf(t *inc.Table[model.HostKey, model.EdgeSet]) (out []AckID) {
	for _, host := range t.Keys() {
		edges, _ := t.Get(nil, host)
		for _, e := range edges.Edges() {
			out = append(out, AckID{e, host})
		}
	}
	return out
}

// TestAcksOfOtherVersions: what a version with a row for each edge and host
// wrote is read, and it reads what this one wrote, whatever came and went in
// whichever of them.
func TestAcksOfOtherVersions(t *testing.T) {
	all := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		dir, want := fmt.Sprintf("%s/%d", all, runs), map[AckID]bool{}
		for range rapid.IntRange(1, 6).Draw(rt, "processes") {
			var commits [][]AckID // those that change: known or not, each becomes the other
			for range rapid.IntRange(0, 4).Draw(rt, "commits") {
				commits = append(commits, rapid.SliceOfNDistinct(rapid.Custom(drawAck), 0, 5, rapid.ID[AckID]).Draw(rt, "changes"))
			}
			if rapid.Bool().Draw(rt, "before") {
				runBefore(t, dir, commits, want)
			} else {
				runNow(t, dir, commits, want)
			}
		}
		b := openAcksBefore(t, dir)
		before := b.acks.Keys()
		b.s.close()
		w := open(t, dir)
		now := rowsOf(w.in.Acks)
		w.s.close()
		if !slices.Equal(before, now) || len(now) != len(want) {
			rt.Fatalf("the version before reads %v, this one %v; want %v", before, now, want)
		}
		for _, id := range now {
			if !want[id] {
				rt.Fatalf("read %v; want %v", now, want)
			}
		}
	})
}

func drawAck(t *rapid.T) AckID {
	return AckID{
		model.Edge(rapid.SampledFrom([]string{"a", "ab", "b", "b-1"}).Draw(t, "edge")),
		model.HostKey{Class: "c", Host: model.Host(rapid.SampledFrom([]string{"", "shop.example", "*.example"}).Draw(t, "host"))},
	}
}

// runBefore is a process of the version before, which toggles rows.
func runBefore(t *testing.T, dir string, commits [][]AckID, known map[AckID]bool) {
	b := openAcksBefore(t, dir)
	b.s.Complete()
	for _, ids := range commits {
		b.g.Commit(func(tx *inc.Tx) {
			for _, id := range ids {
				if toggle(known, id) {
					b.acks.Set(tx, id, Ack{})
				} else {
					b.acks.Delete(tx, id)
				}
			}
		})
		b.s.Committed()
	}
	if err := b.s.flush(); err != nil {
		t.Fatal(err)
	}
	b.s.close()
}

// runNow is the same, of this version.
func runNow(t *testing.T, dir string, commits [][]AckID, known map[AckID]bool) {
	w := open(t, dir)
	w.s.Complete()
	for _, ids := range commits {
		w.commit(func(tx *inc.Tx) {
			for _, id := range ids {
				on := toggle(known, id)
				w.in.Acks.Edit(tx, id.Host, func(old model.EdgeSet, _ bool) (model.EdgeSet, bool) {
					if on {
						return old.With(id.Edge), true
					}
					left := old.Without(id.Edge)
					return left, left != model.EdgeSet{}
				})
			}
		})
	}
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	w.s.close()
}

func toggle(known map[AckID]bool, id AckID) bool {
	if known[id] {
		delete(known, id)
		return false
	}
	known[id] = true
	return true
}

// listBefore is a list of edges as the version before had it, and rootBefore
// what of a root is kept otherwise since.
type listBefore []model.Edge

func (a listBefore) Equal(b listBefore) bool { return slices.Equal(a, b) }

type rootBefore struct{ Published []string }

func (a rootBefore) Equal(b rootBefore) bool { return slices.Equal(a.Published, b.Published) }

// TestListsOfOtherVersions: what is interned since is written as the lists that
// it was, and read as well.
func TestListsOfOtherVersions(t *testing.T) {
	host := model.HostKey{Class: "c", Host: "shop.example"}
	lists := map[model.HostKey][]string{host: {"fra", "nyc"}, {Class: "c"}: {"a.example"}}
	type tables struct {
		g     *inc.Graph
		write func(*inc.Tx)
		text  func() string
	}
	before := func(s *Store) tables {
		g := inc.New()
		last, roots := inc.Input[model.HostKey, listBefore](g, "last"), inc.Input[model.HostKey, rootBefore](g, "roots")
		Register(s, "last", last)
		Register(s, "roots", roots)
		return tables{g, func(tx *inc.Tx) {
			for k, list := range lists {
				var edges listBefore
				for _, e := range list {
					edges = append(edges, model.Edge(e))
				}
				last.Set(tx, k, edges)
				roots.Set(tx, k, rootBefore{list})
			}
			roots.Set(tx, model.HostKey{Class: "none"}, rootBefore{})
		}, func() string { return rowsText(last) + rowsText(roots) }}
	}
	now := func(s *Store) tables {
		g := inc.New()
		last, roots := inc.Input[model.HostKey, model.EdgeSet](g, "last"), inc.Input[model.HostKey, rootNow](g, "roots")
		Register(s, "last", last)
		Register(s, "roots", roots)
		return tables{g, func(tx *inc.Tx) {
			for k, list := range lists {
				edges := model.EdgeSet{}
				for _, e := range list {
					edges = edges.With(model.Edge(e))
				}
				last.Set(tx, k, edges)
				roots.Set(tx, k, rootNow{model.TextsOf(list)})
			}
			roots.Set(tx, model.HostKey{Class: "none"}, rootNow{})
		}, func() string { return rowsText(last) + rowsText(roots) }}
	}
	versions := []func(*Store) tables{before, now}
	for i, writer := range versions {
		for j, reader := range versions {
			dir := t.TempDir()
			process := func(v func(*Store) tables) (tables, *Store) {
				s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				return v(s), s
			}
			w, s := process(writer)
			s.Complete()
			w.g.Commit(w.write)
			s.Committed()
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
			s.close()
			r, s := process(reader)
			want := reader(&Store{tables: map[string]table{}, staged: map[any]change{}})
			want.g.Commit(want.write)
			s.Restore(r.g)
			s.close()
			if got := r.text(); got != want.text() {
				t.Errorf("%d reads what %d wrote as %s, want %s", j, i, got, want.text())
			}
		}
	}
}

type rootNow struct{ Published model.Texts }

func (a rootNow) Equal(b rootNow) bool { return a == b }

func rowsText[V inc.Value[V]](t *inc.Table[model.HostKey, V]) string {
	out := ""
	for _, k := range t.Keys() {
		v, _ := t.Get(nil, k)
		out += fmt.Sprintf("%v: %v\n", k, v)
	}
	return out
}
