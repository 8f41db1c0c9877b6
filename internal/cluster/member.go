package cluster

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/model"
)

// pace is how a member's API is watched over.
type pace struct {
	every    time.Duration // between two probes
	timeout  time.Duration // of a probe
	patience time.Duration // without a sign of life before a member counts as away
	holds    time.Duration // so long, and its first list is complete: a watch holds
	excess   time.Duration // what is too large is not read again sooner
	absent   wait.Backoff  // so long it is not asked for a kind that it does not have
}

// usual is fast enough for a status, and slow enough not to flap: no traffic
// depends on it. Members are many, and most have no kinds beside those of Kubernetes.
var usual = pace{every: 3 * time.Second, timeout: 2 * time.Second, patience: 8 * time.Second, holds: 5 * time.Second, excess: time.Minute, absent: absentFor(15*time.Second, 2*time.Minute)}

// Members are asked some at a time, since to wake up costs more than to ask:
// together, so that a small fleet wakes us once in a period, and in so many
// beats that those of a large one are no burst.
const (
	together = 16
	beats    = 30
)

// next is how long to wait for the next beat of a member, after it answered or
// was given up. One that is nearly there is left out: the clock may have been
// set a little since the last.
func (p pace) next(now time.Time, beat int) time.Duration {
	at := now.Add(-p.every / beats * time.Duration(beat%beats))
	wait := at.Truncate(p.every).Add(p.every).Sub(at)
	if wait < p.every/3 {
		wait += p.every
	}
	return wait
}

// sameCause is how many probes must agree before a message changes.
const sameCause = 3

// member is one cluster: its rows, which outlive connections, and the present
// connection.
type member struct {
	id       model.Member
	in       *fleet.Inputs
	mail     *Mailbox
	log      *slog.Logger
	pace     pace
	beat     int // of a period, in which it is asked
	now      func() time.Time
	services *store
	slices   *store
	exports  *store
	reads    *reads[model.Service]        // what of it is read; it is that of all members
	spaces   atomic.Pointer[model.Spaces] // what it calls otherwise; nil: nothing
	asked    chan struct{}                // there are questions: see answers

	servicePorts alike[model.ServicePort]
	slicePorts   alike[model.SlicePort]

	// Of the present connection; they belong to Members.
	end    context.CancelFunc // nil: there is none
	over   chan struct{}      // closed when it has ended
	config Kubeconfig

	mu      sync.Mutex
	source  model.Source
	known   bool // there is a Source row: all of the member's rows were read once
	contact model.Contact
	heard   time.Time // last; zero: never
	met     bool      // something was told since this process began
	old     bool      // its rows are of an old checkpoint: there is an Outdated row
	left    bool
	cluster model.ClusterID // which one it is; empty: not known
}

func newMember(id model.Member, in *fleet.Inputs, mail *Mailbox, log *slog.Logger, p pace) *member {
	m := &member{id: id, in: in, mail: mail, log: log.With("member", string(id)), pace: p, now: time.Now, reads: newReads[model.Service](time.Now), asked: make(chan struct{}, 1)}
	m.services = newStore(mail, m.readService, byService(id, in.Services, sumService))
	m.slices = newStore(mail, m.readSlice, kindOf[model.SliceID, model.Slice]{
		table: in.Slices,
		key: func(n name, service string) model.SliceID {
			return model.SliceID{MemberService: model.MemberService{Service: model.ServiceOf(n.namespace, service), Member: id}, Name: n.name}
		},
		also: func(k model.SliceID) string { return k.Service.Name() },
		sum:  sumSlice,
	})
	m.exports = newStore(mail, m.readExport, byService(id, in.Exports, sumExport))
	m.exports.flat, m.exports.plural, m.exports.limits = true, "serviceexports", serviceLimits
	m.services.flat, m.services.plural, m.services.limits = true, "services", serviceLimits
	m.slices.flat, m.slices.plural, m.slices.limits = true, "endpointslices", sliceLimits
	for _, s := range []*store{m.services, m.slices} {
		s.about, s.wanted, s.answered = m.served, m.wants, func(topic, uint64) {}
	}
	m.slices.space = func(of topic) string { n, _ := m.nameOf(of.(model.Service)); return n.namespace }
	m.services.setsAside = true
	m.services.named = func(n name) topic { return m.called(model.ServiceOf(n.namespace, n.name)) }
	m.services.appeared = func(s topic) { // who referred to it in vain asked nobody for its EndpointSlices
		if m.reads.some() {
			m.slices.ask(s, 0, false)
			m.poke()
		}
	}
	return m
}

