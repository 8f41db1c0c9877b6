package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// params say in which world a figure was measured: hosts, members, streams.
type params map[string]int

// figure is one number, or what a text says.
type figure struct {
	Name   string  `json:"name"`
	Params params  `json:"params"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
	Text   string  `json:"text,omitempty"`
}

// figures are what was measured, in order.
type figures []figure

func (f *figures) add(name string, p params, value float64, unit string) {
	*f = append(*f, figure{Name: name, Params: p, Value: value, Unit: unit})
}

// lower has a figure of a world change places with the last that has another name
// if that is the lower one.
func (f figures) lower(name, other string, p params) {
	i, j := -1, -1
	for at, one := range f {
		switch {
		case !maps.Equal(one.Params, p):
		case one.Name == name:
			i = at
		case one.Name == other:
			j = at
		}
	}
	if f[j].Value < f[i].Value {
		f[i].Value, f[j].Value = f[j].Value, f[i].Value
	}
}

// medians are the figures of rounds that all measured the same, in the same order.
func medians(rounds []figures) figures {
	out := slices.Clone(rounds[0])
	for i := range out {
		values := make([]float64, len(rounds))
		for r, of := range rounds {
			values[r] = of[i].Value
		}
		slices.Sort(values)
		out[i].Value = values[len(values)/2]
	}
	return out
}

// valuesOf is a figure of each round.
func valuesOf(rounds []figures, name string) []float64 {
	out := make([]float64, len(rounds))
	for r, of := range rounds {
		one, _ := of.find(name, nil)
		out[r] = one.Value
	}
	return out
}

// find returns a figure of a world; that of the largest fleet if p is nil.
func (f figures) find(name string, p params) (figure, bool) {
	var best figure
	found := false
	for _, one := range f {
		if one.Name != name || p != nil && !maps.Equal(one.Params, p) {
			continue
		}
		if !found || one.Params["hosts"] > best.Params["hosts"] {
			best, found = one, true
		}
	}
	return best, found
}

// sweep is a set of worlds that differ in one dimension.
type sweep struct {
	key    string
	fixed  params // the other dimensions
	values []int  // sorted
}

func (s sweep) at(value int) params {
	p := maps.Clone(s.fixed)
	p[s.key] = value
	return p
}

// dimensions of worlds, in the order of tables.
var dimensions = []string{"hosts", "members", "streams"}

// sweeps finds them in the figures of a name, by dimension; of each dimension
// the one with the most worlds first.
func (f figures) sweeps(name string) []sweep {
	var out []sweep
	for _, key := range dimensions {
		var of []sweep
		for _, one := range f {
			if one.Name != name {
				continue
			}
			fixed := maps.Clone(one.Params)
			delete(fixed, key)
			i := slices.IndexFunc(of, func(s sweep) bool { return maps.Equal(s.fixed, fixed) })
			if i < 0 {
				of, i = append(of, sweep{key: key, fixed: fixed}), len(of)
			}
			of[i].values = append(of[i].values, one.Params[key])
		}
		of = slices.DeleteFunc(of, func(s sweep) bool { return len(s.values) < 2 })
		for i := range of {
			slices.Sort(of[i].values)
		}
		slices.SortStableFunc(of, func(a, b sweep) int { return len(b.values) - len(a.values) })
		out = append(out, of...)
	}
	return out
}

func load(path string) (figures, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out figures
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(out) == 0 {
		return nil, errors.New(path + " has no figures")
	}
	return out, nil
}

func (f figures) save(path string) error {
	body, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(body, '\n'), 0o644)
}
