package xds

import (
	"errors"
	"iter"
	"time"
)

// World is what a session knows of a face that tells its client the state of the
// world, see package sotw: the client is a gRPC client. It takes no connections,
// and finds out by itself when it can use a route, so that nothing waits for
// clusters here.
type World interface {
	// Whole tells whether responses of a type carry all that the client has:
	// such a response is in one piece, and is not made before all is decided
	// that it would have to leave out.
	Whole(TypeURL) bool
	// Told tells whether the client was told of a name of such a type.
	Told(t TypeURL, name string) bool
}

// Tell puts a face before the session that tells the client the state of the
// world. It is called before the session is given a view.
func (s *Session) Tell(w World) { s.world = w }

// ErrWildcard refuses a client that wants everything by the state of the world.
var ErrWildcard = errors.New("state of the world is served to gRPC clients, which name what they want: for Envoy, set api_type: DELTA_GRPC in dynamic_resources.ads_config")

// Asked tells whether the client asked for anything of a type.
func (s *Session) Asked(t TypeURL) bool { return s.topics[kindOf[t]].asked }

// Subscribed are the names of a type that the client subscribes to.
func (s *Session) Subscribed(t TypeURL) iter.Seq[string] {
	k := kindOf[t]
	return func(yield func(string) bool) {
		s.topics[k].sub.each(func(id uint32) bool { return yield(s.content.name(k, id)) })
	}
}

// whole tells whether responses of a type go to the client in one piece.
func (s *Session) whole(k kind) bool { return s.world != nil && s.world.Whole(k.url()) }

// undecided tells whether a response of a type would take something away that
// is held or that another stream is asked first: a name that the client was not
// told of.
func (s *Session) undecided(now time.Time, k kind) bool {
	if !s.whole(k) {
		return false
	}
	t := &s.topics[k]
	if !t.dirty.any() && len(t.retry) == 0 {
		return false
	}
	found := false
	t.sub.each(func(id uint32) bool {
		if !s.world.Told(k.url(), s.content.name(k, id)) {
			found = s.open(now, k, id) || found
		}
		return true
	})
	return found
}

// open tells whether what is to be said of a name is not known yet. If another
// stream is asked about it, the session waits for that.
func (s *Session) open(now time.Time, k kind, id uint32) bool {
	t := &s.topics[k]
	res := s.get(k, id)
	if res == nil || s.refused(k, id, res) {
		return s.content.isHeld(k, s.content.name(k, id))
	}
	if !s.content.rollout.defers(now, s, k, id) {
		return false
	}
	t.dirty.clear(id)
	s.wait(k, id)
	return true
}
