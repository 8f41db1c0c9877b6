package main

import "fmt"

// report is what is told of a run, as it goes.
type report struct {
	parts []string
	text  []byte
}

// part begins with one.
func (r *report) part(name string) {
	r.parts = append(r.parts, name)
	r.line("=== %s", name)
}

func (r *report) line(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	fmt.Print(text)
	r.text = append(r.text, text...)
}
