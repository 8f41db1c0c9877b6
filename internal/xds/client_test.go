package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// envoyModel is a strict Envoy: it keeps what it is sent, warms clusters,
// subscribes to what its resources use, rejects versions that begin with
// "bad" (or, if it is grim, all of them), and complains of everything a good server does not do.
type envoyModel struct {
	have     [kinds]map[string]*Resource
	warm     map[string]bool // clusters that got their assignment once
	warming  map[string]bool // clusters that wait for their assignment
	sub      [kinds]map[string]bool
	mayAgain [kinds]map[string]int  // how often a version we have may be sent
	refused  [kinds]map[string]bool // rejected and never had since
	excused  map[[2]string]bool     // route and cluster: the cluster was rejected when the route began to use it
	isHeld   func(TypeURL) bool
	moved    map[string]bool // scopes that went with their collection
	drains   []drained
	now      func() time.Time
	current  func(Ref) *Resource // what the view has
	edited   map[string]bool     // scopes of which it had, or was sent, another version
	pick     func(n int) int     // a number below n
	grim     bool                // it rejects everything
	out      []Request
}

func newEnvoyModel(pick func(int) int, held func(TypeURL) bool) *envoyModel {
	m := &envoyModel{excused: map[[2]string]bool{}, warm: map[string]bool{}, warming: map[string]bool{}, pick: pick, isHeld: held, now: func() time.Time { return time.Time{} }, edited: map[string]bool{},
		current: func(Ref) *Resource { return nil }}
	for k := range kinds {
		m.have[k], m.sub[k] = map[string]*Resource{}, map[string]bool{}
		m.mayAgain[k], m.refused[k] = map[string]int{}, map[string]bool{}
	}
	return m
}

// connect opens a new stream: every type says what the client kept, in the
// order in which they were first asked for; only that of assignments differs,
// which a client that had no clusters at first asks for last.
func (m *envoyModel) connect() {
	m.out, m.drains = nil, nil    // a new stream does not know what drains
	m.warming = map[string]bool{} // a timeout ends it: the server can't know of it
	sequence := slices.Clone(order[:])
	if m.pick(2) == 0 {
		sequence = append(slices.DeleteFunc(sequence, func(k kind) bool { return k == assignment }), assignment)
	}
	for _, k := range sequence {
		r := Request{Type: k.url(), Initial: map[string]string{}}
		for name, res := range m.have[k] {
			r.Initial[name] = res.Version
		}
		if !wildcards[k] {
			r.Subscribe = slices.Sorted(maps.Keys(m.sub[k]))
			if len(r.Subscribe) == 0 {
				continue
			}
		}
		m.mayAgain[k] = map[string]int{}
		m.out = append(m.out, r)
	}
}

// receive takes a response and answers it.
func (m *envoyModel) receive(r Response) error {
	k := kindOf[r.Type]
	answer := Request{Type: r.Type, Nonce: r.Nonce}
	var bad []string
	for _, res := range r.Resources {
		if m.grim || strings.HasPrefix(res.Version, "bad") {
			bad = append(bad, res.Name)
		}
	}
	for _, res := range r.Resources {
		if err := m.check(k, res); err != nil {
			return err
		}
		if k == cluster { // its assignment follows, also when the cluster is refused
			m.again(assignment, res.Name)
		}
		if slices.Contains(bad, res.Name) {
			m.refused[k][res.Name] = true
			m.edited[res.Name] = m.edited[res.Name] || k == scope
			m.again(k, res.Name) // the server can't know that we did not apply it
			continue
		}
		if len(bad) > 0 && m.pick(2) == 0 { // a rejected response may apply in part
			m.again(k, res.Name)
			continue
		}
		if k == listener {
			if err := m.replace(res); err != nil {
				return err
			}
		}
		m.apply(k, res)
		if len(bad) > 0 {
			m.again(k, res.Name)
		}
	}
	for _, name := range r.Removed {
		if m.isHeld(r.Type) {
			return fmt.Errorf("%s %s was removed while held", shortOf(r.Type), name)
		}
		if len(bad) > 0 && m.pick(2) == 0 {
			m.again(k, name)
			continue
		}
		if err := m.remove(k, name); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		answer.Rejected, answer.Error = true, "bad "+strings.Join(bad, " ")
	}
	m.resubscribe(&answer)
	return nil
}

