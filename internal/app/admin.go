package app

import (
	"context"
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/ui"
)

// source is what the admin listener shows: copies taken between two turns.
func (s *server) shown() ui.Source {
	return ui.Source{
		Ready:    s.readiness,
		Findings: s.findings,
		Tables:   s.tables,
		Rows:     s.rows,
		Why:      s.why,
		Streams:  func(context.Context) (any, error) { return s.xds.Streams(), nil },
		Metrics:  prometheus.Gatherers{s.metrics},
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

func (s *server) findings(ctx context.Context) ([]ui.Finding, error) {
	var out []ui.Finding
	err := s.loop.look(ctx, func() {
		for _, id := range s.leaf.Findings.Keys() {
			found, _ := s.leaf.Findings.Get(nil, id)
			for _, f := range found {
				out = append(out, ui.Finding{
					Severity: f.Severity.String(), Object: f.Object.String(), Field: string(f.Field), Reason: string(f.Reason), Message: f.Message,
				})
			}
		}
	})
	return out, err
}

func (s *server) tables(ctx context.Context) ([]ui.Table, error) {
	var out []ui.Table
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

// rows reads a table's text form: one line a row, two spaces after the key.
func (s *server) rows(ctx context.Context, name string) ([]ui.Row, error) {
	var text strings.Builder
	var missing error
	err := s.loop.look(ctx, func() { missing = s.graph.WriteText(&text, name) })
	if err == nil && missing != nil {
		err = ui.ErrNoTable
	}
	var out []ui.Row
	for line := range strings.Lines(text.String()) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		out = append(out, ui.Row{Key: key, Value: value})
	}
	return out, err
}

func (s *server) why(ctx context.Context, table, key string) ([]ui.Read, error) {
	var out []ui.Read
	err := s.loop.look(ctx, func() {
		for _, r := range s.graph.Why(table, key) {
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
