// Package inc computes tables from tables, incrementally.
//
// A program is a list of tables, declared once, before the first commit. Input
// tables are written by the caller inside [Graph.Commit]. A derived table is a
// pure function, per key, of tables declared before it. When Commit returns,
// every table holds exactly what it would hold had the program been run from
// scratch on the same inputs. Only rows that could have changed are
// recomputed, each at most once, and a recomputed row that is Equal to its old
// self goes no further.
//
// A large change may be spread over several commits: see [MayWait].
//
// One thing does depend on history: a row whose function panics keeps the
// value it had, and becomes a [Fault] until its function succeeds again.
//
// Values must not change once they are in a table, and results must be treated
// as shared. A Graph belongs to one goroutine. It starts none, reads no clock
// and does no I/O, so its results, their order included, depend on its inputs
// alone. What a program can never do right (write a derived table, read a
// later one, declare a table after the first commit) panics and leaves the
// graph unusable.
package inc

import (
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"reflect"
)

// Key orders the rows of a table, so that no result depends on map order.
// Compare must be 0 exactly for keys that are ==.
type Key[K any] interface {
	comparable
	Compare(K) int
}

// Value cuts propagation off: a recomputed row equal to its old self is no
// change. Equal must compare everything a reader can see.
type Value[V any] interface{ Equal(V) bool }

// Change is one row that differs after a commit. Old or New is nil where the
// row is absent. Watchers share what they point to: read it, never write it.
type Change[K, V any] struct {
	Key      K
	Old, New *V
}

// Graph is a program and its present state.
type Graph struct {
	seed    maphash.Seed
	mask    uint32 // of hashes; tests make it narrow so that they collide
	names   map[string]node
	nodes   []node               // tables and indexes; an edge names one by its place here
	tables  []table              // in the order of declaration
	work    agenda               // tables that a commit has to step
	steps   int                  // of tables, ever
	keys    map[reflect.Type]any // *keys by type
	edges   arena[edge]
	reader  Reader // of the row being evaluated, if any
	began   bool   // no more declarations
	busy    bool   // in Commit, or broken by a panic there
	stats   Stats
	publish []func() // what watchers are owed after this commit
	faults  faultLog
	wait    waiting
}

// node is a table or an index as a dependency sees it, with its types erased.
// Rows are numbered from 1.
type node interface {
	meta(row uint32) *meta
	mark(row uint32, from uint16) // something the row read has changed, in node from
	drop(row uint32)              // forget the row if nothing needs it
	text(row uint32) string       // its key
	why(key any, most int) []Read
	scan(from uint32, most int, f func(Cell)) (next uint32)
	label() string
}

// table is a node that a commit brings up to date, if it is on the agenda.
type table interface {
	node
	step()
	rank() int                // among tables
	patient(from uint16) bool // rows may wait for what changes there
	stat() TableStat
	write(w io.Writer) error
	faulty() []Fault
}

// Stats counts the work of one commit, input rows included in Changed only.
type Stats struct {
	Evaluated int // calls of derivation functions
	Changed   int // rows that differ from before
}

// New returns an empty program.
func New() *Graph {
	return &Graph{seed: maphash.MakeSeed(), mask: math.MaxUint32, names: map[string]node{}, keys: map[reflect.Type]any{}}
}

// misuse is a mistake in the program, as opposed to its data: it is not caught.
type misuse string

func (m misuse) Error() string { return "inc: " + string(m) }

func (g *Graph) declare(n node, name string) int {
	if g.began {
		panic(misuse(name + " is declared after the first commit"))
	}
	if g.names[name] != nil {
		panic(misuse(name + " is declared twice"))
	}
	if len(g.nodes) > maxNode {
		panic(misuse(fmt.Sprintf("%s is one table too many: %d", name, len(g.nodes))))
	}
	g.names[name] = n
	g.nodes = append(g.nodes, n)
	return len(g.nodes) - 1
}

// Tx is the right to write inputs. Only Commit gives one, and it ends with the
// function it was given to.
type Tx struct{ g *Graph }

// Commit applies the writes made by f, brings every table up to date in the
// order of declaration, then calls the watchers, table by table. The last
// write of a key wins. Neither f nor a watcher may call Commit.
func (g *Graph) Commit(f func(*Tx)) Stats {
	if g.busy {
		panic(misuse("Commit inside Commit, or after one that panicked"))
	}
	g.began, g.busy, g.stats = true, true, Stats{}
	g.wait.begin()
	tx := &Tx{g}
	f(tx)
	tx.g = nil
	for at := g.work.next(0); at < len(g.tables); at = g.work.next(at + 1) {
		g.work.remove(at)
		g.steps++
		g.tables[at].step()
	}
	g.publishFaults()
	publish := g.publish
	g.publish = nil
	for _, f := range publish {
		f()
	}
	g.busy = false
	return g.stats
}
