// Command bench measures what a change costs, and writes the report. It runs
// the real `spillway serve` alone in a process, feeds it from API servers that
// it plays itself (a hub and its members, over TLS, in protobuf), and connects
// one real Envoy and many fake ones. All of it is in a network namespace of
// its own, so that what the made-up endpoints are called leads nowhere.
//
// It prints tables and writes a list of {name, params, value, unit}. It fails
// if a limit on bytes is broken, which no load of the machine can excuse.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	if dir := os.Getenv(controlEnv); dir != "" {
		return runControl(dir)
	}
	out := flag.String("out", "build/bench.json", "file to write the figures to")
	short := flag.Bool("short", false, "the corner sizes only, few rounds")
	only := flag.String("only", "", "one part of the plan alone: scenarios, endpoint, nodes, places, wide, fronts, gateways, httproutes, leaves, onebyone, rest or profiles; limits are not checked")
	from := flag.String("from", "", "read the figures from this file instead of measuring")
	report := flag.String("report", "", "folder in which to bring performance.md and its plots up to date")
	flag.Parse()
	f, err := obtain(*from, *only, *short)
	if err != nil || f == nil {
		return err
	}
	if *from == "" {
		if err := f.save(*out); err != nil {
			return err
		}
	}
	f.print(os.Stdout)
	if *report != "" {
		if err := f.write(*report); err != nil {
			return err
		}
	}
	if *only != "" {
		return nil
	}
	return f.check()
}

// obtain reads figures or measures them. It returns none in the process that
// is only the parent of the one that measures.
func obtain(from, only string, short bool) (figures, error) {
	if from != "" {
		return load(from)
	}
	if ran, err := isolate(); ran || err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := fullPlan()
	if short {
		p = shortPlan()
	}
	return p.carryOut(ctx, only, os.Stderr)
}
