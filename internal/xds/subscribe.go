package xds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// intake is a request that is being taken: so many names at a time, so that
// whoever needs the view meanwhile, first of all the loop that publishes, waits
// for no more than that, whatever a client asks for. Nothing is sent before all
// of it was taken.
type intake struct {
	Request
	kind  kind
	begun bool
	first bool // of its type
	phase int
	next  int      // where its phase goes on: a name or a row
	known []string // the names of Initial
	drop  bool     // a wildcard subscription ends
	all   bool     // one begins
	gone  bool     // the client holds something that is not there, or another version
}

// namesAtOnce is how many names of a request are taken, and aliasesAtOnce how many
// of a type that has aliases, while others wait.
const (
	namesAtOnce   = 2048
	aliasesAtOnce = 256
)

// Put gives the session a request, which [Session.Take] then takes. Unlike all
// other methods it needs no lock.
func (s *Session) Put(r Request) {
	s.taking = intake{Request: r}
	if len(r.Initial) > 0 {
		s.taking.known = slices.AppendSeq(make([]string, 0, len(r.Initial)), maps.Keys(r.Initial))
	}
}

// phases are what a request consists of, in this order: how many names or rows
// there are, and what happens to one.
var phases = [...]struct {
	size func(*Session, *intake) int
	take func(s *Session, now time.Time, in *intake, at int)
}{
	{
		func(_ *Session, in *intake) int { return len(in.Unsubscribe) },
		func(s *Session, now time.Time, in *intake, at int) { s.unsubscribe(now, in, in.Unsubscribe[at]) },
	},
	{
		func(s *Session, in *intake) int { return s.rowsIf(in.drop, in.kind) },
		func(s *Session, now time.Time, in *intake, at int) { s.unsubscribeRow(now, in.kind, uint32(at)) },
	},
	{
		func(_ *Session, in *intake) int { return len(in.Subscribe) },
		func(s *Session, now time.Time, in *intake, at int) { s.subscribe(now, in, in.Subscribe[at]) },
	},
	{
		func(s *Session, in *intake) int { return s.rowsIf(in.all, in.kind) },
		func(s *Session, _ time.Time, in *intake, at int) { s.subscribeRow(in.kind, uint32(at)) },
	},
	{
		func(_ *Session, in *intake) int { return len(in.known) },
		func(s *Session, _ time.Time, in *intake, at int) { s.initial(in, in.known[at]) },
	},
}

func (s *Session) rowsIf(on bool, k kind) int {
	if !on {
		return 0
	}
	return s.content.size(k)
}

// skip goes over to the next phase that has something left.
func (s *Session) skip(in *intake) int {
	for in.phase < len(phases) && in.next >= phases[in.phase].size(s, in) {
		in.phase, in.next = in.phase+1, 0
	}
	return in.phase
}

// Request takes a message of the client. An error means that the stream must
// be closed.
func (s *Session) Request(now time.Time, r Request) error {
	s.Put(r)
	for {
		if more, err := s.Take(now, namesAtOnce); err != nil || !more {
			return err
		}
	}
}

// Take takes the next part of the request that was put, room names of it at
// most, and tells whether there is more. An error means that the stream must be
// closed.
func (s *Session) Take(now time.Time, room int) (more bool, err error) {
	in := &s.taking
	if _, served := kindOf[in.Type]; !served {
		return false, s.stranger(in.Request)
	}
	defer func() { s.content.endStep(now) }()
	if !in.begun {
		s.begin(now, in)
	}
	if s.content.aliases.of(in.kind) {
		room = min(room, aliasesAtOnce)
	}
	if at := s.skip(in); at < len(phases) {
		end := min(in.next+room, phases[at].size(s, in))
		for ; in.next < end; in.next++ {
			phases[at].take(s, now, in, in.next)
		}
		if err := s.overLimit(in.kind); err != nil {
			return false, err
		}
	}
	if s.skip(in) < len(phases) {
		return true, nil
	}
	s.finish(now, in)
	s.taking = intake{}
	return false, nil
}

// begin takes what a request says by itself: an answer, and that its type is
// asked for.
func (s *Session) begin(now time.Time, in *intake) {
	in.begun, in.kind = true, kindOf[in.Type]
	t := &s.topics[in.kind]
	if in.Nonce != "" {
		s.answer(now, in.kind, in.Request)
	}
	in.first = !t.asked
	t.asked = true
	if !in.first {
		in.known = nil
		return
	}
	s.resume(now, in.Request)
	if wildcards[in.kind] && len(in.Subscribe) == 0 {
		s.wildcard(in)
	}
}

