package app

import "time"

// turnTime is how long a turn of the loop may take for what can wait. An
// endpoint change waits that long at worst, and then for its own commit.
const turnTime = 10 * time.Millisecond

const (
	fairRows = 256 // when nothing is known
	mostRows = 1 << 16
	fewRows  = 16 // beside writes: a small change is whole in one commit
)

// pace learns how many rows of the backlog fit into a turn.
type pace struct{ rows int }

func newPace() pace { return pace{fairRows} }

// took tells how long a turn with that portion took, if it left some behind.
func (p *pace) took(d time.Duration) {
	fit := int(float64(p.rows) * float64(turnTime) / float64(max(d, time.Microsecond)))
	p.rows = min(max(fit, p.rows/2, 1), 2*p.rows, mostRows)
}
