package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// limits bound what a server can make us read and hold for one resource of it.
// A server that keeps to what Kubernetes supports is far below: 10,000 Services,
// 150,000 pods, 1.5 MiB an object. docs/reference/membercluster.md has them.
type limits struct {
	objects   int // 0: any number
	endpoints int // of all objects together
	size      int // bytes of what is read of all objects together
}

var (
	serviceLimits = limits{objects: 50_000, size: 256 << 20}
	sliceLimits   = limits{objects: 100_000, endpoints: 500_000, size: 256 << 20}
)

// Bytes on the wire, after decompression, of every server: the hub too.
const (
	listLimit  = 512 << 20 // a first list, all of its pages or all of its stream
	pageLimit  = 128 << 20 // one answer of a list; less if it was asked for few objects
	eventLimit = 4 << 20   // one event of a watch, and any other answer
)

// excess is a limit that was met.
type excess struct {
	what string
	most int
}

func (e *excess) Error() string { return fmt.Sprintf("more than %d %s", e.most, e.what) }

// limitOf returns the limit that a failure is about, nil if it is about none.
func limitOf(err error) *excess {
	var e *excess
	errors.As(err, &e)
	return e
}

// weight is what an object takes of the limits.
type weight struct {
	endpoints, size uint32
}

// weigh tells what an object weighs, where anything is limited. What was read of it
// in part weighs that.
func (m limits) weigh(o metav1.Object) weight {
	var w weight
	if m == (limits{}) {
		return w
	}
	if m, ok := o.(interface{ Size() int }); ok {
		w.size = uint32(m.Size())
	}
	if slice, ok := o.(*discoveryv1.EndpointSlice); ok {
		w.endpoints = uint32(len(slice.Endpoints))
	}
	return w
}

// load is what some objects take of them together.
type load struct{ objects, endpoints, size int }

func (l *load) add(w weight) {
	l.objects++
	l.endpoints += int(w.endpoints)
	l.size += int(w.size)
}

// change has one load be there in place of another.
func (l *load) change(was, is load) {
	l.objects += is.objects - was.objects
	l.endpoints += is.endpoints - was.endpoints
	l.size += is.size - was.size
}

// larger is of each amount the larger one.
func (l load) larger(o load) load {
	return load{max(l.objects, o.objects), max(l.endpoints, o.endpoints), max(l.size, o.size)}
}

func (l *load) remove(w weight) {
	l.objects--
	l.endpoints -= int(w.endpoints)
	l.size -= int(w.size)
}

// over is the limit that a load is over, nil if there is none.
func (m limits) over(l load, plural string) error {
	for _, x := range []struct {
		have, most int
		what       string
	}{
		{l.objects, m.objects, plural},
		{l.endpoints, m.endpoints, "endpoints"},
		{l.size, m.size, "bytes of " + plural},
	} {
		if x.most > 0 && x.have > x.most {
			return &excess{x.what, x.most}
		}
	}
	return nil
}

// asker is how a request says which source it is for.
type asker struct{}

// counted is a context for requests whose answers count for a source.
func (s *source) counted(ctx context.Context) context.Context {
	return context.WithValue(ctx, asker{}, s)
}

// bounded bounds the answers of a server.
type bounded struct {
	next  http.RoundTripper
	speed *speed // of all answers together; nil: any
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	s, _ := r.Context().Value(asker{}).(*source)
	out := &answer{ReadCloser: resp.Body, ctx: r.Context(), speed: b.speed, source: s, what: "bytes in an event or an answer", most: eventLimit}
	q := r.URL.Query()
	if out.watch = q.Get("watch") != ""; s != nil && !out.watch {
		out.what, out.most = "bytes in a page of a list", pageOf(q.Get("limit"))
	}
	out.left = out.most
	resp.Body = out
	return resp, nil
}

// unframed bounds the answers of a server to a client that does not say which events
// its bytes are of: that bounds each itself.
type unframed struct{ bounded }

func (u unframed) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	out := &answer{ReadCloser: resp.Body, ctx: r.Context(), speed: u.speed, what: "bytes in an answer", most: pageLimit}
	if r.URL.Query().Get("watch") != "" {
		out.most = math.MaxInt
	}
	out.left = out.most
	resp.Body = out
	return resp, nil
}

// pageOf is how many bytes a list may have that was asked for so many objects.
// It is held whole until it is read: what is asked for one object, to learn a
// revision, must not take the room of a list.
func pageOf(objects string) int {
	if n, err := strconv.Atoi(objects); err == nil && n > 0 && n < pageLimit/eventLimit {
		return n * eventLimit
	}
	return pageLimit
}

// answer is a body that ends with an error where it is over a limit.
type answer struct {
	io.ReadCloser
	ctx    context.Context // of the request
	speed  *speed
	source *source // who counts what is read; nil: nobody
	watch  bool    // it is of events
	what   string
	most   int
	left   int // of this answer, or of this event
	err    error
}

func (a *answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.ReadCloser.Read(p[:min(len(p)-1, a.left)+1])
	if late := a.speed.wait(a.ctx, n); late != nil {
		return n, late
	}
	if a.left -= n; a.left < 0 {
		a.err = &excess{a.what, a.most}
	}
	if a.source != nil && a.err == nil {
		a.err = a.source.took(n)
	}
	if a.source != nil && a.watch && errors.Is(err, io.EOF) {
		a.source.ended.Store(true)
	}
	if a.err == nil {
		return n, err
	}
	if a.source != nil {
		a.source.overfull(a.err)
	}
	return 0, a.err
}

// framed begins the count anew with each event of a watch.
type framed struct{ runtime.Framer }

func (f framed) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	a, ok := r.(*answer)
	if !ok {
		return f.Framer.NewFrameReader(r)
	}
	return &frames{f.Framer.NewFrameReader(a), a}
}

type frames struct {
	io.ReadCloser
	answer *answer
}

// Read reads a frame, or a part of one that p has no room for.
func (f *frames) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if err == nil {
		f.answer.left = f.answer.most
	}
	return n, err
}
