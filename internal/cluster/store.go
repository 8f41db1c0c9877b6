package cluster

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
)

// largeDifference is how many objects of a list may differ before the
// difference goes as bulk.
const largeDifference = 256

// store is what a reflector writes into. It keeps the compact rows of each
// object and puts what differs into the mailbox.
type store struct {
	now       func() time.Time
	read      func(metav1.Object) []fact                              // the facts of an object; pure
	whole     func(o metav1.Object, text []byte, facts []fact) []fact // the same of what may be a leaf, by its JSON, if that is known; may be nil
	flat      bool                                                    // objects are in no workspace, whatever they say: a member's
	mail      *Mailbox
	kind      kind // as of known, which clear puts another in place of; nil: of few objects
	limits    limits
	about     func(metav1.Object) topic // what an object is about
	wanted    func(topic) bool          // does what is about it give rows? See reads. nil: it does
	named     func(name) topic          // the same of an object whose name says it; nil: it does not
	setsAside bool                      // what gives none is kept, else it is not even read
	plural    string                    // of the resource, for whoever is told of a limit
	space     func(topic) string        // the namespace of what is about it; nil: none is asked for
	listing   atomic.Int32              // first lists under way

	taking     sync.Mutex // one object is read at a time
	namespaces words      // these two are under it, like what read shares
	arrived    uint64

	mu       sync.Mutex
	known    shelf
	only     []string          // namespaces that are read; nil: all
	listed   map[string]bool   // parts, since the start
	frozen   bool              // deletes are stopped
	ghosts   map[name]bool     // objects that are gone while they are
	closed   bool              // nothing goes through any more
	revision uint64            // highest resource version seen
	firsts   map[string]*first // first lists under way, by part
	veiled   map[string]bool   // parts that the server does not let us see
	surge    *surge            // nil: none is looked for

	aside map[name]aside      // objects that would give rows and are not wanted; nil: none is kept
	asked map[topic]*question // about which the server is asked
	held  map[name]*seen      // objects whose facts wait for members

	// Hooks, set before the first use, may be nil. before is called with each
	// list before it is taken, after when it is; saw is told of every object when it is
	// read, and must not keep it; changed is told of every object, nil where it is gone,
	// and has a list be kept until it is taken. These two must not call back.
	before  func(revisionChange)
	after   func()
	saw     func(n name, o metav1.Object)
	changed func(n name, o metav1.Object)

	// waits reports whether facts have to wait, and calls then when they have. It may be
	// nil. answered is told that a question is answered, without the store's lock.
	waits    func(facts []fact, then func()) bool
	answered func(topic, uint64)

	// appeared is told of an object that is wanted and was not there. It may be nil, and
	// must not call back.
	appeared func(topic)
}

// revisionChange tells what a list's resource version says.
type revisionChange struct {
	from, to uint64 // 0: not known
}

// back reports whether the server's past is shorter than it was.
func (c revisionChange) back() bool { return c.from != 0 && c.to != 0 && c.to < c.from }

// newStore returns a store. The kind may be nil, for a resource of few objects.
func newStore(mail *Mailbox, read func(metav1.Object) []fact, k kind) *store {
	return &store{now: time.Now, read: read, mail: mail, kind: k, known: newShelf(k), listed: map[string]bool{}, ghosts: map[name]bool{}, held: map[name]*seen{}}
}

// adopt takes over rows of an object that were there before the first list.
// Findings go first: beside them a row is kept with its value.
func (s *store) adopt(n name, more ...fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts, _ := s.known.facts(n)
	facts = append(facts, more...)
	s.known.put(n, facts, packedAs(s.kind, n, facts), weight{})
}

// seen is an object on its way through the reflector: read as soon as it was
// decoded, so that a first list is never held as full objects. The reflector
// asks for its name and version; all else is empty.
type seen struct {
	metav1.Object
	n       name
	number  uint64 // of those that arrived, ever
	version string
	facts   []fact
	packed  packed
	weight  weight
	full    metav1.Object // kept only for those who asked
	of      topic         // what it is about, where a store has wanted
	unread  bool          // its facts were not, since they were not wanted
	urge    Urgency       // while it is held
}

// nothing answers what nobody should ask of seen.
var nothing metav1.Object = &metav1.ObjectMeta{}

