package probe

import (
	"net/netip"

	"github.com/spillway-dev/spillway/internal/model"
)

// Tally holds what is known of targets.
type Tally map[Target]Known

// Known is the last verdict of a target, and whether it ever answered.
type Known struct {
	Verdict
	Answered bool
}

// Note takes a verdict.
func (t Tally) Note(target Target, v Verdict) {
	t[target] = Known{v, t[target].Answered || v.Health == model.Up}
}

// Of is the verdict about an edge by its targets: Up if one of its addresses is;
// Down, since the last of them was lost, if all are; Unknown if that cannot be told.
func (t Tally) Of(targets []Target) Verdict {
	byAddress := map[netip.Addr][]Target{}
	for _, target := range targets {
		byAddress[target.Addr.Addr()] = append(byAddress[target.Addr.Addr()], target)
	}
	var last Verdict
	known := true
	for _, ports := range byAddress {
		switch v := t.address(ports); {
		case v.Health == model.Up:
			return v
		case v.Health == model.Unknown:
			known = false
		case v.Since.After(last.Since):
			last = v
		}
	}
	if !known {
		return Verdict{}
	}
	return last
}

// port is an address's port, and how it is spoken to.
type port struct {
	addr netip.AddrPort
	tls  bool
}

// ports is what is known of each port of an address: of one that is asked for several
// hosts, the best of it.
func (t Tally) ports(targets []Target) []Known {
	var out []Known
	at := map[port]int{}
	for _, target := range targets {
		is, of := t[target], port{target.Addr, target.TLS}
		i, again := at[of]
		if !again {
			at[of] = len(out)
			out = append(out, is)
			continue
		}
		answered := out[i].Answered || is.Answered
		if better(is.Verdict, out[i].Verdict) {
			out[i] = is
		}
		out[i].Answered = answered
	}
	return out
}

// better reports whether of two verdicts about a port the first counts: that somebody
// answers, then that it is not known yet, then the later loss.
func better(a, b Verdict) bool {
	order := [...]int{model.Up: 0, model.Unknown: 1, model.Down: 2}
	if a.Health != b.Health {
		return order[a.Health] < order[b.Health]
	}
	return a.Since.After(b.Since)
}

// address is the verdict about the ports of one address. A port counts once it has
// answered: what lets nobody from here in, or is not served yet, says nothing about
// those that do. An address is Down since the first of these fell silent; where
// none ever answered, since the last did not.
func (t Tally) address(targets []Target) Verdict {
	var first, last, up Verdict
	known, counted := true, false
	for _, is := range t.ports(targets) {
		switch counted = counted || is.Answered; {
		case is.Health == model.Up:
			up = is.Verdict
		case is.Health == model.Unknown:
			known = false
		case is.Answered && (first.Since.IsZero() || is.Since.Before(first.Since)):
			first = is.Verdict
		case is.Since.After(last.Since):
			last = is.Verdict
		}
	}
	switch {
	case counted && first.Health == model.Down:
		return first
	case counted:
		return up
	case !known:
		return Verdict{}
	}
	return last
}
