// Package sotw is the state-of-the-world face of a stream, for gRPC clients: see
// [World].
package sotw

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/xds"
)

// World is the state-of-the-world face of an [xds.Session]: it
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
// called holding the store of the session.
type World struct {
	base   *xds.Session
	put    xds.Request
	topics map[xds.TypeURL]*topic // of the types of which a response carries all that the client has
}

// topic is what the client has of a whole type. The names of what is told and in
// doubt are subscribed to.
type topic struct {
	told  map[string]*xds.Resource // acknowledged
	doubt map[string]*xds.Resource // newer: rejected with others, which the client's words blame by name
	sent  xds.Response             // unanswered, as the Session made it; only what changed
}

var wholes = []xds.TypeURL{xds.Cluster, xds.Listener}

// clientNames bounds what a gRPC client may follow of each type, so that all
// its clusters fit into one message: a client takes 4 MiB.
const clientNames = 1000

// New starts a session for a gRPC client over an empty view.
func New(l xds.Limits) xds.Face {
	l.Names = clientNames
	w := &World{base: xds.NewSession(l), topics: map[xds.TypeURL]*topic{}}
	w.base.Tell(w)
	for _, typ := range wholes {
		w.topics[typ] = &topic{told: map[string]*xds.Resource{}, doubt: map[string]*xds.Resource{}}
	}
	return w
}

// Base is the session behind the face.
func (w *World) Base() *xds.Session { return w.base }

// Whole tells whether responses of a type carry all that the client has.
func (w *World) Whole(typ xds.TypeURL) bool { return w.topics[typ] != nil }

// Told tells whether the client was told of a name of such a type.
func (w *World) Told(typ xds.TypeURL, name string) bool {
	t := w.topics[typ]
	return t.told[name] != nil || t.doubt[name] != nil
}

// Put gives the face a request, which Take then takes.
func (w *World) Put(r xds.Request) { w.put = r }

// Take takes the request that was put, all at once: it names few.
func (w *World) Take(now time.Time, _ int) (more bool, err error) {
	r := w.put
	w.put = xds.Request{}
	return false, w.request(now, r)
}

// request takes a message of the client: its Type, Names and answer. An error
// means that the stream must be closed.
func (w *World) request(now time.Time, r xds.Request) error {
	if !slices.Contains(xds.Types, r.Type) {
		return nil // it will not come: the client's own timer says so
	}
	asked := w.base.Asked(r.Type)
	if !asked && len(r.Names) == 0 || slices.Contains(r.Names, "*") {
		return xds.ErrWildcard
	}
	if len(r.Names) > clientNames {
		return fmt.Errorf("the request names more than %d resources of %s", clientNames, r.Type.Short())
	}
	wanted := map[string]bool{}
	for _, name := range r.Names {
		wanted[name] = true
	}
	t := w.topics[r.Type]
	if t != nil {
		t.answered(r, wanted)
	}
	var gone []string
	for name := range w.base.Subscribed(r.Type) {
		if wanted[name] {
			delete(wanted, name)
		} else {
			gone = append(gone, name)
		}
	}
	if t != nil {
		t.forget(gone)
	}
	return w.base.Request(now, xds.Request{
		Type: r.Type, Subscribe: slices.Sorted(maps.Keys(wanted)), Unsubscribe: gone, Initial: earlier(!asked, r),
		Nonce: r.Nonce, Rejected: r.Rejected, Error: r.Error,
	})
}

// someVersion is what a client has of a name from an earlier stream: it tells
// the version of its last response, which says little of each name in it.
const someVersion = "earlier"

// earlier is what the first request of a type says that the client has.
func earlier(first bool, r xds.Request) map[string]string {
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
func (t *topic) answered(r xds.Request, wanted map[string]bool) {
	if r.Nonce == "" || t.sent.Nonce != r.Nonce {
		return
	}
	sent := t.sent
	t.sent = xds.Response{}
	named := slices.ContainsFunc(sent.Resources, func(res *xds.Resource) bool { return strings.Contains(r.Error, res.Name) })
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

func (t *topic) forget(names []string) {
	for _, name := range names {
		delete(t.told, name)
		delete(t.doubt, name)
	}
}

// Ready returns the responses to send now, at most one per type.
func (w *World) Ready(now time.Time) []xds.Response {
	var out []xds.Response
	for again := true; again; {
		again = false
		for _, r := range w.base.Ready(now) {
			if told, ok := w.tell(r); ok {
				out = append(out, told)
				continue
			}
			// Nothing can be said about it, so nobody will answer. The type and
			// the nonce are the Session's own: it has no reason to object.
			_ = w.base.Request(now, xds.Request{Type: r.Type, Nonce: r.Nonce})
			again = true
		}
	}
	return out
}

// tell makes a response of what the Session has to say; false if there is
// nothing that a client could be told.
func (w *World) tell(r xds.Response) (xds.Response, bool) {
	if r.Type != xds.Listener {
		r.Removed = nil
	}
	if len(r.Resources)+len(r.Removed) == 0 {
		return xds.Response{}, false
	}
	t := w.topics[r.Type]
	if t == nil {
		return sumUp(r.Type, r.Nonce, r.Resources), true
	}
	t.sent = xds.Response{Nonce: r.Nonce, Resources: r.Resources, Removed: r.Removed}
	all := map[string]*xds.Resource{}
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
func sumUp(t xds.TypeURL, nonce string, resources []*xds.Resource) xds.Response {
	out := slices.SortedFunc(slices.Values(resources), func(a, b *xds.Resource) int { return cmp.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, r := range out {
		h.Write([]byte(r.Name + "\x00" + r.Version + "\x00")) // a hash never fails
	}
	return xds.Response{Type: t, Nonce: nonce, Version: base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:8]), Resources: out}
}
