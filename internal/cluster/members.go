package cluster

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// Members are the clusters of the fleet. Each lives in a context of its own:
// it is engaged when its MemberCluster and kubeconfig are known, engaged anew
// when the kubeconfig changes, and leaves with its MemberCluster. None waits
// for another.
type Members struct {
	ctx       context.Context
	in        *fleet.Inputs
	tables    *Tables
	mail      *Mailbox
	log       *slog.Logger
	pace      pace
	now       func() time.Time
	all       sync.WaitGroup
	attendant Attendant
	reads     *reads[model.Service] // as most members call them
	asks      *asks[model.Service]
	turns     *turns // of those that a checkpoint has, until it is in the tables; nil: none

	mu      sync.Mutex
	members map[model.Member]*member
	present atomic.Pointer[[]*member] // the same, for everyone
	met     int                       // members, since the start
	wants   map[model.Member]ingest.Connection
	secrets map[string]map[string][]byte
	listed  bool // all Secrets were read: one that is not there does not exist
}

// NewMembers returns a fleet without members. Every member ends with ctx.
func NewMembers(ctx context.Context, in *fleet.Inputs, tables *Tables, mail *Mailbox, log *slog.Logger) *Members {
	f := &Members{
		asks: newAsks[model.Service](), ctx: ctx, attendant: nobody{}, in: in, tables: tables, mail: mail, log: log, pace: usual, now: time.Now,
		members: map[model.Member]*member{}, wants: map[model.Member]ingest.Connection{}, secrets: map[string]map[string][]byte{},
	}
	f.reads = newReads[model.Service](func() time.Time { return f.now() })
	return f
}

// Wait returns when all members have ended, after their context has.
func (f *Members) Wait() { f.all.Wait() }

// Adopt takes over the rows of a checkpoint made at a moment: members are
// connected as they were, also while the hub is away. Until Adopted, they leave
// a processor to whoever computes what the rows mean.
func (f *Members) Adopt(past Past, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns = newTurns(max(1, runtime.GOMAXPROCS(0)-1))
	for _, r := range rows(past, f.in.Problems) {
		n := name{r.k.Namespace, r.k.Name}
		switch {
		case r.k.Member != "" && r.k.Kind == "Service":
			f.member(r.k.Member).services.adopt(n, r)
		case r.k.Member != "" && r.k.Kind == "EndpointSlice":
			f.member(r.k.Member).slices.adopt(n, r)
		}
	}
	for _, r := range rows(past, f.in.Services) {
		f.member(r.k.Member).services.adopt(name{r.k.Service.Namespace(), r.k.Service.Name()}, r)
	}
	for _, r := range rows(past, f.in.Slices) {
		f.member(r.k.Member).slices.adopt(name{r.k.Service.Namespace(), r.k.Name}, r)
	}
	for _, r := range rows(past, f.in.Exports) {
		f.member(r.k.Member).exports.adopt(name{r.k.Service.Namespace(), r.k.Service.Name()}, r)
	}
	contacts, outdated := values(past, f.in.Contacts), values(past, f.in.Outdated)
	for _, r := range rows(past, f.in.Sources) {
		_, old := outdated[r.k]
		f.member(r.k).adopt(r.v, contacts[r.k], old, at)
	}
	for _, r := range rows(past, f.in.Clusters) {
		f.member(r.k).cluster = r.v.V
	}
	for _, r := range rows(past, f.tables.Kubeconfigs) {
		f.member(r.k).restrict(r.v.Namespaces)
		f.engage(f.member(r.k), r.v)
	}
	for _, m := range f.members {
		if m.end == nil {
			m.unreached()
		}
	}
}

// Adopted says that what Adopt took over is in the tables.
func (f *Members) Adopted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns.end()
	f.turns = nil
}

// Told tells whether this process has learnt something of every member that
// there is: that it was listed, or why not.
func (f *Members) Told() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if !m.spoken() {
			return false
		}
	}
	return true
}

