package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
)

// askPatience is how long an object of the hub waits for what members say of Services
// that it refers to. One that says nothing takes no part until it does.
const askPatience = 2 * time.Second

// asks are questions about topics that something refers to since just now.
type asks[T comparable] struct {
	patience time.Duration
	mu       sync.Mutex
	of       map[T]*ask
	last     uint64 // number of a question
}

// witness is who may be asked about a topic.
type witness[T comparable] interface {
	comparable
	// ask notes the question. It reports whether the witness may know something, and
	// whether it can answer now. Alone: see store.ask.
	ask(of T, number uint64, alone bool) (open, here bool)
	// poke says that there may be questions.
	poke()
}

// ask is the question about one topic.
type ask struct {
	open    map[any]uint64 // witnesses that have not answered, and the number of what they were asked last
	waiting []*waiter      // until all have
	timer   *time.Timer
}

// waiter is an object that waits for some answers.
type waiter struct {
	left atomic.Int64 // questions, and one while it asks
	then func()
}

func newWaiter(then func()) *waiter {
	w := &waiter{then: then}
	w.left.Store(1)
	return w
}

// waits reports whether it has to wait for something that it asked.
func (w *waiter) waits() bool { return w.left.Add(-1) > 0 }

func newAsks[T comparable]() *asks[T] { return &asks[T]{patience: askPatience, of: map[T]*ask{}} }

// need has Services be read that an object refers to, which waits until members have
// answered, or said nothing for too long. It must not be called with a lock that w.then
// takes, but for one that need was called with.
func (f *Members) need(services []model.Service, w *waiter) {
	if more := f.reads.add(services); len(more) > 0 {
		begin(f.asks, more, f.everyone(), false)
	}
	f.asks.await(services, w)
}

// moved says that a member calls namespaces otherwise from now on, and reports as need
// does whether that has to wait.
func (f *Members) moved(id model.Member, spaces model.Spaces, then func()) (waits bool) {
	f.mu.Lock()
	m := f.members[id]
	f.mu.Unlock()
	if m == nil {
		return false
	}
	was := m.spaces.Swap(&spaces)
	if was == nil {
		was = &model.Spaces{}
	}
	if was.Equal(spaces) || !m.services.begun() && !m.slices.begun() {
		return false // lists that are to come find them
	}
	var others []model.Service
	for _, s := range f.reads.all() {
		before, _ := was.In(s.Namespace())
		if now, ok := m.nameOf(s); ok && now.namespace != before {
			others = append(others, s)
		}
	}
	begin(f.asks, others, []*member{m}, true)
	w := newWaiter(then)
	f.asks.await(others, w)
	return w.waits()
}

// begin asks witnesses about topics. Those that are not reached now are asked when they
// are, and nothing waits for them.
func begin[T comparable, W witness[T]](a *asks[T], topics []T, witnesses []W, alone bool) {
	asked := map[W]bool{}
	for _, t := range topics {
		number := open(a, t, witnesses)
		for _, w := range witnesses {
			may, here := w.ask(t, number, alone)
			asked[w] = asked[w] || may
			if !may || !here {
				a.answered(t, w, number)
			}
		}
		a.answered(t, nil, number)
	}
	for w, is := range asked {
		if is {
			w.poke()
		}
	}
}

// open notes a question to witnesses before they are asked, and its number. It ends when
// all have answered, and nobody, who stands for the one who asks.
func open[T comparable, W witness[T]](a *asks[T], s T, witnesses []W) (number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	q := a.of[s]
	if q == nil {
		q = &ask{open: map[any]uint64{}}
		q.timer = time.AfterFunc(a.patience, func() { a.over(s, q) })
		a.of[s] = q
	}
	q.open[nil] = a.last
	for _, w := range witnesses {
		q.open[w] = a.last
	}
	return a.last
}

// await has an object wait for answers about some topics that are still to come.
func (a *asks[T]) await(topics []T, w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range topics {
		if q := a.of[s]; q != nil {
			q.waiting = append(q.waiting, w)
			w.left.Add(1)
		}
	}
}

// answered says that a witness has told what it knows of a topic, as it was asked.
func (a *asks[T]) answered(s T, by any, number uint64) {
	a.mu.Lock()
	q := a.of[s]
	done := false
	if q != nil && q.open[by] == number {
		delete(q.open, by)
		done = len(q.open) == 0
	}
	a.mu.Unlock()
	if done {
		a.over(s, q)
	}
}

// forget has nothing wait for a topic.
func (a *asks[T]) forget(s T) {
	a.mu.Lock()
	q := a.of[s]
	a.mu.Unlock()
	if q != nil {
		a.over(s, q)
	}
}

// over lets go who waits for the answers of a question.
func (a *asks[T]) over(s T, q *ask) {
	a.mu.Lock()
	if a.of[s] != q {
		a.mu.Unlock()
		return
	}
	delete(a.of, s)
	q.timer.Stop()
	var free []func()
	for _, w := range q.waiting {
		if w.left.Add(-1) == 0 {
			free = append(free, w.then)
		}
	}
	a.mu.Unlock()
	for _, then := range free {
		then()
	}
}
