package model

import (
	"slices"
	"strings"
)

// Classes is some classes, sorted and joined by ",". It is comparable.
type Classes string

// ClassesOf are these, each once.
func ClassesOf(list ...Class) Classes {
	sorted := slices.Compact(slices.Sorted(slices.Values(list)))
	names := make([]string, len(sorted))
	for i, c := range sorted {
		names[i] = string(c)
	}
	return Classes(strings.Join(names, ","))
}

// List is each of them.
func (a Classes) List() []Class {
	if a == "" {
		return nil
	}
	out := make([]Class, 0, 1+strings.Count(string(a), ","))
	for name := range strings.SplitSeq(string(a), ",") {
		out = append(out, Class(name))
	}
	return out
}