// byService is a kind of a member whose objects have the names of Services.
func byService[V inc.Value[V]](id model.Member, t *inc.Table[model.MemberService, V], sum func(*maphash.Hash, V)) kindOf[model.MemberService, V] {
	return kindOf[model.MemberService, V]{
		table: t,
		key: func(n name, _ string) model.MemberService {
			return model.MemberService{Service: model.ServiceOf(n.namespace, n.name), Member: id}
		},
		also: func(model.MemberService) string { return "" },
		sum:  sum,
	}
}

// apiService is the Service of the member's own API, which nobody is sent to.
var apiService = model.ServiceOf(metav1.NamespaceDefault, "kubernetes")

func (m *member) readService(o metav1.Object) []fact {
	k, v, ok, findings := ingest.Service(m.id, o.(*corev1.Service))
	if k.Service == apiService {
		return nil
	}
	v.Ports = m.servicePorts.of(v.Ports)
	return facts(m.in, row[model.MemberService, model.ServiceSpec]{m.in.Services, k, v}, ok, findings)
}

func (m *member) readSlice(o metav1.Object) []fact {
	k, v, ok, findings := ingest.EndpointSlice(m.id, o.(*discoveryv1.EndpointSlice))
	if k.Service == apiService {
		return nil
	}
	v.Ports = m.slicePorts.of(v.Ports)
	return facts(m.in, row[model.SliceID, model.Slice]{m.in.Slices, k, v}, ok, findings)
}

func (m *member) readExport(o metav1.Object) []fact {
	k, v := ingest.ServiceExport(m.id, o.(*mcsv1beta1.ServiceExport))
	return []fact{row[model.MemberService, model.Export]{m.in.Exports, k, v}}
}

// facts are a row, if there is one, and what is wrong with its object.
func facts(in *fleet.Inputs, f fact, ok bool, findings model.Findings) []fact {
	var out []fact
	if ok {
		out = append(out, f)
	}
	if len(findings) > 0 {
		out = append(out, row[model.Object, model.Findings]{in.Problems, findings[0].Object, findings})
	}
	return out
}

// resources are what is watched of a member: of all namespaces, or of some.
func (m *member) resources(namespaces string, core, discovery, multicluster *rest.RESTClient) (out []*source) {
	parts := split(namespaces)
	if parts == nil {
		parts = []string{""}
	}
	for _, part := range parts {
		out = append(out, m.resourcesOf(part, core, discovery, multicluster)...)
	}
	return out
}

// resourcesOf are those of a namespace, or of all. The member need not have exports, nor let
// us see them, nor what is in one of several namespaces.
func (m *member) resourcesOf(part string, core, discovery, multicluster *rest.RESTClient) []*source {
	all := []*source{
		{resource: resource{client: core, plural: "services", list: func() runtime.Object { return &corev1.ServiceList{} }}, store: m.services},
		{resource: resource{client: discovery, plural: "endpointslices", list: func() runtime.Object { return &discoveryv1.EndpointSliceList{} }}, store: m.slices},
		{resource: resource{client: multicluster, plural: "serviceexports", list: func() runtime.Object { return &mcsv1beta1.ServiceExportList{} }}, store: m.exports, optional: true, defined: true},
	}
	for _, s := range all {
		s.namespace, s.part, s.mayHide = part, part, s.optional || part != ""
	}
	return all
}

// dial prepares a connection; nothing is sent yet.
func (m *member) dial(config *rest.Config) (*api, error) {
	return dial(config, newSpeed(func() {
		m.log.Warn("member sends more than is read of one: what it says comes late", "bytes_per_second", bytesPerSecond)
	}))
}

// connect is the life of one connection, which begins when it is its turn.
func (m *member) connect(ctx context.Context, a *api, namespaces string, turns *turns) {
	l, err := m.link(a, namespaces)
	if err != nil {
		m.refuse(refusalOf(err))
		return
	}
	l.read = turns.take(ctx)
	defer l.read()
	l.run(ctx)
}

