// Command bench measures what a change costs: CPU time, allocations, bytes to
// a proxy and evaluated rows, in worlds of different sizes. The world is real
// from the rows up: the program, the Envoy resources, the xDS server, and a
// client that subscribes as Envoy does and acknowledges. It prints a table and
// writes a list of {name, params, value, unit}.
//
// Times are CPU time of the whole process, client included where it says so.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

// result is one figure.
type result struct {
	Name   string            `json:"name"`
	Params map[string]string `json:"params"`
	Value  float64           `json:"value"`
	Unit   string            `json:"unit"`
}

func main() {
	out := flag.String("out", "build/bench.json", "file to write the figures to")
	short := flag.Bool("short", false, "the corner sizes only, few rounds")
	flag.Parse()
	sizes, rounds := []int{100, 1_000, 10_000}, 200
	if *short {
		sizes, rounds = []int{100, 10_000}, 50
	}
	var all []result
	for _, n := range sizes {
		got, err := measure(n, rounds)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		all = append(all, got...)
	}
	show(all)
	body, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(*out, append(body, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// show prints one line a figure and one column a size.
func show(all []result) {
	var names, sizes []string
	cells := map[string]string{}
	for _, r := range all {
		name, size := r.Name+" ["+r.Unit+"]", r.Params["hosts"]
		if _, ok := cells[name]; !ok {
			names = append(names, name)
			cells[name] = ""
		}
		if len(sizes) == 0 || sizes[len(sizes)-1] != size {
			sizes = append(sizes, size)
		}
		cells[name+size] = fmt.Sprintf("%.4g", r.Value)
	}
	fmt.Printf("%-42s", "hosts")
	for _, s := range sizes {
		fmt.Printf("%12s", s)
	}
	fmt.Println("\n" + strings.Repeat("-", 42+12*len(sizes)))
	for _, name := range names {
		fmt.Printf("%-42s", name)
		for _, s := range sizes {
			fmt.Printf("%12s", cells[name+s])
		}
		fmt.Println()
	}
}
