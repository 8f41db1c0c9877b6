package main

import "fmt"

// report is what is told of a run, as it goes.
type report struct {
	text []byte
}

// part begins with one.
func (r *report) part(name string) { r.line("=== %s", name) }

func (r *report) line(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	fmt.Print(text)
	r.text = append(r.text, text...)
}
