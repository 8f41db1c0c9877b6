package probe

import "github.com/spillway-dev/spillway/internal/model"

// Tally holds the last verdict of each target.
type Tally map[Target]Verdict

// Of is the verdict about an edge by its addresses, the targets: Up if one of
// them answers; Down, since the last of them fell silent, if none does; Unknown
// if that cannot be told.
func (t Tally) Of(targets []Target) Verdict {
	var last Verdict
	known := true
	for _, target := range targets {
		switch v := t[target]; {
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
