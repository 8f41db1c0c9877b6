// Package fleettest is for tests of fleet and of what stands on it: a world of
// input rows that short commands change, and stories made of such commands.
//
// A story is a text file. What happens is told in prose behind "#" and in
// commands, one a line; after "----" follows what they print, up to an empty
// line. Changes are committed before something is printed, by "commit", and at
// the end of a block. [Commands] lists the commands; tests add their own for
// the tables of their package:
//
//	# A member whose API is cut keeps its endpoints.
//	member eu-1 region=eu zone=eu-a
//	edge fra region=eu zone=eu-a
//	class spillway default
//	pods eu-1 shop/web 10.1.0.1 10.1.0.2
//	ingress shop/web shop.example/->web:http
//	cut eu-1
//	print plans
//	----
//	eu/eu-a classes=spillway networks=default shop/web/http: 0 eu-1 eu-a 2
package fleettest

import (
	"fmt"
	"strings"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// World is a program and the changes that wait for a commit.
type World struct {
	Graph   *inc.Graph
	Program *fleet.Program
	Fronts  *inc.Table[model.Class, fleet.ClassInfo] // input: classes that objects of another kind ask for
	Stats   inc.Stats                                // of the last commit

	staged   []func(*inc.Tx)
	ages     map[string]int64 // the order in which objects were made is their age
	specs    specs
	commands map[string]Command
}

// Command changes the world or prints something of it.
type Command func(w *World, args []string) (string, error)

// specs are the rows written so far, for commands that change a part of one.
type specs struct {
	members map[model.Member]model.MemberSpec
	edges   map[model.Edge]model.EdgeSpec
	ruled   map[model.Object][]model.Host // hosts for which a root has rules
}

// New returns an empty world. declare, if not nil, adds tables to its program
// and returns commands that print them.
func New(declare func(*inc.Graph, *fleet.Program) map[string]Command) *World {
	w := &World{Graph: inc.New(), ages: map[string]int64{}, commands: Commands()}
	w.specs = specs{map[model.Member]model.MemberSpec{}, map[model.Edge]model.EdgeSpec{}, map[model.Object][]model.Host{}}
	w.Fronts = inc.Input[model.Class, fleet.ClassInfo](w.Graph, "fronts")
	w.Program = fleet.Declare(w.Graph, w.Fronts)
	if declare != nil {
		for name, c := range declare(w.Graph, w.Program) {
			w.commands[name] = c
		}
	}
	return w
}

// Stage adds a change to the next commit.
func (w *World) Stage(f func(*inc.Tx)) { w.staged = append(w.staged, f) }

// Commit makes the staged changes, all at once.
func (w *World) Commit() {
	staged := w.staged
	w.staged = nil
	if len(staged) == 0 {
		return
	}
	w.Stats = w.Graph.Commit(func(tx *inc.Tx) {
		for _, f := range staged {
			f(tx)
		}
	})
}

// Do runs commands, one a line, and returns what they print.
func (w *World) Do(lines ...string) (string, error) {
	var out strings.Builder
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		command, ok := w.commands[words[0]]
		if !ok {
			return out.String(), fmt.Errorf("no command %q", words[0])
		}
		said, err := command(w, words[1:])
		if err != nil {
			return out.String(), fmt.Errorf("%s: %w", line, err)
		}
		out.WriteString(said)
	}
	return out.String(), nil
}

// age is how many objects of this name were made up to the first one of it.
func (w *World) age(object string) int64 {
	if _, ok := w.ages[object]; !ok {
		w.ages[object] = int64(len(w.ages) + 1)
	}
	return w.ages[object]
}

// Evaluations are how often the functions of tables were called, by name.
func Evaluations(g *inc.Graph) map[string]int {
	out := map[string]int{}
	for _, s := range g.Tables() {
		out[s.Name] = s.Evaluations
	}
	return out
}