func (s *seen) GetNamespace() string       { return s.n.object("").Namespace }
func (s *seen) GetName() string            { return s.n.name }
func (s *seen) GetResourceVersion() string { return s.version }

// take reads an object, which may count for the first list of a part that is under way.
// Nobody else has it.
func (s *store) take(o metav1.Object, part string, counts bool) (*seen, error) {
	s.taking.Lock()
	defer s.taking.Unlock()
	o, text := asWritten(o)
	d := &seen{Object: nothing, version: o.GetResourceVersion()}
	if s.wanted != nil {
		d.of = s.about(o)
		d.unread = !s.setsAside && !s.wanted(d.of)
	}
	if !d.unread {
		d.weight = s.limits.weigh(o)
	}
	if counts {
		if err := s.admit(part, d.weight); err != nil { // what is not read counts as an object
			return nil, err
		}
	}
	o.SetNamespace(s.namespaces.of(o.GetNamespace()))
	s.arrived++
	d.n, d.number = s.nameOf(o), s.arrived
	if !d.unread {
		if d.facts = s.read(o); s.whole != nil {
			d.facts = s.whole(o, text, d.facts)
		}
		d.packed = packedAs(s.kind, d.n, d.facts)
	}
	if s.changed != nil {
		d.full = o
	}
	if s.saw != nil {
		s.saw(d.n, o)
	}
	return d, nil
}

// fits reports whether there is room for an object, in place of what is known of it.
func (s *store) fits(d *seen) error {
	if d.unread {
		return nil
	}
	l := s.becoming(nil)
	if _, old := s.known.marks(d.n); old != nil {
		l.remove(*old)
	} else if a, ok := s.aside[d.n]; ok {
		l.remove(a.weight)
	}
	l.add(d.weight)
	return s.limits.over(l, s.plural)
}

func (s *store) nameOf(o metav1.Object) name {
	if s.flat {
		return name{o.GetNamespace(), o.GetName()}
	}
	return nameIn(string(ingest.Workspace(o)), o.GetNamespace(), o.GetName())
}

// add takes an object that is new or changed. It fails where that is over a limit.
func (s *store) add(d *seen) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.has(d.n.namespace) {
		return nil
	}
	if err := s.fits(d); err != nil {
		return err
	}
	if !d.unread {
		s.touch(d)
	}
	s.apply(d, s.awaited(d, s.surge.urgency(s.now(), d.n.namespace)))
	return nil
}

// delete takes an object that is gone.
func (s *store) delete(d *seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.touch(d)
		s.remove(d.n, s.surge.urgency(s.now(), d.n.namespace))
	}
}

// replaceAll has objects be all that there is of a part.
func (s *store) replaceAll(part string, objects []*seen, version string) {
	if s.before != nil {
		s.before(s.change(version))
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.end(part)
	told := s.replace(part, objects)
	s.revision = max(s.revision, revision(version))
	s.mu.Unlock()
	for of, number := range told {
		s.answered(of, number)
	}
	if s.after != nil {
		s.after()
	}
}

// change compares the version of a list with the highest one seen.
func (s *store) change(version string) revisionChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return revisionChange{from: s.revision, to: revision(version)}
}

// replace returns about what there is no question left.
func (s *store) replace(part string, objects []*seen) (told map[topic]uint64) {
	objects = slices.DeleteFunc(objects, func(d *seen) bool { return !within(part, d.n.namespace) || !s.has(d.n.namespace) })
	s.known.room(len(objects))
	s.known.round++
	s.emptyAside(part)
	maps.DeleteFunc(s.held, func(n name, _ *seen) bool { return within(part, n.namespace) })
	differ, unread := 0, map[topic]bool{}
	for _, d := range objects {
		if s.spared(d) {
			continue
		}
		if s.known.mark(d.n, d.weight); !d.unread && !s.same(d) {
			differ++
		}
	}
	gone := s.known.names(func(n name, round uint32) bool { return round != s.known.round && within(part, n.namespace) })
	urge := Urgent
	if !s.listed[part] || differ+len(gone) > largeDifference {
		urge = Bulk
	}
	for _, d := range objects {
		if s.apply(d, s.awaited(d, urge)); d.unread && !s.spared(d) {
			unread[d.of] = true
		}
	}
	for _, n := range gone {
		s.remove(n, urge)
	}
	if s.isPart(part) {
		s.listed[part] = true
	}
	return s.settled(part, unread)
}

