package cluster

import (
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
)

// askPatience is how long an object of the hub waits for what members say of Services
// that it refers to. One that says nothing takes no part until it does.
const askPatience = 2 * time.Second

// asks are questions to members about Services that something refers to since just now.
type asks struct {
	patience time.Duration
	mu       sync.Mutex
	of       map[model.Service]*ask
	last     uint64 // number of a question
}

// ask is the question about one Service.
type ask struct {
	open    map[*member]uint64 // who have not answered, and the number of what they were asked last
	waiting []*waiter          // until all have
	timer   *time.Timer
}

// waiter is an object that waits for some answers.
type waiter struct {
	left int // questions
	then func()
}

func newAsks() *asks { return &asks{patience: askPatience, of: map[model.Service]*ask{}} }

// need has Services be read that an object refers to, and reports whether it has to wait
// for that: then is called when members have answered, or said nothing for too long. It
// must not be called with a lock that then takes, but for one that need was called with.
func (f *Members) need(services []model.Service, then func()) (waits bool) {
	more := f.reads.add(services)
	if len(more) > 0 {
		f.asks.begin(more, f.everyone(), false)
	}
	return f.asks.await(services, then)
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
	f.asks.begin(others, []*member{m}, true)
	return f.asks.await(others, then)
}

// begin asks members about Services. Those that are not reached now are asked when they
// are, and nothing waits for them. Alone: see store.ask.
func (a *asks) begin(services []model.Service, members []*member, alone bool) {
	asked := map[*member]bool{}
	for _, s := range services {
		number := a.open(s, members)
		for _, m := range members {
			open, here := m.ask(s, number, alone)
			asked[m] = asked[m] || open
			if !open || !here {
				a.answered(s, m, number)
			}
		}
		a.answered(s, nil, number)
	}
	for m, is := range asked {
		if is {
			m.poke()
		}
	}
}

// open notes a question to members before they are asked, and its number. It ends when
// all have answered, and nobody, who stands for the one who asks.
func (a *asks) open(s model.Service, members []*member) (number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	q := a.of[s]
	if q == nil {
		q = &ask{open: map[*member]uint64{}}
		q.timer = time.AfterFunc(a.patience, func() { a.over(s, q) })
		a.of[s] = q
	}
	q.open[nil] = a.last
	for _, m := range members {
		q.open[m] = a.last
	}
	return a.last
}

// await reports whether answers about some Services are still to come.
func (a *asks) await(services []model.Service, then func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &waiter{then: then}
	for _, s := range services {
		if q := a.of[s]; q != nil {
			q.waiting = append(q.waiting, w)
			w.left++
		}
	}
	return w.left > 0
}

// answered says that a member has told what it has of a Service, as it was asked.
func (a *asks) answered(s model.Service, m *member, number uint64) {
	a.mu.Lock()
	q := a.of[s]
	done := false
	if q != nil && q.open[m] == number {
		delete(q.open, m)
		done = len(q.open) == 0
	}
	a.mu.Unlock()
	if done {
		a.over(s, q)
	}
}

// forget has nothing wait for a Service.
func (a *asks) forget(s model.Service) {
	a.mu.Lock()
	q := a.of[s]
	a.mu.Unlock()
	if q != nil {
		a.over(s, q)
	}
}

// over lets go who waits for the answers of a question.
func (a *asks) over(s model.Service, q *ask) {
	a.mu.Lock()
	if a.of[s] != q {
		a.mu.Unlock()
		return
	}
	delete(a.of, s)
	q.timer.Stop()
	var free []func()
	for _, w := range q.waiting {
		if w.left--; w.left == 0 {
			free = append(free, w.then)
		}
	}
	a.mu.Unlock()
	for _, then := range free {
		then()
	}
}
