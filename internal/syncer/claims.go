package syncer

import (
	"cmp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// An object in the member that is not ours may ask the same controller for a host of a
// leaf. Which of the two gets it is up to that controller, so it is told, and nothing is
// guessed. Of such objects what they ask for is kept, and no more: an index by hosts, so
// that a leaf with a new host is known to be claimed without another list.

// Claims says how objects of a kind ask for hosts. Kinds without it are read by our mark
// alone.
type Claims struct {
	Of     func(object map[string]any) ingest.Asking
	Among  string // objects of kinds with the same word ask for the same hosts
	Fronts string // how routes that refer to objects of this kind call it; empty: none do
	// At: objects of kinds with other words, which have this too, ask for the same hosts if
	// clients reach both at an address in common.
	At bool
}

// beside reports whether objects of both kinds may ask for the same hosts.
func (c Claims) beside(o Claims) bool { return c.Among == o.Among || c.At && o.At }

// mostAsks is how many hosts, each with a path, are kept of all objects that are not ours.
const mostAsks = 20_000

// named names an object of a kind.
type named struct{ namespace, name string }

// claimant is an object that is not ours and asks for something.
type claimant struct {
	kind *kind
	named
	ingest.Asking
	asks []string // with the hosts of its listeners
}

// room is what is kept of it.
func (c *claimant) room() int { return len(c.asks) + len(c.Paths) }

// claims are what objects of a member ask for. It is under the lock of the syncer.
type claims struct {
	others map[string][]*claimant   // not ours, by host
	ours   map[string][]Key         // leaves that are there, by host
	fronts map[string]ingest.Asking // ours and not, by ingest.FrontOf
	asks   int                      // of others, in all
}

func newClaims() claims {
	return claims{others: map[string][]*claimant{}, ours: map[string][]Key{}, fronts: map[string]ingest.Asking{}}
}

func nameOf(u *unstructured.Unstructured) named { return named{u.GetNamespace(), u.GetName()} }

// ours reports whether an object has our mark.
func (k *kind) ours(u *unstructured.Unstructured) bool {
	return u.GetLabels()[v1alpha1.LabelHub] == k.syncer.Hub
}

// hosts are those of some asks, each once.
func hosts(asks []string) []string {
	out := make([]string, 0, len(asks))
	for _, a := range asks {
		if h := ingest.HostAsked(a); len(out) == 0 || out[len(out)-1] != h { // they are sorted
			out = append(out, h)
		}
	}
	return out
}

// claimantOf is what is kept of an object that is not ours; nil: nothing.
func (k *kind) claimantOf(u *unstructured.Unstructured) *claimant {
	c := &claimant{kind: k, named: nameOf(u), Asking: k.claims.Of(u.Object)}
	if c.asks = c.Asks; c.room() == 0 {
		return nil
	}
	if k.word == "" {
		k.word = strings.Clone(u.GetKind())
	}
	return c
}

// frontOf is how routes call an object of a kind to which they refer.
func (k *kind) frontOf(u *unstructured.Unstructured) string {
	return ingest.FrontOf(k.claims.Fronts, u.GetNamespace(), u.GetName())
}

// front notes where routes that refer to an object are asked for. The caller has the lock.
func (k *kind) front(name string, now *ingest.Asking) {
	s := k.syncer
	was, had := s.claims.fronts[name]
	switch {
	case now == nil && !had, now != nil && had && was.Equal(*now):
		return
	case now == nil:
		delete(s.claims.fronts, name)
	case had || len(s.claims.fronts) < most:
		s.claims.fronts[name] = *now
	default:
		k.unread = true
		return
	}
	s.attach()
	s.retell(k.claims)
}

// attach finds anew what is asked for by those that have the hosts of listeners. The
// caller has the lock.
func (s *Syncer) attach() {
	for _, k := range s.kinds {
		for name, c := range k.others {
			if len(c.Paths) > 0 {
				again := *c
				k.other(name, &again)
			}
		}
	}
	for key, e := range s.leaves {
		if e.claim != nil && len(e.claim.Paths) > 0 {
			s.reclaim(key, e)
		}
	}
}

// listeners are those of a front, as far as it is known.
func (s *Syncer) listeners(front string) []ingest.Listener { return s.claims.fronts[front].Listeners }

// served are those of a front that its controller does not refuse: by another one nobody
// else comes to a host. Of ours all count, so that one that is refused hides no claim.
func (s *Syncer) served(front string) []ingest.Listener {
	all := s.listeners(front)
	if !slices.ContainsFunc(all, func(l ingest.Listener) bool { return l.Refused }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(l ingest.Listener) bool { return l.Refused })
}

// other notes what an object that is not ours asks for; nil: nothing, or it is none. It
// reports whether it asked for something. The caller has the lock.
func (k *kind) other(name named, now *claimant) bool {
	s, was := k.syncer, k.others[name]
	if now != nil {
		now.asks = now.With(s.served)
	}
	if was == nil && now == nil || was != nil && now != nil && was.Equal(now.Asking) && slices.Equal(was.asks, now.asks) {
		return was != nil
	}
	var touched []string
	if was != nil {
		delete(k.others, name)
		s.claims.asks -= was.room()
		touched = hosts(was.asks)
		for _, h := range touched {
			left := slices.DeleteFunc(s.claims.others[h], func(c *claimant) bool { return c == was })
			if s.claims.others[h] = left; len(left) == 0 {
				delete(s.claims.others, h)
			}
		}
	}
	switch {
	case now == nil:
	case s.claims.asks+now.room() > mostAsks:
		k.unread = true
		s.poke()
	default:
		if k.others == nil {
			k.others = map[named]*claimant{}
		}
		k.others[name] = now
		s.claims.asks += now.room()
		of := hosts(now.asks)
		touched = append(touched, of...)
		for _, h := range of {
			s.claims.others[h] = append(s.claims.others[h], now)
		}
	}
	for _, h := range touched {
		for _, key := range s.claims.ours[h] {
			s.say(key, s.leaves[key], s.leaves[key].state)
		}
	}
	return was != nil
}

// reclaim notes what a leaf that is there, and wanted, asks for. Where none is named, its
// class is the one that the member has put there, which says its addresses, too. The caller
// has the lock.
func (s *Syncer) reclaim(key Key, e *leaf) {
	k := s.kinds[key.Resource]
	if k == nil || k.claims.Of == nil || k.claims.Fronts != "" {
		return
	}
	if e.want == nil || e.seen == nil {
		s.ask(key, e, nil)
		return
	}
	c := k.claims.Of(e.want.body().Object)
	c.Class, c.Addresses = cmp.Or(c.Class, e.seen.class), e.seen.at
	c.Asks = c.With(s.listeners)
	s.ask(key, e, &c)
}

// ask notes what a leaf asks for; nil: nothing.
func (s *Syncer) ask(key Key, e *leaf, now *ingest.Asking) {
	was := e.claim
	if was == nil && now == nil || was != nil && now != nil && was.Equal(*now) {
		return
	}
	if was != nil {
		for _, h := range hosts(was.Asks) {
			left := slices.DeleteFunc(s.claims.ours[h], func(k Key) bool { return k == key })
			if s.claims.ours[h] = left; len(left) == 0 {
				delete(s.claims.ours, h)
			}
		}
	}
	if e.claim = now; now == nil {
		return
	}
	for _, h := range hosts(now.Asks) {
		s.claims.ours[h] = append(s.claims.ours[h], key)
	}
}

// retell says of all leaves of some kinds again who else asks for their hosts. The caller
// has the lock.
func (s *Syncer) retell(of Claims) {
	for key, e := range s.leaves {
		if k := s.kinds[key.Resource]; k != nil && k.claims.beside(of) && e.claim != nil {
			s.say(key, e, e.state)
		}
	}
}

// claimed are the objects that ask for hosts of a leaf, one for each host; false: it is
// not known, since something was not listed yet. The caller has the lock.
func (s *Syncer) claimed(key Key, e *leaf) (out []model.LeafClaim, known bool) {
	k := s.kinds[key.Resource]
	if k == nil || k.claims.Of == nil {
		return nil, true
	}
	for _, x := range s.kinds {
		if x.claims.beside(k.claims) && !x.listed && !apierrors.IsNotFound(x.err) {
			return nil, false
		}
	}
	if e.claim == nil {
		return nil, true
	}
	for _, h := range hosts(e.claim.Asks) {
		var first *claimant
		for _, c := range s.claims.others[h] {
			if s.contends(k, key, e.claim, c, h) && (first == nil || c.compare(first) < 0) {
				first = c
			}
		}
		if first != nil {
			out = append(out, model.LeafClaim{Host: h, Kind: first.kind.word, Namespace: first.namespace, Name: first.name})
		}
	}
	return out, true
}

func (a *claimant) compare(b *claimant) int {
	return cmp.Or(cmp.Compare(a.kind.word, b.kind.word), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// took takes what a list has of objects that are not ours. The caller has the lock.
func (k *kind) took() {
	next := k.next
	k.unread, k.next = next.unread, listed{}
	if k.claims.Of == nil {
		return
	}
	for name := range k.others {
		if next.others[name] == nil {
			k.other(name, nil)
		}
	}
	for name, c := range next.others {
		k.other(name, c)
	}
	if k.claims.Fronts == "" {
		return
	}
	for name := range k.syncer.claims.fronts {
		if _, there := next.fronts[name]; !there && strings.HasPrefix(name, k.claims.Fronts+" ") {
			k.front(name, nil)
		}
	}
	for name, c := range next.fronts {
		k.front(name, &c)
	}
}

// listed is what a list under way has found of what objects ask for.
type listed struct {
	others map[named]*claimant
	fronts map[string]ingest.Asking
	asks   int
	unread bool
}

// find takes what an object of a list asks for.
func (l *listed) find(k *kind, u *unstructured.Unstructured) {
	switch {
	case k.claims.Fronts != "" && len(l.fronts) < most:
		l.fronts[k.frontOf(u)] = k.claims.Of(u.Object)
	case k.claims.Fronts != "":
		l.unread = true
	case !k.ours(u):
		if c := k.claimantOf(u); c != nil && l.asks+c.room() <= mostAsks {
			l.others[c.named] = c
			l.asks += c.room()
		} else if c != nil {
			l.unread = true
		}
	}
}

// heard takes an object of a watch, and reports whether it is not ours and something was
// known of what it asks for.
func (k *kind) heard(u *unstructured.Unstructured, there bool) bool {
	if k.claims.Fronts != "" {
		c := k.claims.Of(u.Object)
		if there {
			k.front(k.frontOf(u), &c)
		} else {
			k.front(k.frontOf(u), nil)
		}
		return false
	}
	if !there || k.ours(u) {
		return k.other(nameOf(u), nil)
	}
	k.other(nameOf(u), k.claimantOf(u))
	return false
}