// finish ends a request.
func (s *Session) finish(now time.Time, in *intake) {
	if !in.first {
		return
	}
	if in.gone {
		s.departInitial(now, in.kind)
	}
	if len(s.topics[listener].gated) > 0 {
		s.ungate()
	}
	if in.kind == cluster || in.kind == assignment {
		s.ungate() // what it holds is known only now, maybe after what waits for it was asked for
		s.unkeep()
	}
}

// overLimit tells whether the client follows more than it may.
func (s *Session) overLimit(k kind) error {
	t := &s.topics[k]
	if t.sub.count() > s.limits.Names || t.holds > 3*s.limits.Names {
		return fmt.Errorf("the stream follows more than %d names of %s", s.limits.Names, k.url().Short())
	}
	if s.content.brought(s.client.Identity) > s.limits.NameBytes {
		return fmt.Errorf("the names that the streams of this identity follow, and that are nowhere, take more than %d bytes", s.limits.NameBytes)
	}
	return nil
}

// foreignLimit is how many answers for types that are not served may wait.
const foreignLimit = 16

// foreignNames is how many names of a type that is not served are answered.
const foreignNames = 100

var errForeign = errors.New("too many requests for types that are not served")

// stranger answers a type we do not serve: everything asked for is absent.
// Without an answer Envoy would warm what uses it until a timeout.
func (s *Session) stranger(r Request) error {
	if len(r.Subscribe) == 0 {
		return nil
	}
	if len(s.foreign) >= foreignLimit {
		return fmt.Errorf("%w, last %s", errForeign, words(string(r.Type), maxName))
	}
	names := slices.Clone(r.Subscribe[:min(len(r.Subscribe), foreignNames)])
	s.foreign = append(s.foreign, Response{Type: r.Type, Nonce: s.nonce(), Removed: names})
	return nil
}

// wildcard begins a subscription to everything; its rows are a phase.
func (s *Session) wildcard(in *intake) {
	if in.all {
		return
	}
	t := &s.topics[in.kind]
	in.all, t.wild, t.owed = true, true, len(in.Initial) == 0
	s.widen(in.kind)
	s.crossedAll(in.kind)
}

func (s *Session) subscribeRow(k kind, id uint32) {
	if s.get(k, id) != nil {
		s.topics[k].dirty.set(id)
	}
}

func (s *Session) subscribe(now time.Time, in *intake, name string) {
	k := in.kind
	t := &s.topics[k]
	switch {
	case name == "":
		return
	case name == everything && wildcards[k]:
		s.wildcard(in)
		return
	}
	id := s.content.bring(k, name, s.client.Identity)
	s.hold(k, &t.sub, id)
	_, known := in.Initial[name]
	if !known || t.follows.has(id) {
		t.force.set(id) // asked for anew: sent even if we believe the client has it
	}
	s.release(k, &t.follows, id)
	t.dirty.set(id)
	s.want(now, k, id)
	s.crossed(k, id)
}

// initial takes what the client kept of a name from an earlier stream.
func (s *Session) initial(in *intake, name string) {
	k := in.kind
	t := &s.topics[k]
	id, interned := s.content.find(k, name)
	if name == "" || !t.wild && (!interned || !t.sub.has(id)) {
		return
	}
	id = s.content.bring(k, name, s.client.Identity)
	s.hold(k, &t.has, id)
	version := in.Initial[name]
	if len(version) > maxVersion {
		version = "" // none of ours
	}
	res := s.get(k, id)
	switch {
	case res == nil:
		t.setStale(id, version)
		in.gone = true
	case res.Version != version:
		t.setStale(id, version)
	case s.reports[k]: // acknowledged, to whoever served it before us
		s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: name, Version: version})
	}
	t.dirty.set(id)
}

func (s *Session) unsubscribe(now time.Time, in *intake, name string) {
	k := in.kind
	t := &s.topics[k]
	if name == everything {
		if t.wild {
			t.wild, t.owed, in.drop, in.all = false, false, true, false
		}
		return
	}
	id, ok := s.content.find(k, name)
	if !ok || !t.sub.has(id) {
		return
	}
	s.release(k, &t.sub, id)
	if t.wild { // still wanted: the client asks to be told again
		t.force.set(id)
		t.dirty.set(id)
		return
	}
	s.drop(now, k, id)
}

func (s *Session) unsubscribeRow(now time.Time, k kind, id uint32) {
	if !s.topics[k].sub.has(id) {
		s.drop(now, k, id)
	}
}
