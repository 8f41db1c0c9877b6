package xds

import (
	"fmt"
	"strconv"
	"time"
)

// Limits bound what a session keeps and how long it waits. Zero fields take
// the defaults.
type Limits struct {
	ResponseBytes int           // a response is closed when its bodies reach this; 1 MiB, of assignments never more than 128 KiB
	Names         int           // names a stream may hold per type; 200,000
	Grace         time.Duration // between the answer that stopped a use and the removal; 2 s
	GateTimeout   time.Duration // longest wait of a route for its clusters; 30 s
	Resume        time.Duration // longest wait for a reconnected client to say all it follows; 15 s
	AckTimeout    time.Duration // a response unanswered for so long closes the stream; 60 s
	Trial         time.Duration // a stream that was asked first and says nothing for so long is passed over; 2 s
}

func (l Limits) withDefaults() Limits {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&l.Grace, 2*time.Second)
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
}

// Verdict is what a client said of one resource: applied, or rejected when
// Error is not empty.
type Verdict struct {
	Type          TypeURL
	Name, Version string // Version is empty when the client acknowledged the removal
	Error         string
}

// Session is the protocol state of one delta ADS stream. It is pure and not
// safe for concurrent use: its owner calls one method at a time, holding the
// lock of the view it reads.
type Session struct {
	limits  Limits
	content *catalog
	topics  [kinds]topic
	nonces  uint64
	foreign []Response
	reports [kinds]bool
	verdict []Verdict
	resumed time.Time // when the client first said that it holds something
	late    int       // gated resources sent because the wait was too long
	place   place     // in the rollout of its view
	world   *World    // the face of a client that is told the state of the world; nil: none
}

// topic is a session's state for one type. Every id in sub, has, follows
// or a flight is counted in the catalog; the other sets
// hold only ids that are counted so or that have a resource.
type topic struct {
	asked, wild bool
	owed        bool                  // a first wildcard subscription wants an answer, even an empty one
	sub         bitset                // subscribed to by name
	has         bitset                // the client holds some version: the current one, or that in stale
	dirty       bitset                // to be looked at
	first       bitset                // those of dirty that go before the others; it may name more
	next        [queues]uint32        // ids of dirty with which the next response begins
	force       bitset                // to be sent even if the client has that version
	follows     bitset                // assignments to be forced once subscribed to: their cluster was sent
	held        bitset                // absent, but may not be said to be
	leaving     map[uint32]*departure // removals that wait
	released    map[uint32]struct{}   // removals whose wait is over
	stale       map[uint32]string     // the version the client holds when it is not the current one
	gated       map[uint32]time.Time  // upserts that wait for clusters, since when
	waiting     bitset                // upserts that another stream is asked first
	quarantine  map[uint32]quarantined
	unknown     map[uint32]string // rejected with others, in this version: the client has it or what it had before
	retry       []retry           // unknown names to be sent again, in parts
	retried     bool              // the last response was a retry: let others go first
	departures  []*departure
	flight      *flight
	holds       int // ids counted for sub, has and follows

	sentResources, sentBytes, responses, nacks uint64
}

type quarantined struct{ version, err string }

// flight is the unanswered response of a type.
type flight struct {
	nonce string
	seq   uint64 // of the nonce
	at    time.Time
	items []item
}

type item struct {
	id      uint32
	version string // empty: removed
	name    string // only while moving between views
	forced  bool   // sent although the client may have had it
	void    bool   // unsubscribed meanwhile: the answer says nothing
}

// NewSession starts a session over an empty view; Attach gives it one.
func NewSession(l Limits) *Session {
	return &Session{limits: l.withDefaults(), content: &catalog{}}
}

// Report asks for a Verdict on every acknowledgement of these types.
// Rejections, and acknowledgements that end one, are always reported.
func (s *Session) Report(types ...TypeURL) {
	for _, t := range types {
		s.reports[kindOf[t]] = true
	}
}

