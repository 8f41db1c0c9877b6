package fleettest

import (
	"strconv"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func portion(w *World, words []string) (string, error) {
	n, err := strconv.Atoi(Parse(words).Word(0))
	w.Commit()
	w.Graph.Portion(n)
	return "", err
}

func step(w *World, _ []string) (string, error) {
	w.Commit()
	w.Graph.Commit(func(*inc.Tx) {})
	return "", nil
}

// reach prints how an edge serves a host.
func reach(w *World, words []string) (string, error) {
	a := Parse(words)
	w.Commit()
	key := model.HostKey{Class: model.Class(a.Word(1)), Host: model.Host(a.Word(2))}
	at, bound := w.Program.Binding(nil, key.Class, model.Edge(a.Word(0)))
	row, ok := w.Program.Reach(nil, key, at)
	if !bound || !ok {
		return "-\n", a.Err
	}
	return reachText(row) + "\n", a.Err
}
