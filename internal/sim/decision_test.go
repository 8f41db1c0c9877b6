package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/zone"
)

// TestOneDecision: DNS, proxies and findings say the same of who serves a host,
// however bad everybody is: an edge is named only if its proxies serve the host,
// if some do then one of them is named, and a new replica tells the same.
func TestOneDecision(t *testing.T) {
	hold(t, 40, decisionScript, func(s script) error {
		w, err := play(append(slices.Clone(s), "tick 60s"), nil)
		if err != nil {
			return err
		}
		if err := w.agrees(); err != nil {
			return err
		}
		if err := w.asFromScratch(); err != nil {
			return err
		}
		for _, line := range []string{"restart", "tick 1s"} {
			if _, err := w.do(line); err != nil {
				return err
			}
		}
		return w.agrees()
	})
}

// farOnly dials none but far-1.
const farOnly = "edge lab region=us zone=us-b networks=far addresses=192.0.2.3"

// decisionScript is a fleet in which little is well.
func decisionScript(t *rapid.T) script {
	s := append(fleetOf(t), farOnly, "proxy lab/old")
	for range 1 + rapid.IntRange(0, 2).Draw(t, "rounds") {
		s = append(s, blow(t)...)
		if chance(t, 3) {
			s = append(s, "tick "+some(t, "1s", "35s"))
		}
	}
	return s
}

// blow is something bad that happens to every member, or to each something else.
func blow(t *rapid.T) script {
	kinds := []func(*rapid.T, string) script{taken("drain"), taken("taints=upgrade"), taken(""), cut, ending}
	one := rapid.IntRange(0, len(kinds)).Draw(t, "kind")
	var s script
	for _, m := range memberNames {
		kind := one
		if one == len(kinds) {
			kind = rapid.IntRange(0, len(kinds)-1).Draw(t, "kind of one")
		}
		s = append(s, kinds[kind](t, m)...)
	}
	return s
}

// taken gives a member a drain or a taint, or ends that.
func taken(how string) func(*rapid.T, string) script {
	at := map[string]string{
		"eu-1": "region=eu zone=eu-a", "us-1": "region=us zone=us-a", "far-1": "region=us zone=us-b networks=far",
	}
	return func(_ *rapid.T, member string) script {
		return script{strings.TrimSpace("member " + member + " " + at[member] + " " + how)}
	}
}

// cut has all paths to a member down, or those of some edges only.
func cut(t *rapid.T, member string) script {
	var s script
	partly := chance(t, 3)
	for _, edge := range []string{"fra", "nyc", "lab"} {
		how := "down"
		if partly {
			how = some(t, "down", "up", "unknown")
		}
		s = append(s, "path "+edge+" "+member+" "+how)
	}
	return s
}

// ending has all pods of a member terminate.
func ending(_ *rapid.T, member string) script {
	var s script
	for _, service := range services {
		s = append(s, fmt.Sprintf("pods %s %s %s~", member, service, podAddress(member, service, 0)))
	}
	return s
}

// agrees compares what DNS and findings say with what becomes of requests.
func (w *world) agrees() error {
	for _, host := range w.hosts() {
		got, err := w.resolve(host, zone.TypeA)
		if err != nil {
			return err
		}
		var serve []string
		for _, edge := range w.edges() {
			a, err := w.served(w.proxies[edge+"/old"], host)
			if err != nil {
				return err
			}
			if len(a.ips) > 0 {
				serve = append(serve, w.addressOf(edge))
			}
		}
		if len(serve) == 0 {
			continue // DNS goes on naming who served last
		}
		if wrong := less(got.addresses, serve); len(wrong) > 0 || len(got.addresses) == 0 {
			return fmt.Errorf("%s resolves to %s, but who serves it is %v", host, got, serve)
		}
	}
	return nil
}