// link prepares to read over a connection; nothing is sent before it runs.
func (m *member) link(a *api, namespaces string) (*link, error) {
	core, err1 := a.group(corev1.SchemeGroupVersion)
	discovery, err2 := a.group(discoveryv1.SchemeGroupVersion)
	multicluster, err3 := a.group(multiclusterAPI)
	if err := cmp.Or(err1, err2, err3); err != nil {
		a.close()
		return nil, err
	}
	l := &link{member: m, api: a, core: core, expiry: expiry(a.config), warning: careless(a.config), wake: make(chan struct{}, 1), read: func() {}}
	l.sources = m.resources(namespaces, core, discovery, multicluster)
	for _, s := range l.sources {
		s.pace, s.budget, s.told, s.kin = m.pace, a.budget, l.poke, l.sources
		s.store.after = func() { l.poke(); m.poke() }
	}
	for _, s := range m.stores() {
		s.afresh()
	}
	return l, nil
}

// restrict has some namespaces be read alone.
func (m *member) restrict(namespaces string) {
	for _, s := range m.stores() {
		s.restrict(split(namespaces))
	}
}

func (m *member) stores() []*store { return []*store{m.services, m.slices, m.exports} }

// refuse notes that there is no usable connection.
func (m *member) refuse(r *refusal) {
	m.tell(model.Contact{Reason: r.reason, Message: r.message})
}

// tell puts what is known about the connection, if it changed.
func (m *member) tell(c model.Contact) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return
	}
	m.met = true
	defer m.contacted(c) // last: whoever reads it finds what it says of the rows
	if c.Reason != v1alpha1.ReasonConnected {
		m.away()
		return
	}
	m.heard, m.known = m.now(), true
	m.put(model.Source{Connected: true})
	if m.old {
		m.old = false
		drop(m.mail, Bulk, m.in.Outdated, m.id)
	}
}

// is notes which cluster the member is.
func (m *member) is(id model.ClusterID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left || id == m.cluster {
		return
	}
	m.cluster = id
	if id == "" {
		drop(m.mail, Bulk, m.in.Clusters, m.id)
		return
	}
	put(m.mail, Bulk, m.in.Clusters, m.id, inc.ValOf(id))
}

// contacted puts a contact, if it is another one; m.mu is held.
func (m *member) contacted(c model.Contact) {
	if c == m.contact {
		return
	}
	m.log.Info("member", "reason", c.Reason, "message", c.Message)
	put(m.mail, Bulk, m.in.Contacts, m.id, c)
	m.contact = c
}

// away notes that the rows may be old; m.mu is held.
func (m *member) away() {
	s := model.Source{StaleSince: m.source.StaleSince}
	if s.StaleSince == 0 {
		if m.heard.IsZero() {
			m.heard = m.now()
		}
		s.StaleSince = m.heard.Unix()
	}
	m.put(s)
}

// put puts how well the rows are known, if it changed. Without a first list
// there is no row: half of a member is not a member.
func (m *member) put(s model.Source) {
	if m.known && s != m.source {
		put(m.mail, Bulk, m.in.Sources, m.id, s)
	}
	m.source = s
}

// adopt takes over what a checkpoint knew, as of a moment. What it says of the
// connection stands until the member had its chance to answer: a restart of
// ours is no news about the member.
func (m *member) adopt(s model.Source, c model.Contact, old bool, at time.Time) {
	m.source, m.contact, m.known, m.heard, m.old = s, c, true, at, old
	if !m.old && m.now().Sub(at) > freshFor {
		m.old = true
		put(m.mail, Bulk, m.in.Outdated, m.id, model.There{})
	}
}

// freshFor is the age up to which what a checkpoint says of a member is taken
// for what the member still has, until it is read.
const freshFor = time.Minute

// unreached says that nobody tries to reach the member.
func (m *member) unreached() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away()
}

// leave deletes all rows of the member.
func (m *member) leave() {
	for _, s := range m.stores() {
		s.clear()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	drop(m.mail, Bulk, m.in.Sources, m.id)
	drop(m.mail, Bulk, m.in.Contacts, m.id)
	drop(m.mail, Bulk, m.in.Outdated, m.id)
	drop(m.mail, Bulk, m.in.Clusters, m.id)
	m.log.Info("member left")
}

// spoken tells whether anything was told since this process began: what a
// checkpoint says was told by another one.
func (m *member) spoken() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.met
}

// state is what was said last about the connection.
func (m *member) state() (model.Contact, model.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contact, m.source
}