func (m *envoyModel) check(k kind, res *Resource) error {
	if old := m.have[k][res.Name]; old != nil && old.Version == res.Version && m.mayAgain[k][res.Name] == 0 {
		return fmt.Errorf("%s %s was sent in version %s, which it has", shortOf(k.url()), res.Name, res.Version)
	}
	return nil
}

// usable: every cluster of a route is there and warm, unless it was rejected.
func (m *envoyModel) usable(res *Resource) error {
	for _, ref := range res.Refs() {
		if ref.Type != Cluster || m.excused[[2]string{res.Name, ref.Name}] {
			continue
		}
		if m.have[cluster][ref.Name] == nil {
			return fmt.Errorf("route %s@%s uses cluster %s, which is not there", res.Name, res.Version, ref.Name)
		}
		if !m.warm[ref.Name] {
			return fmt.Errorf("route %s@%s uses cluster %s, which is warming", res.Name, res.Version, ref.Name)
		}
	}
	return nil
}

func (m *envoyModel) apply(k kind, res *Resource) {
	if m.mayAgain[k][res.Name] > 0 && !m.asking(k, res.Name) {
		m.mayAgain[k][res.Name]--
	}
	delete(m.refused[k], res.Name)
	switch k {
	case scope:
		m.edited[res.Name] = m.have[k][res.Name] != nil
	case cluster:
		m.warming[res.Name] = true
	case assignment:
		if !m.sub[k][res.Name] {
			return
		}
		delete(m.warming, res.Name)
		m.warm[res.Name] = true
	case routes:
		if !m.sub[k][res.Name] {
			return
		}
		for _, ref := range res.Refs() {
			m.excused[[2]string{res.Name, ref.Name}] = m.refused[cluster][ref.Name] || m.refused[assignment][ref.Name]
		}
	}
	m.have[k][res.Name] = res
}

func (m *envoyModel) again(k kind, name string) {
	m.mayAgain[k][name] = max(1, m.mayAgain[k][name])
}

// asking: a subscription to the name is still on its way, and will be answered.
func (m *envoyModel) asking(k kind, name string) bool {
	return slices.ContainsFunc(m.out, func(r Request) bool {
		return r.Type == k.url() && slices.Contains(r.Subscribe, name)
	})
}

func (m *envoyModel) remove(k kind, name string) error {
	delete(m.mayAgain[k], name)
	if m.have[k][name] == nil {
		return nil
	}
	switch k {
	case cluster:
		for _, rc := range m.have[routes] {
			if slices.Contains(rc.Refs(), Ref{Type: Cluster, Name: name}) {
				return fmt.Errorf("cluster %s was removed while route %s@%s uses it", name, rc.Name, rc.Version)
			}
		}
		delete(m.warm, name)
		delete(m.warming, name)
	case listener:
		m.drains = append(m.drains, drained{m.have[k][name], m.now().Add(drainTime)})
	case scope:
		if err := m.unserved(name); err != nil {
			return err
		}
	case assignment: // Envoy keeps the endpoints it has
		return nil
	}
	delete(m.have[k], name)
	return nil
}

// resubscribe queues the answer, and what the new state subscribes to: with
// the answer's own type, or as a request of another type, before or after it.
func (m *envoyModel) resubscribe(answer *Request) {
	var more []Request
	for _, k := range [...]kind{assignment, routes} {
		want := map[string]bool{}
		users := [kinds][]kind{assignment: {cluster}, routes: {listener, scope}}[k]
		for _, u := range users {
			for _, res := range m.have[u] {
				for _, ref := range res.Refs() {
					if kindOf[ref.Type] == k {
						want[ref.Name] = true
					}
				}
			}
		}
		r := Request{Type: k.url()}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !m.sub[k][name] {
				r.Subscribe = append(r.Subscribe, name)
				m.mayAgain[k][name] = 2 // one may be on its way from before we unsubscribed
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m.sub[k])) {
			if !want[name] {
				r.Unsubscribe = append(r.Unsubscribe, name)
				delete(m.have[k], name)
				delete(m.refused[k], name)
			}
		}
		m.sub[k] = want
		if len(r.Subscribe)+len(r.Unsubscribe) > 0 {
			more = append(more, r)
		}
	}
	if m.pick(2) == 0 {
		m.out = append(append(m.out, more...), *answer)
	} else {
		m.out = append(append(m.out, *answer), more...)
	}
}