func (f *Members) member(id model.Member) *member {
	m := f.members[id]
	if m == nil {
		m = newMember(id, f.in, f.mail, f.log, f.pace)
		m.beat = f.met / together
		f.met++
		m.now, m.reads = f.now, f.reads
		m.slices.answered = func(s topic, number uint64) { f.asks.answered(s.(model.Service), m, number) }
		m.exports.waits = func(facts []fact, then func()) bool {
			w := newWaiter(then)
			f.need(m.exported(facts), w)
			return w.waits()
		}
		f.members[id] = m
		f.counted()
	}
	return m
}

// want says that a member is part of the fleet, and where its kubeconfig is.
func (f *Members) want(id model.Member, c ingest.Connection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wants[id] = c
	f.settle(id)
}

// Wanted returns the members of the hub, as far as it was read, in order. Their rows
// may still be on the way.
func (f *Members) Wanted() []model.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.wants))
}

// leave says that a member is part of the fleet no more.
func (f *Members) leave(id model.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.wants, id)
	m := f.members[id]
	if m == nil {
		return
	}
	delete(f.members, id)
	f.counted()
	f.disconnect(m)
	f.attendant.Left(id)
	m.leave()
	drop(f.mail, Bulk, f.tables.Kubeconfigs, id)
}

// secret says what a Secret holds; nil: it is gone.
func (f *Members) secret(name string, data map[string][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if data == nil {
		delete(f.secrets, name)
	} else {
		f.secrets[name] = data
	}
	for id, c := range f.wants {
		if c.Secret == name {
			f.settle(id)
		}
	}
}

// secretsListed says that every Secret was told.
func (f *Members) secretsListed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = true
	for id := range f.wants {
		f.settle(id)
	}
}

// settle makes a member as it is wanted.
func (f *Members) settle(id model.Member) {
	m, c := f.member(id), f.wants[id]
	m.restrict(c.Namespaces) // whether it can be reached or not
	if c.Secret == "" {
		f.disengage(m, refuse(v1alpha1.ReasonInvalidKubeconfig, "there is no way to reach the member: set spec.connection.kubeconfigSecretRef"))
		return
	}
	secret, ok := f.secrets[c.Secret]
	data := secret[c.Key]
	switch {
	case len(data) > 0:
		f.engage(m, Kubeconfig{Data: data, Proxied: c.Proxied, Namespaces: c.Namespaces})
	case !f.listed:
		// Not known yet: a connection from the checkpoint stays.
	case !ok:
		f.disengage(m, refuse(v1alpha1.ReasonSecretNotFound, "Secret %s is not there: make it, with a kubeconfig in key %s", c.Secret, c.Key))
	default:
		f.disengage(m, refuse(v1alpha1.ReasonSecretNotFound, "Secret %s has no key %s: put a kubeconfig there", c.Secret, c.Key))
	}
}

// engage connects a member, anew if its kubeconfig is another one.
func (f *Members) engage(m *member, k Kubeconfig) {
	if m.end != nil && m.config.Equal(k) {
		return
	}
	config, err := connection(k)
	if err != nil {
		f.disengage(m, refusalOf(err))
		return
	}
	api, err := m.dial(config)
	if err != nil {
		f.disengage(m, refusalOf(err))
		return
	}
	f.disconnect(m)
	f.attendant.Engaged(m.id, &Way{api})
	put(f.mail, Bulk, f.tables.Kubeconfigs, m.id, k)
	ctx, end := context.WithCancel(f.ctx)
	m.end, m.config = end, k
	last := m.over
	over := make(chan struct{})
	m.over = over
	turns := f.turns
	f.all.Go(func() {
		defer close(over)
		if last != nil {
			<-last // one connection at a time writes the member's rows
		}
		if ctx.Err() == nil {
			m.connect(ctx, api, k.Namespaces, turns)
		}
	})
}

// disengage ends a member's connection and says why. Its rows stay, stale.
func (f *Members) disengage(m *member, r *refusal) {
	f.disconnect(m)
	drop(f.mail, Bulk, f.tables.Kubeconfigs, m.id)
	m.refuse(r)
}

func (f *Members) disconnect(m *member) {
	if m.end != nil {
		m.end()
		m.end = nil
		f.attendant.Ended(m.id)
	}
}