// Request takes a message of the client. An error means that the stream must
// be closed.
func (s *Session) Request(now time.Time, r Request) error {
	k, ok := kindOf[r.Type]
	if !ok {
		return s.stranger(r)
	}
	defer s.content.endStep()
	t := &s.topics[k]
	if r.Nonce != "" {
		s.answer(now, k, r)
	}
	first := !t.asked
	t.asked = true
	if first {
		s.resume(now, r)
	}
	if first && wildcards[k] && len(r.Subscribe) == 0 {
		s.subscribeAll(k, len(r.Initial) == 0)
	}
	for _, name := range r.Unsubscribe {
		s.unsubscribe(now, k, name)
	}
	for _, name := range r.Subscribe {
		if name == everything && wildcards[k] {
			s.subscribeAll(k, len(r.Initial) == 0)
			continue
		}
		s.subscribe(k, name, r.Initial)
	}
	if first {
		s.initial(now, k, r.Initial)
		if k == cluster || k == assignment {
			s.ungate() // what it holds is known only now, maybe after what waits for it was asked for
		}
	}
	if t.holds > 3*s.limits.Names {
		return fmt.Errorf("the stream holds more than %d names of %s", s.limits.Names, r.Type)
	}
	return nil
}

// stranger answers a type we do not serve: everything asked for is absent.
// Without an answer Envoy would warm what uses it until a timeout.
func (s *Session) stranger(r Request) error {
	if len(r.Subscribe) == 0 {
		return nil
	}
	if len(s.foreign) >= foreignLimit {
		return fmt.Errorf("too many requests for types that are not served, last %s", r.Type)
	}
	s.foreign = append(s.foreign, Response{Type: r.Type, Nonce: s.nonce(), Removed: r.Subscribe})
	return nil
}

func (s *Session) nonce() string {
	s.nonces++
	return strconv.FormatUint(s.nonces, 16)
}

func (s *Session) subscribeAll(k kind, owed bool) {
	t := &s.topics[k]
	t.wild, t.owed = true, owed
	s.crossed(k, anyID)
	for id := range s.content.tables[k].rows {
		if s.content.get(k, uint32(id)) != nil {
			t.dirty.set(uint32(id))
		}
	}
}

func (s *Session) subscribe(k kind, name string, initial map[string]string) {
	if name == "" {
		return
	}
	t := &s.topics[k]
	id := s.content.intern(k, name)
	s.hold(k, &t.sub, id)
	_, known := initial[name]
	if !known || t.follows.has(id) {
		t.force.set(id) // asked for anew: sent even if we believe the client has it
	}
	s.release(k, &t.follows, id)
	t.dirty.set(id)
	s.crossed(k, id)
}

// crossed: a response from before the client dropped this name, or any if id
// is anyID, may reach it now that it asked again. What it has then is unknown.
func (s *Session) crossed(k kind, id uint32) {
	f := s.topics[k].flight
	if f == nil {
		return
	}
	for _, it := range f.items {
		if it.void && it.version != "" && (id == anyID || it.id == id) {
			s.suppose(k, it.id)
			s.topics[k].dirty.set(it.id)
		}
	}
}

const anyID = ^uint32(0)

// initial takes what the client kept from an earlier stream.
func (s *Session) initial(now time.Time, k kind, versions map[string]string) {
	t := &s.topics[k]
	settle := false
	for name, version := range versions {
		if name == "" {
			continue
		}
		id, interned := s.content.tables[k].ids[name]
		if !t.wild && (!interned || !t.sub.has(id)) {
			continue
		}
		id = s.content.intern(k, name)
		s.hold(k, &t.has, id)
		res := s.content.get(k, id)
		switch {
		case res == nil:
			t.setStale(id, version)
			settle = true
		case res.Version != version:
			t.setStale(id, version)
		case s.reports[k]: // acknowledged, to whoever served it before us
			s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: name, Version: version})
		}
		t.dirty.set(id)
	}
	if settle {
		s.departInitial(now, k)
	}
}

