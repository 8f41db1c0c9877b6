package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// World is the state-of-the-world face of a Session, for gRPC clients: it
// takes requests that name all that the client wants, and gives responses of
// which those of listeners and clusters carry all that the client has. Behind
// it everything is the Session's: the view, versions, pacing, rejections.
//
// What differs from Envoy's delta, and why (gRFC A27, A46, A53, A74):
//
//   - A client follows from listener to route to cluster to endpoints by
//     itself, and uses a new route when it has all that this leads to. So
//     nothing waits for clusters here.
//   - It asks for names, never for everything.
//   - It drops a cluster that a response leaves out, but unsubscribes when it no
//     longer needs one. So a cluster that the view loses stays in the
//     responses until then. Only a listener is ever taken away.
//   - Of a rejected response it keeps what is good. What it had of the rest
//     stays in the responses.
//   - A response can't say that one name is not known yet. While a name is
//     held that the client may have from an earlier stream, no response of its
//     type is sent.
//   - Routes and assignments are sent one by one, and never taken away: the
//     protocol has no words for it.
//
// Like the Session it is pure and belongs to one stream; its methods are
// called holding the lock of the session's view.
type World struct {
	base   *Session
	topics [kinds]worldTopic
}

// worldTopic is kept for whole types. The names of what is told and in doubt
// are subscribed to.
type worldTopic struct {
	told  map[string]*Resource // acknowledged
	doubt map[string]*Resource // newer: rejected with others, which the client's words blame by name
	sent  Response             // unanswered, as the Session made it; only what changed
}

// wholes are the types of which a response carries all that the client has.
var wholes = [kinds]bool{cluster: true, listener: true}

// errWildcard refuses a client that wants everything.
var errWildcard = errors.New("state of the world is served to gRPC clients, which name what they want: for Envoy, set api_type: DELTA_GRPC in dynamic_resources.ads_config")

// clientNames bounds what a gRPC client may follow of each type, so that all
// its clusters fit into one message: a client takes 4 MiB.
const clientNames = 1000

// NewWorld starts a session for a gRPC client over an empty view.
func NewWorld(l Limits) *World {
	l.Names = clientNames
	w := &World{base: NewSession(l)}
	w.base.world = w
	for k := range w.topics {
		w.topics[k].told, w.topics[k].doubt = map[string]*Resource{}, map[string]*Resource{}
	}
	return w
}

// Put gives the face a request, which Take then takes.
func (w *World) Put(r Request) { w.base.Put(r) }

// Take takes the request that was put, all at once: it names few.
func (w *World) Take(now time.Time, _ int) (more bool, err error) {
	r := w.base.taking.Request
	return false, w.Request(now, r)
}

// Request takes a message of the client: its Type, Names and answer. An error
// means that the stream must be closed.
func (w *World) Request(now time.Time, r Request) error {
	k, ok := kindOf[r.Type]
	if !ok {
		return nil // it will not come: the client's own timer says so
	}
	t := &w.base.topics[k]
	if !t.asked && len(r.Names) == 0 || slices.Contains(r.Names, everything) {
		return errWildcard
	}
	if len(r.Names) > clientNames {
		return fmt.Errorf("the request names more than %d resources of %s", clientNames, r.Type.short())
	}
	wanted := map[string]bool{}
	for _, name := range r.Names {
		wanted[name] = true
	}
	if wholes[k] {
		w.topics[k].answered(r, wanted)
	}
	var gone []string
	t.sub.each(func(id uint32) bool {
		if name := w.base.content.name(k, id); wanted[name] {
			delete(wanted, name)
		} else {
			gone = append(gone, name)
		}
		return true
	})
	if wholes[k] {
		w.topics[k].forget(gone)
	}
	return w.base.Request(now, Request{
		Type: r.Type, Subscribe: slices.Sorted(maps.Keys(wanted)), Unsubscribe: gone, Initial: earlier(!t.asked, r),
		Nonce: r.Nonce, Rejected: r.Rejected, Error: clipped(r.Error, maxWords),
	})
}

// someVersion is what a client has of a name from an earlier stream: it tells
// the version of its last response, which says little of each name in it.
const someVersion = "earlier"

// earlier is what the first request of a type says that the client has.
func earlier(first bool, r Request) map[string]string {
	if !first || r.Version == "" || r.Nonce != "" {
		return nil
	}
	out := make(map[string]string, len(r.Names))
	for _, name := range r.Names {
		out[name] = someVersion
	}
	return out
}

