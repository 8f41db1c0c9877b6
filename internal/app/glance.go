package app

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ui"
)

// Whoever looks at tables holds up changes of everybody. So a look touches few
// rows, and between two looks the loop does what it has to. What is made of the
// rows, and which of them were asked for, is found out on the goroutine of the
// request: rows never change once they are in a table. A list of many rows is
// thus not of one moment; each row of it is.

// turnRows is how many rows a look touches at most. To copy that many takes some
// 50 µs.
const turnRows = 256

// walk calls f with the rows of a table, in no order, outside of the loop.
func walk[K inc.Key[K], V inc.Value[V]](ctx context.Context, l *loop, t *inc.Table[K, V], f func(K, V)) error {
	return steps(ctx, l, func(from uint32, take func(picked[K, V])) (uint32, error) {
		return t.Scan(from, turnRows, func(k K, v V) { take(picked[K, V]{key: k, val: v}) }), nil
	}, func(row picked[K, V]) { f(row.key, row.val) })
}

// steps takes rows from a place on in each look, until the end, and hands each to
// f outside of the loop.
func steps[R any](ctx context.Context, l *loop, look func(from uint32, take func(R)) (next uint32, err error), f func(R)) error {
	rows := make([]R, 0, turnRows)
	for from := uint32(0); ; {
		rows = rows[:0]
		var failed error
		err := l.look(ctx, func() {
			from, failed = look(from, func(row R) { rows = append(rows, row) })
			l.touched(len(rows))
		})
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
		for _, row := range rows {
			f(row)
		}
		if from == 0 {
			return nil
		}
	}
}

// picked is a row that was asked for, and its name.
type picked[K, V any] struct {
	name string
	key  K
	val  V
}

// pick finds the rows of a table that q asks for, in the order of their names,
// and reports whether there are more.
func pick[K inc.Key[K], V inc.Value[V]](ctx context.Context, l *loop, t *inc.Table[K, V], q ui.Query, name func(K) string) ([]picked[K, V], bool, error) {
	best := least[picked[K, V]]{most: q.Limit, name: func(row picked[K, V]) string { return row.name }}
	err := walk(ctx, l, t, func(k K, v V) {
		if n := name(k); q.Wants(n) {
			best.add(picked[K, V]{n, k, v})
		}
	})
	rows, more := best.sorted()
	return rows, more, err
}

// least keeps those whose names are the least, so that the memory for an answer
// follows what is asked for and not what there is.
type least[R any] struct {
	most int
	name func(R) string
	rows []R
	more bool
}

func (l *least[R]) add(row R) {
	if l.rows = append(l.rows, row); len(l.rows) >= 2*(l.most+1) {
		l.cut()
	}
}

func (l *least[R]) cut() {
	slices.SortFunc(l.rows, func(a, b R) int { return strings.Compare(l.name(a), l.name(b)) })
	if len(l.rows) > l.most {
		clear(l.rows[l.most:])
		l.rows, l.more = l.rows[:l.most], true
	}
}

func (l *least[R]) sorted() ([]R, bool) {
	l.cut()
	return l.rows, l.more
}

// beside calls f in the loop with each of some rows, to read what else is known
// of it: cost is how many rows f touches.
func beside[R any](ctx context.Context, l *loop, rows []R, cost func(R) int, f func(i int, row R)) error {
	for at := 0; at < len(rows); {
		err := l.look(ctx, func() {
			touched := 0
			for ; at < len(rows); at++ {
				more := cost(rows[at])
				if touched > 0 && touched+more > turnRows {
					break
				}
				touched += more
				f(at, rows[at])
			}
			l.touched(touched)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each is the cost of rows that touch n others.
func each[R any](n int) func(R) int { return func(R) int { return n } }
