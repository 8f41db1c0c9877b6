package app

import "time"

// turnTime is how long a turn of the loop may take for what can wait. An
// endpoint change waits that long at worst, and then for its own commit.
const turnTime = 10 * time.Millisecond

const (
	fairRows = 256 // when nothing is known
	mostRows = 1 << 16
	fewer    = 8 // a commit for somebody else works off so much less of the backlog
)

// pace learns how many rows of the backlog fit into a turn.
type pace struct{ rows int }

func newPace() pace { return pace{fairRows} }

// whole is the portion of a turn that does nothing else.
func (p pace) whole() int { return p.rows }

// part is the portion of a turn for other things: never none, so that the
// backlog ends however much else there is.
func (p pace) part() int { return max(p.rows/fewer, 1) }

// took tells how long a turn with a whole portion took, if it left some behind.
func (p *pace) took(d time.Duration) {
	fit := int(float64(p.rows) * float64(turnTime) / float64(max(d, time.Microsecond)))
	p.rows = min(max(fit, p.rows/2, 1), 2*p.rows, mostRows)
}
