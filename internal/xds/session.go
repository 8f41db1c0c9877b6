package xds

import (
	"strconv"
	"time"
)

// Limits bound what a session keeps and how long it waits. Zero fields take
// the defaults.
type Limits struct {
	ResponseBytes int           // a response is closed when its bodies reach this; 1 MiB, of assignments never more than 128 KiB
	Names         int           // names a stream may follow per type; 200,000
	NameBytes     int           // what the names cost that the streams of one identity follow and no view has; 128 MiB
	First         time.Duration // longest wait for the first request of a stream; 10 s
	Grace         time.Duration // between the answer that stopped a use and the removal; 2 s
	Drain         time.Duration // for which connections of a replaced listener use what it used; 30 s, as docs/envoy.md asks of proxies
	GateTimeout   time.Duration // longest wait of a route for its clusters; 30 s
	Resume        time.Duration // longest wait for a reconnected client to say all it follows; 15 s
	AckTimeout    time.Duration // a response unanswered for so long closes the stream; 60 s
	Trial         time.Duration // a stream that was asked first and says nothing for so long is passed over, if not sooner; 2 s
}

func (l Limits) withDefaults() Limits {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.First, 10*time.Second)
	def(&l.Grace, 2*time.Second)
	def(&l.Drain, 30*time.Second)
	def(&l.Resume, 15*time.Second)
	def(&l.GateTimeout, 30*time.Second)
	def(&l.AckTimeout, 60*time.Second)
	def(&l.Trial, 2*time.Second)
	if l.ResponseBytes == 0 {
		l.ResponseBytes = 1 << 20
	}
	if l.Names == 0 {
		l.Names = 200_000
	}
	if l.NameBytes == 0 {
		l.NameBytes = 128 << 20
	}
	return l
}

// assignmentBytes is where a response of assignments is closed at the latest:
// an endpoint change waits for the answer to the response before it. Measured
// with Envoy 1.40: 80 us of CPU an assignment whatever the limit, and while
// 5,000 changed, one more took 60 ms with this one, 400 ms with 256 KiB, and
// went last with 1 MiB. Less would cost whoever is far away: each response is a
// round trip.
const assignmentBytes = 128 << 10

// responseBytes is where a response of a type is closed.
func (l Limits) responseBytes(k kind) int {
	if k == assignment {
		return min(l.ResponseBytes, assignmentBytes)
	}
	return l.ResponseBytes
}

// Request is what a session needs of a DeltaDiscoveryRequest.
type Request struct {
	Type        TypeURL
	Subscribe   []string
	Unsubscribe []string
	Initial     map[string]string // name to version, first request of a type only
	Names       []string          // in place of the last three, where a request tells the state of the world
	Version     string            // the version_info of such a request: not empty if the client has something
	Nonce       string            // of the response this one answers, or empty
	Rejected    bool              // the answer is a NACK
	Error       string            // the client's words, when Rejected
}

// Response is one DeltaDiscoveryResponse to send, or one DiscoveryResponse
// if it has a Version. Resources are shared.
type Response struct {
	Type      TypeURL
	Nonce     string
	Version   string // version_info of a DiscoveryResponse, which has no Removed
	Resources []*Resource
	Removed   []string
	parcels   [2]*parcel // of the resources, where streams may share them; or nil
}

// Verdict is what a client said of one resource: applied, or rejected when
// Error is not empty.
type Verdict struct {
	Type          TypeURL
	Name, Version string // Version is empty when the client acknowledged the removal, or wants the name no more
	Error         string
	Lone          bool // rejected, but another client holds this version, or there is a newer one
}

// Session is the protocol state of one delta ADS stream. It is pure and not
// safe for concurrent use: its owner calls one method at a time, holding the
// store that it reads.
type Session struct {
	limits  Limits
	content *catalog
	topics  [kinds]topic
	nonces  uint64
	foreign []Response
	reports [kinds]bool
	verdict []Verdict
	resumed time.Time // when the client first said that it holds something
	bare    bitset    // scopes that came and may lack routes, or that listeners wait for: see hosts.go
	drained time.Time // when the last listener that was replaced will have no connections
	late    int       // gated resources sent because the wait was too long
	place   place     // in the rollout of its view
	client  Client
	world   World // the face of a client that is told the state of the world; nil: none

	unpublished unpublished
	taking      intake
	ungating    bool // what waits for clusters is to be looked at again
	surveyed    bool // no listener changed since it was seen which scopes the client lacks
	looks       int  // [looksAtOnce]
	room        int  // names that Ready may still look at
	more        bool // Ready left something for the next call
}

