package xds

import (
	"runtime"
	"sync"
	"time"
)

// pool takes the turns of streams for which no request came: a few workers, as
// long as there is something to do. The stream that has waited longest is next.
//
// A worker may get stuck: where a client does not read, gRPC has its sender
// wait. If no stream was taken for some time, all workers are given up: others
// take their places, and they end when they are done. So a client delays other
// streams for that time at most.
type pool struct {
	most  int           // workers, without those given up
	stuck time.Duration // after so long they are

	mu         sync.Mutex
	queue      []*stream
	workers    int // of this generation
	generation int // how often workers were given up
	moving     bool
	watched    bool // somebody will look whether it moves
}

// stuckAfter is longer than a turn takes that waits for nobody.
const stuckAfter = 5 * time.Millisecond

func newPool() *pool { return &pool{most: runtime.GOMAXPROCS(0), stuck: stuckAfter} }

// add queues a stream, once. It never waits.
func (p *pool) add(st *stream) {
	if st.queued.Swap(true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, st)
	if p.workers < p.most {
		p.start()
	} else if !p.watched {
		p.watch()
	}
}

// start adds a worker. p.mu is held.
func (p *pool) start() {
	p.workers++
	go p.work(p.generation)
}

// watch has it looked at in some time whether streams were taken. p.mu is held.
func (p *pool) watch() {
	p.watched, p.moving = true, false
	time.AfterFunc(p.stuck, p.look)
}

func (p *pool) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = false
	if len(p.queue) == 0 {
		return
	}
	if !p.moving {
		p.workers = 0
		p.generation++
	}
	for range min(p.most-p.workers, len(p.queue)) {
		p.start()
	}
	p.watch()
}

func (p *pool) work(generation int) {
	for st := p.next(generation); st != nil; st = p.next(generation) {
		st.visit()
	}
}

// next is the stream that a worker takes; nil if the worker ends.
func (p *pool) next(generation int) *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if generation != p.generation {
		return nil
	}
	if len(p.queue) == 0 {
		p.workers--
		p.queue = nil
		return nil
	}
	st := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	p.moving = true
	st.queued.Store(false)
	return st
}
