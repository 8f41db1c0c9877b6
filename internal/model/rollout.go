package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// RolloutSpec is how an edit of a root with leaves goes to the members.
type RolloutSpec struct {
	Waves []WaveSpec // in order; who is in none is in one more, the last
	Pause time.Duration
}

// WaveSpec says who is in a wave, unless they are in one before it.
type WaveSpec struct {
	Selector string // of labels of members, canonical text; empty: all
	Nobody   bool   // the selector can't be read
}

// Equal reports whether both say the same, or are nil.
func (a *RolloutSpec) Equal(b *RolloutSpec) bool {
	return a == b || a != nil && b != nil && a.Pause == b.Pause && slices.Equal(a.Waves, b.Waves)
}

// Edition is what a root's leaves say, before the differences per member and before what
// other roots have is left out.
type Edition struct {
	ID   string // of its body
	Body string // JSON, as of a Manifest; empty: it is not known
	// Reach is how many of the first waves have it. All waves have the first of several
	// editions, as far as no later one reaches them.
	Reach int `cbor:",omitempty"`
	// Stopped is why it goes to nobody else; Stops is how often the owner had it go on.
	Stopped Stop `cbor:",omitzero"`
	Stops   int  `cbor:",omitempty"`
}

// EditionOf is the edition with a body.
func EditionOf(body string) Edition {
	sum := sha256.Sum256([]byte(body))
	return Edition{ID: hex.EncodeToString(sum[:4]), Body: body}
}

// Token is what the owner calls the edition by, who looked at where it stands: after it
// went on once it has another one, so that nothing is told twice.
func (a Edition) Token() string {
	if a.Stops == 0 {
		return a.ID
	}
	return fmt.Sprintf("%s.%d", a.ID, a.Stops)
}

// Stop is why an edition is stopped. The zero value: it is not.
type Stop struct {
	Member Member
	Why    string
	Wave   int `cbor:",omitempty"` // of the member, from 1
}

// Rollout is what is remembered of how an edit of a root goes to the members.
type Rollout struct {
	// Editions that members should have. Each reaches less far than the one before; the
	// last one goes out, and if it is the only one, all have it. The first is not known
	// where nobody remembers what members had.
	Editions []Edition
	Waves    int // that there were
	// Since is when it was seen that the waves which the last edition reaches have it, and
	// nothing was lost, in Unix milliseconds. 0: they do not, or do so just now.
	Since int64 `cbor:",omitempty"`
	Over  bool  `cbor:",omitempty"` // that was longer ago than the pause
	Bases []Basis
	Back  bool `cbor:",omitempty"` // the owner wants that nobody has the last edition
}

// Basis is how a member was before an edition came, by member.
type Basis struct {
	Member Member
	Fine   Texts // what it had
	Lost   Texts `cbor:",omitzero"` // what it had before an earlier edition, and not when the last one came
}

// Equal reports whether both are the same.
func (a Rollout) Equal(b Rollout) bool {
	return slices.Equal(a.Editions, b.Editions) && a.Waves == b.Waves && a.Since == b.Since && a.Over == b.Over && slices.Equal(a.Bases, b.Bases) && a.Back == b.Back
}

// Last is the edition that goes out, or that all have.
func (a Rollout) Last() *Edition { return &a.Editions[len(a.Editions)-1] }

// Rests reports whether all have the only edition there is.
func (a Rollout) Rests() bool { return len(a.Editions) == 1 }

// Basis is that of a member, if there is one.
func (a Rollout) Basis(m Member) (int, bool) {
	return slices.BinarySearchFunc(a.Bases, m, func(b Basis, m Member) int { return b.Member.Compare(m) })
}

// At is the place of the edition that a wave should have, from 0.
func (a Rollout) At(wave int) int {
	for i := len(a.Editions) - 1; i > 0; i-- {
		if wave < a.Editions[i].Reach {
			return i
		}
	}
	return 0
}

// Ended is what is remembered when a pause is over, unless it began anew.
func (a Rollout) Ended() Rollout {
	a.Over = a.Since != 0
	return a
}