// awaited is the urgency of an object that comes: what others wait for, which are urgent, is
// not to come after them.
func (s *store) awaited(d *seen, urge Urgency) Urgency {
	if s.asked[d.of] != nil && s.listed[s.partOf(d.n.namespace)] {
		return Urgent
	}
	return urge
}

// same reports whether an object gives what it gave before.
func (s *store) same(d *seen) bool { return !s.ghosts[d.n] && s.known.same(d.n, d.facts, d.packed) }

func (s *store) apply(d *seen, urge Urgency) {
	if s.changed != nil {
		s.changed(d.n, d.full)
	}
	delete(s.held, d.n)
	s.dropAside(d.n)
	if s.spared(d) {
		s.setAside(d, urge)
		return
	}
	if d.unread || s.same(d) || s.hold(d, urge) {
		return // what is wanted since it came is asked for
	}
	if _, there := s.known.facts(d.n); !there && s.listed[s.partOf(d.n.namespace)] && s.appeared != nil {
		s.appeared(d.of)
	}
	s.put(d, urge)
}

// put has the facts of an object be what is known of it.
func (s *store) put(d *seen, urge Urgency) {
	old, _ := s.known.facts(d.n)
	s.replaceFacts(old, d.facts, urge)
	s.known.put(d.n, d.facts, d.packed, d.weight)
	delete(s.ghosts, d.n)
}

// replaceFacts puts what differs. Very much goes as bulk, also of one object.
func (s *store) replaceFacts(old, now []fact, urge Urgency) {
	before, after := finder(old), finder(now)
	gone := slices.DeleteFunc(slices.Clone(old), func(f fact) bool { return after(f) != nil })
	came := slices.DeleteFunc(slices.Clone(now), func(f fact) bool {
		was := before(f)
		return was != nil && was.equal(f)
	})
	if len(gone)+len(came) > largeDifference {
		urge = Bulk
	}
	for _, f := range gone {
		s.mail.Put(urge, f.key(), f.drop)
	}
	for _, f := range came {
		s.mail.Put(urge, f.key(), f.set)
	}
}

func (s *store) remove(n name, urge Urgency) {
	s.dropAside(n)
	facts, ok := s.known.facts(n)
	if held := s.held[n]; held != nil && !s.frozen {
		delete(s.held, n)
	}
	if !ok {
		return
	}
	if s.frozen {
		s.ghosts[n] = true
		return
	}
	if s.changed != nil {
		s.changed(n, nil)
	}
	s.replaceFacts(facts, nil, urge)
	s.known.drop(n)
}

// freeze stops deletes until thaw.
func (s *store) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// thaw carries out the deletes that were stopped, and forgets the past.
func (s *store) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen, s.revision = false, 0
	for _, n := range slices.SortedFunc(maps.Keys(s.ghosts), name.compare) {
		s.remove(n, Bulk)
	}
	clear(s.ghosts)
}

// clear deletes all rows and lets nothing through any more.
func (s *store) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, n := range s.known.names(every) {
		facts, _ := s.known.facts(n)
		for _, f := range facts {
			s.mail.Put(Bulk, f.key(), f.drop)
		}
	}
	s.known = newShelf(s.kind)
	clear(s.held)
	clear(s.aside)
	clear(s.asked)
}

// UpdateResourceVersion is told of every version that was read.
func (s *store) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := revision(version); v > s.revision {
		s.revision = v
	}
}

// revision reads a resource version: decimal numbers that only grow, on every
// API server that stores in etcd (KEP-5504). 0: it is something else.
func revision(version string) uint64 {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// put writes a fact that is not an object of the server.
func put[K inc.Key[K], V inc.Value[V]](m *Mailbox, u Urgency, t *inc.Table[K, V], k K, v V) {
	f := row[K, V]{t, k, v}
	m.Put(u, f.key(), f.set)
}

// drop deletes such a fact.
func drop[K inc.Key[K], V inc.Value[V]](m *Mailbox, u Urgency, t *inc.Table[K, V], k K) {
	f := row[K, V]{table: t, k: k}
	m.Put(u, f.key(), f.drop)
}
