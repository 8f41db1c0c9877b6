package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// script is the commands of one run.
type script []string

// play runs a script in a new world. check, if not nil, looks at the world
// after every line.
func play(s script, check func(w *world, line string) error) (w *world, err error) {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if w, err = newWorld(dir); err != nil {
		return nil, err
	}
	for i, line := range s {
		if _, err := w.do(line); err != nil {
			return w, err
		}
		if faults := w.plane.Tables().Graph.Faults(); len(faults) > 0 {
			return w, fmt.Errorf("after %q: at fault: %+v", line, faults)
		}
		if check == nil {
			continue
		}
		if err := check(w, line); err != nil {
			return w, fmt.Errorf("after line %d, %q: %w", i+1, line, err)
		}
	}
	return w, nil
}

// Seeds is the environment variable that says how many scripts each property is
// tried with, "500", or which, "123-456".
const Seeds = "SPILLWAY_SIM_SEEDS"

func seeds(t *testing.T, count int) (from, to int) {
	text := os.Getenv(Seeds)
	if text == "" {
		return 0, count
	}
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		first, last = "0", first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil {
		t.Fatalf("%s=%s", Seeds, text)
	}
	return from, to
}

// hold runs scripts, as many as count unless Seeds says otherwise. One that fails
// is shortened and printed: it is a story that ends badly.
func hold(t *testing.T, count int, draw func(*rapid.T) script, run func(script) error) {
	t.Helper()
	from, to := seeds(t, count)
	scripts := rapid.Custom(draw)
	for seed := from; seed < to; seed++ {
		s := scripts.Example(seed)
		if err := run(s); err != nil {
			s, err = shorten(s, err, run)
			t.Fatalf("seed %d: %v\n\n%s\n", seed, err, strings.Join(s, "\n"))
		}
	}
}

// attempts bounds how long a script is shortened.
const attempts = 200

// shorten leaves out lines that are not needed to fail.
func shorten(s script, err error, run func(script) error) (script, error) {
	for i, tries := len(s)-1, 0; i >= 0 && tries < attempts; i, tries = i-1, tries+1 {
		if slices.Contains(foundation, strings.Fields(s[i])[0]) {
			continue
		}
		less := slices.Delete(slices.Clone(s), i, i+1)
		if again := run(less); again != nil && !isMistake(again) {
			s, err = less, again
		}
	}
	return s, err
}

// foundation are the commands without which there is nothing to promise.
var foundation = []string{"edge", "class", "zone", "member", "restart", "gatewayclass", "config"}

// isMistake reports whether a line could not be carried out: no fault of the
// control plane.
func isMistake(err error) bool { return strings.Contains(err.Error(), "there is no ") }

// some draws one of some words.
func some(t *rapid.T, words ...string) string { return rapid.SampledFrom(words).Draw(t, "word") }

func chance(t *rapid.T, of int) bool { return rapid.IntRange(1, of).Draw(t, "chance") == 1 }

// fleetOf are the lines that make a small fleet. Only nyc dials far-1.
func fleetOf(t *rapid.T) script {
	s := script{
		"edge fra region=eu zone=eu-a addresses=192.0.2.1",
		"edge nyc region=us zone=us-a networks=default,far addresses=192.0.2.2",
		"class spillway default", "zone dns/main example",
		"member eu-1 region=eu zone=eu-a", "member us-1 region=us zone=us-a", "member far-1 region=us zone=us-b networks=far",
	}
	for i := range 1 + rapid.IntRange(0, 2).Draw(t, "hosts") {
		s = append(s, ingressLine(t, i))
	}
	for _, m := range memberNames {
		for _, svc := range services {
			if !chance(t, 3) {
				s = append(s, podsLine(t, m, svc))
			}
		}
	}
	return append(s, "proxy fra/old", "proxy nyc/old", "tick 1s")
}

var (
	memberNames = []string{"eu-1", "us-1", "far-1"}
	services    = []string{"shop/web", "shop/api"}
)

func ingressLine(t *rapid.T, i int) string {
	return fmt.Sprintf("ingress shop/h%d h%d.example/->%s:http", i, i, some(t, "web", "api"))
}

// podsLine gives a member from none to three pods of a service.
func podsLine(t *rapid.T, member, service string) string {
	line := fmt.Sprintf("pods %s %s", member, service)
	for i := range 3 {
		switch rapid.IntRange(0, 5).Draw(t, "pod") {
		case 0, 1:
			line += " " + podAddress(member, service, i)
		case 2:
			line += " " + podAddress(member, service, i) + "~"
		}
	}
	return line
}

func podAddress(member, service string, i int) string {
	return fmt.Sprintf("10.%d.%d.%d", 1+slices.Index(memberNames, member), slices.Index(services, service), 1+i)
}

// edit draws one line that users or members could have caused.
func edit(t *rapid.T) string {
	member, service := some(t, memberNames...), some(t, services...)
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0, 1, 2:
		return podsLine(t, member, service)
	case 3:
		return "gone " + member + " " + service
	case 4, 5:
		return ingressLine(t, rapid.IntRange(0, 3).Draw(t, "host"))
	case 6:
		return "tick " + some(t, "1s", "5s", "35s")
	}
	return some(t, "away", "back") + " " + some(t, "fra/old", "nyc/old")
}
