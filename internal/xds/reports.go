package xds

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Class is a kind of data plane. Each has views of its own.
type Class string

// The classes. The zero value is an Envoy.
const (
	Envoy Class = ""
	GRPC  Class = "grpc" // a gRPC client that needs no proxy
)

// Proxy names one data plane: the edge it belongs to and its own id.
type Proxy struct {
	Edge  string // node.cluster
	Node  string // node.id
	Class Class
}

// StreamChange tells that a proxy's stream opened or closed, or what it serves
// now. Several streams of one proxy may overlap; Stream tells them apart.
type StreamChange struct {
	Proxy
	Stream  uint64
	View    string
	Version string // of Envoy, such as 1.40.0, if it told
	Open    bool
	Serving        // while it is open
	Reason  string // why it closed
	At      time.Time
}

// Serving is what is known of what a proxy can serve.
type Serving struct {
	Serves bool // it acknowledged a listener, or its view has none
	Loaded bool // and it has its first state
}

// ProxyVerdict is the last thing a proxy said of a resource.
type ProxyVerdict struct {
	Proxy
	Envoy string // its version, or that of the gRPC library
	View  string
	Verdict
	At time.Time
}

// Reports is what proxies said since it was last taken: a mailbox that keeps
// the latest per proxy and resource, so that it is bounded by what there is
// and never blocks a stream. Its zero value is ready for use.
type Reports struct {
	mu       sync.Mutex
	streams  map[uint64]StreamChange
	news     map[uint64]bool // of those, streams that were not open when they were last taken
	verdicts map[verdictKey]ProxyVerdict
	wake     chan struct{} // rings for what somebody waits for
	gather   chan struct{} // rings for acknowledgements
}

type verdictKey struct {
	Proxy
	kind TypeURL
	name string
}

// maxStreamChanges is up to how many stream changes those of streams are kept that
// came and went while nobody took them. Beyond, what is kept is of streams that are
// open or were.
const maxStreamChanges = 1 << 16

// Wake returns channels that receive when there is something to take: at once,
// or together with more of its kind that is to come. Acknowledgements are so: of
// one change there are as many as proxies.
func (r *Reports) Wake() (now, soon <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open()
	return r.wake, r.gather
}

// open makes the channels.
func (r *Reports) open() {
	if r.wake == nil {
		r.wake, r.gather = make(chan struct{}, 1), make(chan struct{}, 1)
	}
}

// Any tells whether there is something to take.
func (r *Reports) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.streams)+len(r.verdicts) > 0
}

// Take returns what was reported since the last call: stream changes in the
// order of their streams, verdicts by edge, node, type and name.
func (r *Reports) Take() ([]StreamChange, []ProxyVerdict) {
	r.mu.Lock()
	streams, verdicts := r.streams, r.verdicts
	r.streams, r.news, r.verdicts = nil, nil, nil
	r.mu.Unlock()
	var ss []StreamChange
	for _, s := range streams {
		ss = append(ss, s)
	}
	slices.SortFunc(ss, func(a, b StreamChange) int { return cmp.Compare(a.Stream, b.Stream) })
	var vs []ProxyVerdict
	for _, v := range verdicts {
		vs = append(vs, v)
	}
	slices.SortFunc(vs, func(a, b ProxyVerdict) int {
		return cmp.Or(strings.Compare(a.Edge, b.Edge), strings.Compare(a.Node, b.Node), cmp.Compare(a.Class, b.Class),
			strings.Compare(string(a.Type), string(b.Type)), strings.Compare(a.Name, b.Name))
	})
	return ss, vs
}

// opened takes a stream that nobody knows yet.
func (r *Reports) opened(c StreamChange) {
	r.mu.Lock()
	if r.news == nil {
		r.news = map[uint64]bool{}
	}
	r.news[c.Stream] = true
	r.mu.Unlock()
	r.stream(c)
}

// stream takes what is new of one.
func (r *Reports) stream(c StreamChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = map[uint64]StreamChange{}
	}
	if r.news[c.Stream] && !c.Open && len(r.streams) >= maxStreamChanges {
		delete(r.streams, c.Stream)
		delete(r.news, c.Stream)
	} else {
		r.streams[c.Stream] = c
	}
	r.open()
	ring(r.wake)
}

func (r *Reports) said(p Proxy, envoy, view string, at time.Time, vs []Verdict) {
	if len(vs) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdicts == nil {
		r.verdicts = map[verdictKey]ProxyVerdict{}
	}
	r.open()
	which := r.gather
	for _, v := range vs {
		r.verdicts[verdictKey{p, v.Type, v.Name}] = ProxyVerdict{p, envoy, view, v, at}
		if v.Error != "" {
			which = r.wake
		}
	}
	ring(which)
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
