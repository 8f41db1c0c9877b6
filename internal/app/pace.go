package app

import "time"

// turnTime is how long a turn of the loop may take for what can wait. An
// endpoint change waits that long at worst, and then for its own commit.
const turnTime = 10 * time.Millisecond

const (
	fairRows = 256 // when nothing is known
	mostFit  = 1 << 16
	fewRows  = 16 // beside writes: a small change is whole in one commit
)

// pace learns how many of what can wait fit into a turn.
type pace struct{ fit int }

// took tells how long a turn with that many took, if it left some behind.
func (p *pace) took(d time.Duration) {
	fit := int(float64(p.fit) * float64(turnTime) / float64(max(d, time.Microsecond)))
	p.fit = min(max(fit, p.fit/2, 1), 2*p.fit, mostFit)
}