func (s *Session) unsubscribe(now time.Time, k kind, name string) {
	t := &s.topics[k]
	if name == everything {
		if !t.wild {
			return
		}
		t.wild, t.owed = false, false
		for id := range s.content.tables[k].rows {
			if id := uint32(id); !t.sub.has(id) {
				s.drop(now, k, id)
			}
		}
		return
	}
	id, ok := s.content.tables[k].ids[name]
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

// drop forgets everything about an id that the client no longer follows.
func (s *Session) drop(now time.Time, k kind, id uint32) {
	t := &s.topics[k]
	s.release(k, &t.has, id)
	t.dirty.clear(id)
	t.force.clear(id)
	t.held.clear(id)
	t.waiting.clear(id)
	shed(&t.leaving, id)
	shed(&t.released, id)
	shed(&t.stale, id)
	shed(&t.gated, id)
	shed(&t.unknown, id)
	s.pardon(k, id, "")
	if t.flight != nil {
		for i := range t.flight.items {
			if t.flight.items[i].id == id {
				t.flight.items[i].void = true
			}
		}
	}
	s.settled(now, k, id, s.nonces+1)
	if k == cluster || k == assignment {
		s.ungate()
	}
}

// pardon ends a quarantine, if there is one, and says so.
func (s *Session) pardon(k kind, id uint32, version string) {
	t := &s.topics[k]
	if _, bad := t.quarantine[id]; bad {
		shed(&t.quarantine, id)
		s.verdict = append(s.verdict, Verdict{Type: k.url(), Name: s.content.name(k, id), Version: version})
	}
}

func (s *Session) hold(k kind, b *bitset, id uint32) {
	if b.set(id) {
		s.content.ref(k, id)
		s.topics[k].holds++
	}
}

func (s *Session) release(k kind, b *bitset, id uint32) {
	if b.clear(id) {
		s.content.unref(k, id)
		s.topics[k].holds--
	}
}

func (t *topic) setStale(id uint32, version string) {
	if t.stale == nil {
		t.stale = map[uint32]string{}
	}
	t.stale[id] = version
}

// shed takes an id out of a map. An empty one is given back: a map never
// shrinks, and a big load must not leave its buckets behind.
func shed[V any](m *map[uint32]V, id uint32) {
	delete(*m, id)
	if len(*m) == 0 {
		*m = nil
	}
}

// inFlight tells whether the unanswered response carries the id.
func (t *topic) inFlight(id uint32) bool {
	if t.flight == nil {
		return false
	}
	for i := range t.flight.items {
		if it := &t.flight.items[i]; it.id == id && !it.void {
			return true
		}
	}
	return false
}

// mark tells the session that a row of its view changed; old is the version
// it had, empty if it was absent. It tells whether the session has to look at
// something now.
func (s *Session) mark(now time.Time, at rowID, old string) bool {
	t := &s.topics[at.kind]
	id := at.id
	if !t.wants(id) {
		return at.kind == secret && s.reconsider(id)
	}
	if t.has.has(id) && old != "" {
		if _, known := t.stale[id]; !known {
			t.setStale(id, old)
		}
	}
	if s.content.get(at.kind, id) == nil {
		t.waiting.clear(id)
		if _, doubt := t.unknown[id]; doubt {
			s.suppose(at.kind, id)
		}
		if !t.has.has(id) && !t.sub.has(id) && !t.inFlight(id) {
			s.drop(now, at.kind, id)
			return false
		}
		if at.kind == cluster || at.kind == assignment {
			s.ungate()
		}
	} else {
		shed(&t.leaving, id)
		shed(&t.released, id)
	}
	t.held.clear(id)
	if s.content.rollout.defers(now, s, at.kind, id) {
		t.waiting.set(id)
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
	found := false
	for k := range s.topics {
		t := &s.topics[k]
		if t.owed || t.held.any() || len(t.gated) > 0 || s.world.waits(kind(k)) {
			found = true
		}
		t.dirty.add(&t.held)
		t.held = bitset{}
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
