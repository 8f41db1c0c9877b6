package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/model"
)

// TestTwentyMembers: what is promised while members are not read holds among
// 20 of them, of which one or two do not answer, answer in part or lie: without
// a checkpoint, and with one of an hour before.
func TestTwentyMembers(t *testing.T) {
	for _, from := range []string{"restart", "restart saved"} {
		t.Run(from, func(t *testing.T) {
			hold(t, 6, func(t *rapid.T) script { return largeScript(t, from) }, large)
		})
	}
}

func largeName(i int) string { return fmt.Sprintf("m-%02d", i) }

// largeScript is a fleet of 20 members, of which some fail later. An old
// checkpoint tells the truth of nobody.
func largeScript(t *rapid.T, from string) script {
	s := script{
		"edge fra region=eu zone=eu-a addresses=192.0.2.1", "edge nyc region=us zone=us-a networks=default,far addresses=192.0.2.2",
		"class spillway default", "zone dns/main example",
	}
	for i := range 20 {
		s = append(s, "member "+largeName(i)+[]string{" region=eu zone=eu-a", " region=us zone=us-a", " region=us zone=us-b networks=far"}[i%3])
	}
	for i := range 3 {
		s = append(s, fmt.Sprintf("ingress shop/h%d h%d.example/->s%d:http", i, i, i))
		for range rapid.IntRange(1, 5).Draw(t, "members of a service") {
			s = append(s, largePods(t, rapid.IntRange(0, 19).Draw(t, "member"), i))
		}
	}
	s = append(s, "proxy fra/old", "proxy nyc/old", "tick 1s", "save")
	bad := rapid.SliceOfNDistinct(rapid.IntRange(0, 19), 1, 2, rapid.ID[int]).Draw(t, "bad")
	if from == "restart saved" {
		s = append(s, "tick 1h")
		s = append(s, largeEdits(t, nil)...)
	}
	for _, i := range bad {
		s = append(s, "answers "+largeName(i)+" "+some(t, "not", "not", "part", "lies"))
	}
	s = append(s, from, some(t, "tick 1s", "tick 6s", "tick 31s"))
	return append(s, largeEdits(t, bad)...)
}

// largeEdits change pods of members that answer, and add a host.
func largeEdits(t *rapid.T, bad []int) script {
	var s script
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		if i := rapid.IntRange(0, 19).Draw(t, "member"); !slices.Contains(bad, i) {
			s = append(s, largePods(t, i, rapid.IntRange(0, 2).Draw(t, "service")))
		}
	}
	if chance(t, 2) {
		s = append(s, "ingress shop/late late.example/->s0:http")
	}
	return s
}

func largePods(t *rapid.T, member, service int) string {
	line := fmt.Sprintf("pods %s shop/s%d", largeName(member), service)
	for i := range rapid.IntRange(1, 2).Draw(t, "pods") {
		line += fmt.Sprintf(" 10.%d.%d.%d", member, service, 1+i+rapid.IntRange(0, 1).Draw(t, "age")*10)
	}
	return line
}

// large plays a script, and looks at every promise from its restart on.
func large(s script) error {
	at := slices.IndexFunc(s, func(line string) bool { return strings.HasPrefix(line, "restart") })
	// A fresh checkpoint says what a member has, an old one what it had.
	trusted := s[max(at, 0)] != "restart" && !slices.Contains(s[:max(at, 0)], "tick 1h")
	var b *blind
	var unread []model.Member
	n := 0
	w, err := play(s, func(w *world, line string) (err error) {
		n++
		words := strings.Fields(line)
		if words[0] == "answers" && !trusted && words[2] != "lies" {
			unread = append(unread, model.Member(words[1]))
		}
		if n == at { // the last line before the restart
			b, err = w.blinded(unread...)
			b.since, b.saved = w.now, s[at] != "restart"
			return err
		}
		if n < at {
			return nil
		}
		b.forget(line)
		for _, name := range slices.Sorted(maps.Keys(promises)) {
			if err := promises[name](b); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range 20 {
		if _, err := w.do("answers " + largeName(i) + " well"); err != nil {
			return err
		}
	}
	if _, err := w.do("tick 60s"); err != nil {
		return err
	}
	return w.asFromScratch()
}
