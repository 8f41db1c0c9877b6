package fleettest

import (
	"strconv"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func batches(w *World, words []string) (string, error) {
	n, err := strconv.Atoi(words[0])
	w.Program.Batches = n
	return "", err
}

func paced(w *World, _ []string) (string, error) {
	w.Stage(func(tx *inc.Tx) { w.Program.In.Paced.Set(tx, fleet.Fleet{}, fleet.Paced{}) })
	return "", nil
}

func fill(w *World, words []string) (string, error) {
	a := Parse(words)
	edge, batches := model.Edge(a.Word(0)), a.Word(1)
	w.Commit()
	wish, ok := w.Program.Wishes.Get(nil, edge)
	if !ok {
		return "", a.Err
	}
	if batches == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Filled.Delete(tx, wish.Key) })
		return "", a.Err
	}
	n, err := strconv.Atoi(batches)
	w.Stage(func(tx *inc.Tx) { w.Program.In.Filled.Set(tx, wish.Key, fleet.Filled{Batches: n}) })
	return "", err
}

func give(w *World, words []string) (string, error) {
	a := Parse(words)
	edge := model.Edge(a.Word(0))
	w.Commit()
	if wish, ok := w.Program.Wishes.Get(nil, edge); ok {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Given.Set(tx, edge, fleet.Given{View: wish.Key}) })
	}
	return "", a.Err
}
