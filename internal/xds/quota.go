package xds

import (
	"fmt"
	"slices"
	"sync"
)

// speaker is who a client proved to be. What may be opened, and whose turn it is,
// is counted by it, whatever else a client says of itself: whoever has the key of
// one Edge takes nothing from others.
type speaker struct {
	edge     string
	class    Class
	identity string // see credential.identity
}

func (c *credential) speaker(p Proxy) speaker { return speaker{p.Edge, p.Class, c.identity(p)} }

// quota counts what is open, and says when it is too much: in all, and of one
// speaker. It may be used from any goroutine.
type quota struct {
	what        string // for refusals: ADS streams
	most, ofOne int

	mu  sync.Mutex
	all int
	of  map[speaker]int
}

// enter counts one more, or tells why there may be none, and which limit it is for
// the metric.
func (q *quota) enter(who speaker) (limit, refusal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.of[who] >= q.ofOne:
		return "too_many_of_one", fmt.Sprintf("%s has %d %s, the limit of one identity", who.identity, q.ofOne, q.what)
	case q.all >= q.most:
		return "too_many", fmt.Sprintf("this server has %d %s, its limit", q.most, q.what)
	}
	if q.of == nil {
		q.of = map[speaker]int{}
	}
	q.all++
	q.of[who]++
	return "", ""
}

// leave takes back what enter counted.
func (q *quota) leave(who speaker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all--
	if q.of[who]--; q.of[who] == 0 {
		delete(q.of, who)
	}
}

func (q *quota) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}

// door lets streams load their first state, so many at a time. Speakers have turns,
// and none has more than half of the places. So a storm of one delays the first
// answer to no other: it waits for its own. A speaker whose streams answer nothing
// has one place, until one of them does: nobody takes what they are sent.
type door struct {
	room, ofOne int

	mu     sync.Mutex
	in     int
	inside map[speaker]int
	mute   map[speaker]int             // streams in a row that left and had answered nothing
	lines  map[speaker][]chan struct{} // of those that have a turn, each not empty
	turns  []speaker                   // who has somebody waiting, the next one first
}

func newDoor(room int) *door {
	return &door{room: room, ofOne: max(1, room/2), inside: map[speaker]int{}, mute: map[speaker]int{}, lines: map[speaker][]chan struct{}{}}
}

// queue returns a channel that is closed when there is a place. Who does not wait
// for it any more says so by desert.
func (d *door) queue(who speaker) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := make(chan struct{})
	if len(d.lines[who]) == 0 {
		d.turns = append(d.turns, who)
	}
	d.lines[who] = append(d.lines[who], in)
	d.next()
	return in
}

// mostMute is how many streams in a row may answer nothing: proxies that crash
// when they start do so, too. Of so many speakers as mostMuted it is counted;
// with one more the count begins anew, since those that are gone leave theirs.
const (
	mostMute  = 8
	mostMuted = 1024
)

// exit gives a place back. It is told whether the client answered anything.
func (d *door) exit(who speaker, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case answered:
		delete(d.mute, who)
	case d.mute[who] < mostMute:
		if len(d.mute) >= mostMuted {
			clear(d.mute)
		}
		d.mute[who]++
	}
	d.leave(who)
}

// most is how many places a speaker may have.
func (d *door) most(who speaker) int {
	if d.mute[who] >= mostMute {
		return 1
	}
	return d.ofOne
}

func (d *door) leave(who speaker) {
	d.in--
	if d.inside[who]--; d.inside[who] == 0 {
		delete(d.inside, who)
	}
	d.next()
}

// next lets in whose turn it is, as long as there is room.
func (d *door) next() {
	for at := 0; at < len(d.turns) && d.in < d.room; {
		who := d.turns[at]
		if d.inside[who] >= d.most(who) {
			at++
			continue
		}
		line := d.lines[who]
		close(line[0])
		d.in++
		d.inside[who]++
		d.turns = append(d.turns[:at], d.turns[at+1:]...)
		if d.lines[who] = line[1:]; len(line) == 1 {
			delete(d.lines, who)
		} else {
			d.turns = append(d.turns, who)
		}
	}
}

// desert ends the wait of one that gave up, whether it was let in meanwhile or not.
func (d *door) desert(who speaker, in chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := d.lines[who]
	at := slices.Index(line, in)
	if at < 0 {
		d.leave(who)
		return
	}
	if d.lines[who] = slices.Delete(line, at, at+1); len(line) > 1 {
		return
	}
	delete(d.lines, who)
	d.turns = slices.DeleteFunc(d.turns, func(s speaker) bool { return s == who })
}