// answered takes an ACK or NACK of the response in flight. What is not wanted
// any more the client did not take, though it may have if it wanted it again.
func (t *worldTopic) answered(r Request, wanted map[string]bool) {
	if r.Nonce == "" || t.sent.Nonce != r.Nonce {
		return
	}
	sent := t.sent
	t.sent = Response{}
	named := slices.ContainsFunc(sent.Resources, func(res *Resource) bool { return strings.Contains(r.Error, res.Name) })
	for _, res := range sent.Resources {
		switch {
		case !wanted[res.Name]:
		case !r.Rejected:
			t.told[res.Name] = res
			delete(t.doubt, res.Name)
		case named && !strings.Contains(r.Error, res.Name):
			t.doubt[res.Name] = res
		}
	}
	t.forget(sent.Removed) // also of a response whose other parts it refuses
}

func (t *worldTopic) forget(names []string) {
	for _, name := range names {
		delete(t.told, name)
		delete(t.doubt, name)
	}
}

// Ready returns the responses to send now, at most one per type.
func (w *World) Ready(now time.Time) []Response {
	var out []Response
	for again := true; again; {
		again = false
		for _, r := range w.base.Ready(now) {
			if told, ok := w.tell(kindOf[r.Type], r); ok {
				out = append(out, told)
				continue
			}
			// Nothing can be said about it, so nobody will answer. The type and
			// the nonce are the Session's own: it has no reason to object.
			_ = w.base.Request(now, Request{Type: r.Type, Nonce: r.Nonce})
			again = true
		}
	}
	return out
}

// tell makes a response of what the Session has to say; false if there is
// nothing that a client could be told.
func (w *World) tell(k kind, r Response) (Response, bool) {
	if k != listener {
		r.Removed = nil
	}
	if len(r.Resources)+len(r.Removed) == 0 {
		return Response{}, false
	}
	if !wholes[k] {
		return sumUp(r.Type, r.Nonce, r.Resources), true
	}
	t := &w.topics[k]
	t.sent = Response{Nonce: r.Nonce, Resources: r.Resources, Removed: r.Removed}
	all := map[string]*Resource{}
	maps.Copy(all, t.told)
	maps.Copy(all, t.doubt)
	for _, res := range r.Resources {
		all[res.Name] = res
	}
	for _, name := range r.Removed {
		delete(all, name)
	}
	return sumUp(r.Type, r.Nonce, slices.Collect(maps.Values(all))), true
}

// sumUp makes a response whose version is a hash of what is in it: a client
// that comes back to any replica names a version that means something there.
func sumUp(t TypeURL, nonce string, resources []*Resource) Response {
	out := slices.SortedFunc(slices.Values(resources), func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, r := range out {
		h.Write([]byte(r.Name + "\x00" + r.Version + "\x00")) // a hash never fails
	}
	return Response{Type: t, Nonce: nonce, Version: base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:8]), Resources: out}
}

// whole tells whether responses of a type go to the client in one piece.
func (w *World) whole(k kind) bool { return w != nil && wholes[k] }

// undecided tells whether a response of a type would take something away that
// is held or that another stream is asked first: a name that this stream has not
// told the client of.
func (w *World) undecided(now time.Time, k kind) bool {
	if !w.whole(k) {
		return false
	}
	t := &w.base.topics[k]
	if !t.dirty.any() && len(t.retry) == 0 {
		return false
	}
	found := false
	t.sub.each(func(id uint32) bool {
		name := w.base.content.name(k, id)
		if w.topics[k].told[name] == nil && w.topics[k].doubt[name] == nil {
			found = w.open(now, k, id) || found
		}
		return true
	})
	return found
}

// open tells whether what is to be said of a name is not known yet. If another
// stream is asked about it, the session waits for that.
func (w *World) open(now time.Time, k kind, id uint32) bool {
	s, t := w.base, &w.base.topics[k]
	res := s.content.get(k, id)
	if res == nil || s.refused(k, id, res) {
		return s.content.isHeld(k, s.content.name(k, id))
	}
	if !s.content.rollout.defers(now, s, k, id) {
		return false
	}
	t.dirty.clear(id)
	t.waiting.set(id)
	return true
}

// waits tells whether a type may have waited for what was held.
func (w *World) waits(k kind) bool { return w.whole(k) && w.base.topics[k].dirty.any() }
