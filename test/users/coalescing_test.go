package main

import (
	"strings"
	"testing"
)

// routed is what a host is answered on a connection of its own, by the listener that it
// belongs to.
func routed(host, of string) string {
	switch {
	case of == "":
		return map[string]string{besideHost: servedByBlue}[host]
	case of != "*."+domain:
		return servedByGreen
	case host == oneHost, host == twoHost, host == comingHost:
		return servedByBlue
	}
	return notFound
}

// closest is the listener that a name belongs to: that with the longest hostname for it.
// ingress: names of no other belong to one for all names, which is told as "".
func closest(name string, listeners []string, ingress bool) (of string, is bool) {
	for _, l := range listeners {
		suffix, wildcard := strings.CutPrefix(l, "*")
		if (l == name || wildcard && strings.HasSuffix(name, suffix)) && len(l) > len(of) {
			of, is = l, true
		}
	}
	return of, is || ingress
}

// The tables say what the Gateway API says of their listeners.
func TestTablesOfCoalescing(t *testing.T) {
	fixed := []string{"*." + domain, nearHost}
	for _, c := range []struct {
		name      string
		table     []joined
		with      bool
		ingress   bool
		listeners []string
	}{
		{"jointly", jointly, false, true, fixed},
		{"jointly, with the listener", jointly, true, true, append(fixed[:2:2], comingHost)},
		{"apart", apart, false, false, fixed},
	} {
		for _, j := range c.table {
			on, _ := closest(j.on, c.listeners, c.ingress)
			of, is := closest(j.host, c.listeners, c.ingress)
			want := routed(j.host, of)
			if !is {
				want = notFound
			} else if on != of {
				want = misdirected
			}
			if got := j.answer(c.with); got != want {
				t.Errorf("%s: %s on a connection for %s: %q, want %q", c.name, j.host, j.on, got, want)
			}
		}
	}
}

// A client that is answered 421 goes to the host's own row, unless the host is nobody's.
func TestInstead(t *testing.T) {
	w := &world{}
	for _, r := range w.rows(edge, jointly) {
		switch {
		case r.with != misdirected || r.host == nobodyHost:
		case r.instead == nil:
			t.Errorf("%s: a client has nowhere to go", r.request)
		case r.instead.request.On != r.host || r.instead.request.URL != r.request.URL:
			t.Errorf("%s: instead is %s", r.request, r.instead.request)
		}
	}
}

func TestTheListenerComesAndGoes(t *testing.T) {
	for with, want := range map[bool]int{false: 1, true: 2} {
		spec := nearGateway(with)["spec"].(object)
		if got := len(spec["listeners"].([]any)); got != want || spec["gatewayClassName"] != shared {
			t.Errorf("with %v: %v", with, spec)
		}
	}
}