// topic is a session's state for one type: of each name, what the client has of
// it, and what is to happen next.
//
//	the client has        kept in
//	nothing               -
//	the current version   has
//	another one           has, stale
//	it is not known what  unknown, until a part of the response is answered
//
//	next                           kept in
//	nothing                        -
//	it is looked at                dirty, first
//	its clusters are waited for    gated
//	another stream is asked first  waiting
//	it may be there, or get surer  held
//	it is removed after a wait     leaving, then released
//	the client answers             flight
//
// A name waits for one thing at a time, and may be looked at besides. What leaves
// the client has, and is not there. What is in doubt is in flight or in retry.
// Every id in sub, has, follows or a flight is counted in the names of the store;
// the other sets hold only ids that are counted so or that have a resource. The
// tests check all that after every step (Session.violated).
type topic struct {
	// What each step of a session looks at is together: of most topics it is all
	// that is read.
	asked, wild bool
	owed        bool // a first wildcard subscription wants an answer, even an empty one
	retried     bool // the last response was a retry: let others go first
	wide        bool // it follows more than a few names: see roster
	flight      *flight
	dirty       bitset               // to be looked at
	gated       map[uint32]time.Time // upserts that wait for clusters, since when
	departures  []*departure
	retry       []retry // unknown names to be sent again, in parts

	sub        bitset                // subscribed to by name
	has        bitset                // the client holds some version: the current one, or that in stale
	first      bitset                // those of dirty that go before the others; it may name more
	next       [queues]uint32        // ids of dirty with which the next response begins
	force      bitset                // to be sent even if the client has that version
	last       map[uint32]*resource  // of those of force, what is sent if there is nothing by then
	follows    bitset                // assignments to be forced once subscribed to: their cluster was sent
	held       bitset                // absent, but may not be said to be; or kept, see keeps
	guess      bitset                // the client's version was unsure when it was sent, or is an unsure one
	leaving    map[uint32]*departure // removals that wait
	released   map[uint32]struct{}   // removals whose wait is over
	moved      bitset                // absent since their collection left, or nobody knows since when: listeners may have used them
	stale      *sparse[string]       // the version the client holds when it is not the current one; nil: none
	waiting    bitset                // upserts that another stream is asked first
	quarantine map[uint32]quarantined
	unknown    map[uint32]string // rejected with others, in this version: the client has it or what it had before
	holds      int               // ids counted for sub, has and follows

	sentResources, sentBytes, responses, nacks uint64
}

type quarantined struct{ version, err string }

// NewSession starts a session over an empty view; Attach gives it one.
func NewSession(l Limits) *Session {
	return &Session{limits: l.withDefaults(), content: &catalog{names: &names{}, parcels: &parcels{}}, looks: looksAtOnce}
}

// Speaks says who the client is, before the session is given a view.
func (s *Session) Speaks(c Client) { s.client = c }

// Report asks for a Verdict on every acknowledgement of these types.
// Rejections, and acknowledgements that end one, are always reported.
func (s *Session) Report(types ...TypeURL) {
	for _, t := range types {
		s.reports[kindOf[t]] = true
	}
}

func (s *Session) nonce() string {
	s.nonces++
	return strconv.FormatUint(s.nonces, 16)
}

// drop forgets everything about an id that the client no longer follows.
func (s *Session) drop(now time.Time, k kind, id uint32) {
	t := &s.topics[k]
	s.unwant(k, id)
	s.release(k, &t.has, id)
	t.dirty.clear(id)
	t.sated(id)
	t.held.clear(id)
	t.guess.clear(id)
	t.waiting.clear(id)
	shed(&t.leaving, id)
	shed(&t.released, id)
	t.moved.clear(id)
	t.unstale(id)
	shed(&t.gated, id)
	shed(&t.unknown, id)
	s.pardon(k, id, "")
	s.content.rollout.dropped(k, id)
	if it := t.flight.find(id); it != nil {
		it.void = true
	}
	s.settled(now, k, id, s.nonces+1)
	if k == cluster || k == assignment || len(s.topics[listener].gated) > 0 {
		s.ungate()
	}
}

// pardon ends a quarantine, if there is one, and says so.
func (s *Session) pardon(k kind, id uint32, version string) {
	t := &s.topics[k]
	if _, bad := t.quarantine[id]; bad {
		s.content.rollout.retract(s, k, id)
		shed(&t.quarantine, id)
		s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: s.content.name(k, id), Version: version})
	}
}

