package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRefusesEverything: whenever a proxy connects that refuses all it is sent,
// whether it stays, and however the control plane restarts, every other proxy
// serves every change within 2 s.
func TestRefusesEverything(t *testing.T) {
	for _, others := range [][]string{{"fra/a"}, {"fra/a", "fra/b"}, {"nyc/a"}, {"fra/a", "nyc/a"}} {
		for _, first := range []bool{true, false} {
			for _, leaves := range []string{"", "away fra/bad", "without fra/bad"} {
				for _, restart := range []string{"", "restart", "restart last", "restart saved"} {
					name := fmt.Sprintf("%s/first %t/%s/%s", strings.Join(others, " "), first, leaves, restart)
					t.Run(name, func(t *testing.T) { refusesAll(t, others, first, leaves, restart) })
				}
			}
		}
	}
}

// change is a line that makes a host be served by some pods.
type change struct {
	line, host string
	pods       []string
}

// changes follow one after another.
var changes = []change{
	{"pods eu-1 shop/web 10.1.0.2", "h0.example", []string{"10.1.0.2"}},
	{"ingress shop/h1 h1.example/->api:http", "h1.example", []string{"10.1.1.1"}},
	{"ingress shop/h0 h0.example/->api:http", "h0.example", []string{"10.1.1.1"}},
	{"pods eu-1 shop/api 10.1.1.2", "h0.example", []string{"10.1.1.2"}},
	{"ingress shop/h2 h2.example/->web:http", "h2.example", []string{"10.1.0.2"}},
}

// refusesAll has the bad proxy leave while the second change is under way, and
// the control plane restart while the fourth is.
func refusesAll(t *testing.T, others []string, first bool, leaves, restart string) {
	s := script{
		"edge fra region=eu addresses=192.0.2.1", "edge nyc region=us addresses=192.0.2.2", "class spillway default", "zone dns/main example",
		"member eu-1 region=eu", "pods eu-1 shop/web 10.1.0.1", "pods eu-1 shop/api 10.1.1.1", "ingress shop/h0 h0.example/->web:http",
	}
	var connect script
	for _, name := range others {
		connect = append(connect, "proxy "+name)
	}
	at := len(connect)
	if first {
		at = 0
	}
	s = append(s, slices.Insert(connect, at, "proxy fra/bad "+everything, "tick 2s")...)
	s = append(s, "save")
	wants := map[int]change{}
	for i, c := range changes {
		s = append(s, c.line)
		switch i {
		case 1:
			s = append(s, leaves)
		case 3:
			s = append(s, restart)
		}
		s = append(s, "tick 2s")
		wants[len(s)] = c
	}
	n := 0
	_, err := play(s, func(w *world, _ string) error {
		n++
		c, due := wants[n]
		if !due {
			return nil
		}
		for _, name := range others {
			got, err := w.served(w.proxies[name], c.host)
			if err != nil {
				return err
			}
			if !slices.Equal(got.ips, c.pods) {
				return fmt.Errorf("proxy %s answers %d for %s from %v; want %v", name, got.status, c.host, got.ips, c.pods)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v\n\n%s", err, strings.Join(s, "\n"))
	}
}
