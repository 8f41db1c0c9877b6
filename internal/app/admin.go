package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/ui"
)

// shown is what the admin listener shows: copies taken between turns, see walk.
func (s *server) shown() ui.Source {
	return ui.Source{
		Ready:   s.readiness,
		Lists:   s.objects(),
		Tables:  s.tables,
		Rows:    s.rows,
		Why:     s.why,
		Metrics: prometheus.Gatherers{s.metrics},
	}
}

// readiness is nil once the first publish is done.
func (s *server) readiness() error {
	if s.published.Load() {
		return nil
	}
	if p := s.source.State().Problem; p != "" {
		return errors.New("waiting for the hub: " + p)
	}
	return errors.New("waiting for the hub's objects")
}

func (s *server) tables(ctx context.Context) ([]ui.Table, error) {
	out := []ui.Table{}
	err := s.loop.look(ctx, func() {
		for _, t := range s.graph.Tables() {
			kind := "derived"
			if t.Input {
				kind = "input"
			}
			out = append(out, ui.Table{Name: t.Name, Kind: kind, Rows: t.Rows, Evaluations: uint64(t.Evaluations)})
		}
	})
	return out, err
}

// cells calls f with each row of a table, or group of an index, outside of the loop.
func (s *server) cells(ctx context.Context, name string, f func(inc.Cell)) error {
	return steps(ctx, s.loop, func(from uint32, take func(inc.Cell)) (uint32, error) {
		next, err := s.graph.Scan(name, from, turnRows, take)
		if err != nil {
			err = ui.ErrNoTable
		}
		return next, err
	}, f)
}

// rows shows a table as text.
func (s *server) rows(ctx context.Context, name string, q ui.Query) (ui.Page, error) {
	type cell struct {
		inc.Cell
		name string
	}
	best := least[cell]{most: q.Limit, name: func(c cell) string { return c.name }}
	err := s.cells(ctx, name, func(c inc.Cell) {
		if n := fmt.Sprint(c.Key); q.Wants(n) {
			best.add(cell{c, n})
		}
	})
	rows, more := best.sorted()
	return page(rows, more, best.name, func(_ int, c cell) ui.Row {
		var value []string
		if c.Value != nil {
			value = append(value, fmt.Sprintf("%+v", c.Value))
		}
		if c.Fault != "" {
			value = append(value, "!"+c.Fault)
		}
		return ui.Row{Key: c.name, Value: strings.Join(value, "  ")}
	}), err
}

// why shows what a row was computed from: of very much, the first.
func (s *server) why(ctx context.Context, table, key string) ([]ui.Read, error) {
	var found any
	err := s.cells(ctx, table, func(c inc.Cell) {
		if fmt.Sprint(c.Key) == key {
			found = c.Key
		}
	})
	out := []ui.Read{}
	if err != nil || found == nil {
		return out, err
	}
	err = s.loop.look(ctx, func() {
		reads := s.graph.Why(table, found, turnRows)
		s.loop.touched(len(reads))
		for _, r := range reads {
			out = append(out, ui.Read{Table: r.Table, Key: r.Key})
		}
	})
	return out, err
}

// faults keeps a finding for every row whose function panicked. Its own object
// is the row: which object of a user is to blame, the panic does not tell.
func (s *server) faults(all []inc.Fault) {
	for _, f := range all {
		s.log.Error("a derivation failed; the row keeps its last value", "table", f.Table, "row", f.Key, "panic", f.Panic, "at", f.At)
	}
	s.mail.Put(urgent, faultKey{}, func(tx *inc.Tx) {
		for _, id := range s.broken.Keys() {
			s.broken.Delete(tx, id)
		}
		for _, f := range all {
			id := model.Object{Kind: "Row", Namespace: f.Table, Name: f.Key}
			reads := make([]string, 0, len(f.Reads))
			for _, r := range f.Reads {
				reads = append(reads, r.Table+" "+r.Key)
			}
			s.broken.Set(tx, id, model.Findings{model.ErrorOf(id, "", model.ReasonInternal,
				"computing this failed and its last value stays in use; please report it: %s; it read %s", f.Panic, strings.Join(reads, ", "))})
		}
	})
}

type faultKey struct{}