func (s *Session) hold(k kind, b *bitset, id uint32) {
	if t := &s.topics[k]; b == &t.sub && !t.wide && !b.has(id) {
		s.lookUp(k, id)
	}
	if b.set(id) {
		s.content.ref(k, id)
		s.topics[k].holds++
	}
}

func (s *Session) release(k kind, b *bitset, id uint32) {
	if t := &s.topics[k]; b == &t.sub && !t.wide && b.has(id) {
		s.content.lookOff(k, id, s)
	}
	if b.clear(id) {
		s.content.unref(k, id)
		s.topics[k].holds--
	}
}

func (t *topic) setStale(id uint32, version string) {
	if t.stale == nil {
		t.stale = new(sparse[string])
	}
	t.stale.put(id, version)
}

// staleVersion is the version that the client holds if it is not the current
// one; empty: nobody knows which.
func (t *topic) staleVersion(id uint32) (version string, stale bool) {
	if t.stale == nil || !t.stale.ids.has(id) {
		return "", false
	}
	return t.stale.at(id), true
}

func (t *topic) unstale(id uint32) {
	if t.stale == nil {
		return
	}
	if t.stale.drop(id); !t.stale.ids.any() {
		t.stale = nil
	}
}

// shed takes an id out of a map. An empty one is given back: a map never
// shrinks, and a big load must not leave its buckets behind.
func shed[V any](m *map[uint32]V, id uint32) {
	delete(*m, id)
	if len(*m) == 0 {
		*m = nil
	}
}

// mark tells the session that a row of its view changed. It tells whether the
// session has to look at something now.
func (s *Session) mark(now time.Time, m marked) bool {
	k, id := m.row.kind, m.row.id
	if !s.topics[k].wants(id) {
		return k == secret && s.reconsider(id)
	}
	if !s.content.aliases.of(k) {
		return s.changed(now, m)
	}
	none, gaveUp := s.unchanged(now, m.row)
	m.note(s.get(k, id)) // a name may have got or lost an alias by that
	return !none && s.changed(now, m) || gaveUp
}

// changed takes a change of a row that the client wants.
func (s *Session) changed(now time.Time, m marked) bool {
	at, id := m.row, m.row.id
	t := &s.topics[at.kind]
	res := s.get(at.kind, id)
	if m.same && res != nil && t.current(id, res) {
		t.guess.put(id, res.Unsure())
	}
	if t.has.has(id) && m.was != "" {
		if _, known := t.staleVersion(id); !known {
			t.setStale(id, m.was)
		}
	}
	if res == nil {
		t.waiting.clear(id)
		if _, doubt := t.unknown[id]; doubt {
			s.suppose(at.kind, id)
		}
		if !t.has.has(id) && !t.sub.has(id) && !t.inFlight(id) {
			s.drop(now, at.kind, id)
			return false
		}
		if at.kind == cluster || at.kind == assignment || len(s.topics[listener].gated) > 0 {
			s.ungate()
		}
		if m.moved && at.kind == scope {
			t.moved.set(id)
		}
	} else {
		shed(&t.leaving, id)
		shed(&t.released, id)
		t.moved.clear(id)
		s.surveyed = s.surveyed && at.kind != listener
	}
	t.held.clear(id)
	if s.content.rollout.defers(now, s, at.kind, id) {
		s.wait(at.kind, id)
		return false
	}
	t.dirty.set(id)
	return true
}

// hurry has a row that was marked go before others that were.
func (s *Session) hurry(at rowID) {
	if t := &s.topics[at.kind]; t.dirty.has(at.id) {
		t.first.set(at.id)
	}
}

// suppose ends a doubt: the client may hold some version, so a removal is due
// if there is none.
func (s *Session) suppose(k kind, id uint32) {
	t := &s.topics[k]
	shed(&t.unknown, id)
	s.hold(k, &t.has, id)
	t.setStale(id, "")
}

// rehold looks again at everything that was held.
func (s *Session) rehold() bool {
	found := s.unkeep()
	for k := range s.topics {
		if t := &s.topics[k]; t.owed || len(t.gated) > 0 || s.whole(kind(k)) && t.dirty.any() {
			found = true
		}
	}
	s.ungate() // a route may have waited for a held cluster
	return found
}

// Verdicts returns and forgets what the client said since the last call.
func (s *Session) Verdicts() []Verdict {
	v := s.verdict
	s.verdict = nil
	return v
}
