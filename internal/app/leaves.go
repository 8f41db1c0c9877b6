package app

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/internal/cluster"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/ingest"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// leaves tells a syncer for each member that is connected which leaves there should be,
// and carries back what became of them. Where no class is served by members, and no
// member has leaves, there is no syncer.
//
// It belongs to the loop's goroutine, but for what is under the mutex.
type leaves struct {
	p      *fleet.Program
	t      *leaf.Tables
	put    func(key any, write func(*inc.Tx))
	leafy  func(cluster.LeafyClasses)   // has Ingresses of these read in full
	gates  func(cluster.LeafyGateways)  // and these Gateways, with their routes
	hub    func() string                // which hub it is; empty: it does not say
	start  func(model.Member, *leafRun) // begins a run; nil: none is begun
	guards guards                       // holds MemberClusters back
	log    *slog.Logger

	wants   map[model.Member]map[model.LeafID]leaf.Leaf
	told    map[model.Member]map[model.LeafID]bool // that have a state
	kinds   map[model.Member]map[string]bool       // of roots, of leaves that it ever should have had
	gateway cluster.LeafyGateways                  // that members serve
	parting bool                                   // who is held back may have changed
	classes bool                                   // those that members serve have changed
	changed bool                                   // who needs a run may have
	listed  bool                                   // all of the hub was read by this process
	of      string                                 // which hub runs are for
	runs    map[model.Member]*leafRun
	held    map[model.Member]bool // have our finalizer
	asked   map[model.Member]ask  // what was last wanted of what holds a MemberCluster back
	cleared map[model.Member]bool // have no leaf any more, and nobody asks for one
	keys    memberKeys
	all     sync.WaitGroup

	mu     sync.Mutex
	ways   map[model.Member]*cluster.Way // of connections
	left   []model.Member
	news   bool                               // of these two, and of counts
	looked map[searched]bool                  // whether something was found
	graves map[model.TombstoneID]model.Member // of clusters that are members again; nil: not known
}

func newLeaves(p *fleet.Program, t *leaf.Tables, put func(any, func(*inc.Tx)), log *slog.Logger) *leaves {
	l := &leaves{
		p: p, t: t, put: put, log: log, wants: map[model.Member]map[model.LeafID]leaf.Leaf{}, told: map[model.Member]map[model.LeafID]bool{}, looked: map[searched]bool{},
		held: map[model.Member]bool{}, asked: map[model.Member]ask{}, cleared: map[model.Member]bool{}, guards: unguarded{},
		runs: map[model.Member]*leafRun{}, ways: map[model.Member]*cluster.Way{}, leafy: func(cluster.LeafyClasses) {}, gates: func(cluster.LeafyGateways) {}, kinds: map[model.Member]map[string]bool{}, hub: func() string { return "" },
	}
	t.Leaves.Watch(l.want)
	l.followKeys()
	p.In.LeafStates.Watch(func(changes []inc.Change[model.LeafID, model.LeafState]) {
		for _, c := range changes {
			noted(l.told, c.Key.Member, c.Key, true, c.New != nil)
			l.met(c.Key)
			l.changed = l.changed || c.Old == nil || c.New == nil
		}
	})
	p.Leafy.Watch(func([]inc.Change[model.Class, fleet.Leafy]) { l.classes, l.changed = true, true })
	p.Gateways.Watch(func([]inc.Change[model.GatewayID, *fleet.Gateway]) { l.classes = true })
	p.In.GatewayClasses.Watch(func([]inc.Change[model.GatewayClass, model.GatewayClassSpec]) { l.classes = true })
	p.In.Configs.Watch(func([]inc.Change[model.Config, model.ConfigSpec]) { l.classes = true })
	p.In.Members.Watch(func(changes []inc.Change[model.Member, model.MemberSpec]) {
		for _, c := range changes {
			l.changed = true
			delete(l.asked, c.Key)
			if delete(l.held, c.Key); c.New != nil && c.New.Guarded {
				l.held[c.Key] = true
			}
			if run := l.runs[c.Key]; run != nil && c.New != nil {
				run.heed(*c.New)
			}
		}
	})
	p.In.Tombstones.Watch(func([]inc.Change[model.TombstoneID, model.Tombstone]) { l.changed = true })
	p.In.Clusters.Watch(func([]inc.Change[model.Member, inc.Val[model.ClusterID]]) { l.changed = true })
	p.In.Contacts.Watch(func([]inc.Change[model.Member, model.Contact]) { l.changed = true })
	return l
}

// noted notes a value of something in a member, or that there is none.
func noted[K comparable, V any](in map[model.Member]map[K]V, m model.Member, k K, v V, is bool) {
	of := in[m]
	switch {
	case is && of == nil:
		in[m] = map[K]V{k: v}
	case is:
		of[k] = v
	default:
		if delete(of, k); len(of) == 0 {
			delete(in, m)
		}
	}
}

func (l *leaves) want(changes []inc.Change[model.LeafID, leaf.Leaf]) {
	for _, c := range changes {
		var row leaf.Leaf
		if c.New != nil {
			row = *c.New
		}
		noted(l.wants, c.Key.Member, c.Key, row, c.New != nil)
		l.met(c.Key)
	}
	changes = slices.SortedFunc(slices.Values(changes), func(a, b inc.Change[model.LeafID, leaf.Leaf]) int { return grantsFirst(a.Key, b.Key) })
	for _, c := range changes {
		if run := l.runs[c.Key.Member]; run != nil {
			run.want(c.Key, c.New)
		}
	}
}

// grantsFirst orders leaves: what refers to another namespace waits for ReferenceGrants that
// are not as they should be, and must know of these.
func grantsFirst(a, b model.LeafID) int {
	rank := func(k model.LeafID) int {
		if k.Root.Kind == "ReferenceGrant" {
			return 0
		}
		return 1
	}
	return cmp.Or(rank(a)-rank(b), a.Compare(b))
}

// Engaged is told by the connections of members, like the next two.
func (l *leaves) Engaged(m model.Member, way *cluster.Way) {
	l.connected(func() { l.ways[m] = way })
}

// Ended forgets a connection.
func (l *leaves) Ended(m model.Member) { l.connected(func() { delete(l.ways, m) }) }

// Left has what is known of a member's leaves forgotten.
func (l *leaves) Left(m model.Member) { l.connected(func() { l.left = append(l.left, m) }) }

func (l *leaves) connected(note func()) {
	type connectedKey struct{}
	l.mu.Lock()
	note()
	l.news = true
	l.mu.Unlock()
	l.put(connectedKey{}, func(*inc.Tx) {}) // and flush
}

// active reports whether there may be leaves.
func (l *leaves) active() bool {
	return l.served() || len(l.told)+len(l.keys.has) > 0 || len(l.runs) > 0 || len(l.held) > 0 || l.p.In.Tombstones.Len() > 0
}

// flush begins and ends runs, and says of those that know all that is wanted that they
// do. It is called after each commit, once the hub is known. None begins before this
// process has read the hub: what a checkpoint says may be older than what members have.
func (l *leaves) flush(settled bool) {
	if l.classes {
		l.classes = false
		classes := cluster.LeafyClasses{}
		for _, c := range l.p.Leafy.Keys() {
			if !c.OfGateway() {
				row, _ := l.p.Leafy.Get(nil, c)
				classes[c] = row.Default
			}
		}
		l.leafy(classes)
		l.findGateways()
	}
	if l.start == nil || !l.listed || !l.active() {
		return
	}
	l.settle()
	l.passKeys()
	if settled && l.t.LeavesUnread.Len() == 0 {
		for m, run := range l.runs {
			if !run.complete && l.read(m) {
				run.complete = true
				run.syncer.Complete()
				l.connected(func() {})
				run.allWanted()
			}
		}
		l.part()
	}
}

// settle begins and ends runs, where anything has changed that they depend on.
func (l *leaves) settle() {
	hub := l.hub()
	l.mu.Lock()
	ways, left, news := l.ways, l.left, l.news || l.changed || hub != l.of
	if news {
		ways, l.left, l.news = maps.Clone(ways), nil, false
	}
	l.mu.Unlock()
	if !news {
		return
	}
	l.changed, l.of, l.parting = false, hub, true
	l.mourn()
	for m, run := range l.runs {
		if ways[m] != run.way || hub != run.hub || !l.needed(m) || !l.guarded(m) || !run.has(l.kindsOf(m)) {
			run.end()
			delete(l.runs, m)
		}
	}
	for _, m := range left {
		l.leave(m)
		for k := range l.told[m] {
			l.put(leafKey{k}, func(tx *inc.Tx) { l.p.In.LeafStates.Delete(tx, k) })
		}
		delete(l.kinds, m)
		l.unlook(m)
		for k := range l.keys.has[m] {
			l.put(heldKey{k}, func(tx *inc.Tx) { l.p.In.HeldKeys.Delete(tx, k) })
		}
	}
	for _, m := range l.p.In.Members.Keys() {
		if spec, _ := l.p.In.Members.Get(nil, m); (!spec.Guarded || l.asked[m] == askRelease) && !spec.Leaving && l.needed(m) {
			l.ask(m, askGuard)
		}
	}
	for m, way := range ways {
		if l.runs[m] == nil && hub != "" && l.needed(m) && l.guarded(m) {
			l.begin(m, way, hub)
		}
	}
}

// read reports whether it is known what a member has, by this process or a short while
// before it.
func (l *leaves) read(m model.Member) bool {
	source, ok := l.p.In.Sources.Get(nil, m)
	_, outdated := l.p.In.Outdated.Get(nil, m)
	_, missing := l.p.Missing.Get(nil, m)
	return ok && source.Connected && !outdated && !missing
}

// leafRun is a syncer, for as long as a connection is the same.
type leafRun struct {
	*leaves
	member   model.Member
	way      *cluster.Way
	hub      string
	kinds    []string // of roots, of whose leaves it knows
	syncer   *syncer.Syncer
	complete bool
	cancel   context.CancelFunc

	mu      sync.Mutex
	ids     map[syncer.Key]model.LeafID // of what was ever wanted, or was there
	at      map[model.LeafID]syncer.Key // of these, what is wanted
	waiting map[syncer.Key]bool         // somebody must consent that it goes
	count   syncer.Count
	prunes  bool // somebody does
	makes   bool // namespaces that are not there may be made
	over    bool
	key     keyRun
}

// begin begins a run. What this process never wanted, and was told of, is not wanted.
func (l *leaves) begin(m model.Member, way *cluster.Way, hub string) {
	run := &leafRun{leaves: l, member: m, way: way, hub: hub, kinds: l.kindsOf(m), ids: map[syncer.Key]model.LeafID{}, at: map[model.LeafID]syncer.Key{}, waiting: map[syncer.Key]bool{}, key: newKeyRun(l.distributes(m))}
	l.mournKeys(run)
	spec, _ := l.p.In.Members.Get(nil, m)
	run.prunes, run.makes = consents(spec), spec.Makes
	l.start(m, run)
	if run.syncer == nil {
		return
	}
	l.runs[m] = run
	for k := range l.keys.wants[m] {
		run.wantKey(k, true)
	}
	for k := range l.keys.has[m] {
		if !l.keys.wants[m][k] {
			run.wantKey(k, false)
		}
	}
	for k := range l.told[m] {
		if _, wanted := l.wants[m][k]; !wanted {
			run.want(k, nil)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(l.wants[m]), grantsFirst) {
		row := l.wants[m][k]
		run.want(k, &row)
	}
	run.heed(spec)
}

func (r *leafRun) end() {
	r.mu.Lock()
	r.over = true
	waited := len(r.waiting) > 0
	r.mu.Unlock()
	if waited {
		r.wait(false)
	}
	r.cancel()
}

// keyIn is what a leaf is called in its member, given the namespace, if it is another one
// than most members have.
func keyIn(k model.LeafID, namespace string) syncer.Key {
	return syncer.Key{Resource: leafKinds[k.Root.Kind], Namespace: cmp.Or(namespace, usualSpace(k)), Name: k.Root.Name}
}

func usualSpace(k model.LeafID) string {
	return model.MemberNamespace(k.Root.Workspace, k.Root.Namespace)
}

// want says which leaf there should be of a root. One that moves to another namespace is
// another object, and the old one goes when that is there: the syncer sees to it.
func (r *leafRun) want(k model.LeafID, row *leaf.Leaf) {
	state, _ := r.p.In.LeafStates.Get(nil, k)
	r.mu.Lock()
	defer r.mu.Unlock()
	was, wanted := r.at[k]
	if row == nil {
		if !wanted {
			was = keyIn(k, state.In)
		}
		delete(r.at, k)
		r.ids[was] = k
		r.unwantLeaf(was)
		return
	}
	key := keyIn(k, row.Namespace)
	r.ids[key], r.at[k] = k, key
	if wanted && was != key {
		defer func() {
			delete(r.ids, was)
			r.unwantLeaf(was)
		}()
	}
	r.key.move(key, true) // it may name what it named until now
	r.key.rows[key] = wantedLeaf{*row, k}
	r.wantLeaf(key)
}

// objectOf is the object of a leaf; nil: it can't be read, which the syncer refuses.
func objectOf(kind string, key syncer.Key, body string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if json.Unmarshal([]byte(body), &o.Object) != nil {
		return nil
	}
	o.SetAPIVersion(key.Resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	return o
}

// leafKey names the state of a leaf in the mailbox.
type leafKey struct{ id model.LeafID }

// report takes what became of a leaf. The syncer calls it.
func (r *leafRun) report(key syncer.Key, s syncer.State) {
	r.mu.Lock()
	k, known := r.ids[key]
	if s.Reason == syncer.Gone || s.Reason == syncer.Released {
		delete(r.ids, key)
	}
	before, consents := len(r.waiting), false
	if s.Reason == syncer.Waiting {
		r.waiting[key], consents = true, r.prunes
	} else {
		delete(r.waiting, key)
	}
	after, over := len(r.waiting), r.over
	r.sawLeaf(key, s)
	r.mu.Unlock()
	if over {
		return
	}
	if (before == 0) != (after == 0) {
		r.wait(after > 0)
	}
	if consents {
		r.syncer.Consent()
	}
	if known {
		in := r.p.In.LeafStates
		r.put(leafKey{k}, func(tx *inc.Tx) {
			if _, member := r.p.In.Members.Get(nil, k.Member); !member {
				in.Delete(tx, k) // it has left since
				return
			}
			in.Edit(tx, k, func(old model.LeafState, had bool) (model.LeafState, bool) {
				return becameIn(k, key.Namespace, old, had, s)
			})
		})
	}
}

// wait tells, or tells no more, that leaves wait for consent.
func (r *leafRun) wait(is bool) {
	type waitKey struct{ model.Member }
	in := r.p.In.LeavesWaiting
	r.put(waitKey{r.member}, func(tx *inc.Tx) {
		if is {
			in.Set(tx, r.member, model.There{})
		} else {
			in.Delete(tx, r.member)
		}
	})
}

// consent notes whether many may go.
func (r *leafRun) consent(is bool) {
	r.mu.Lock()
	news := is && !r.prunes && len(r.waiting) > 0
	r.prunes = is
	r.mu.Unlock()
	if news {
		r.syncer.Consent()
	}
}

// becameIn is the state of a leaf after what was told of it in a namespace. While there is
// none where it moves to, what was told of the one that it leaves stays.
func becameIn(k model.LeafID, namespace string, old model.LeafState, had bool, s syncer.State) (model.LeafState, bool) {
	if namespace == usualSpace(k) {
		namespace = ""
	}
	if old.There && old.In != namespace && s.UID == "" {
		s.Unknown = true
	}
	now, is := became(k.Root.Kind, old, had, s)
	if !s.Unknown {
		now.In = namespace
	}
	return now, is
}

// became is the state of a leaf after what was told of it. What is not known stays as it
// was.
func became(kind string, old model.LeafState, had bool, s syncer.State) (model.LeafState, bool) {
	if s.Reason == syncer.Gone || s.Reason == syncer.Released {
		return model.LeafState{}, false
	}
	now := old
	if !s.Unknown {
		now.There, now.Addresses, now.Said = s.UID != "", model.Texts{}, ""
		if addresses, said, err := ingest.LeafStatus(kind, s.Status); err == nil {
			now.Addresses, now.Said = addresses, said
		}
		now.Behind = now.There && ingest.LeafBehind(s.Status, s.Generation)
	}
	if !s.Unclear {
		now.Claimed = claimsOf(s.Claimed)
	}
	if s.Reason == syncer.Pending {
		now.Reason = string(syncer.Pending)
		if had {
			now.Reason = old.Reason
		}
		return now, had || !s.Unknown
	}
	now.Reason, now.Message = string(s.Reason), s.Message
	switch s.Reason {
	case syncer.Applied, syncer.Contested:
		now.Message, now.Edition = "", editionIn(s.Tag)
	case syncer.Older:
		now.Edition = ""
	}
	now.Dropped, now.Altered, now.Diff = model.TextsOf(s.Dropped), model.TextsOf(s.Altered), model.TextsOf(s.Diff)
	return now, true
}

// syncers has runs begun that talk to members, until ctx ends.
func (l *leaves) syncers(ctx context.Context) {
	l.start = func(m model.Member, run *leafRun) {
		log := l.log.With("member", string(m))
		client, err := run.way.Writer()
		if err != nil {
			log.Warn("leaves: no client", "problem", err.Error())
			return
		}
		spaces := &syncer.Namespaces{Hub: run.hub, Client: client, May: run.mayMake, Log: log}
		s, err := syncer.New(syncer.Options{
			Hub: run.hub, Client: client, Namespaces: spaces, Kinds: run.resources(), Claims: leafClaims, Budget: cluster.NewBudget(), Log: log, Report: run.report, Counted: run.counted,
		})
		if err != nil {
			log.Warn("leaves: no syncer", "problem", err.Error())
			return
		}
		keys := syncer.NewKeys(syncer.KeysOptions{Hub: run.hub, Client: client, Namespaces: spaces, Budget: cluster.NewBudget(), Log: log, Report: run.reportKey})
		ctx, cancel := context.WithCancel(ctx)
		run.syncer, run.cancel, run.key.writer = s, cancel, keys
		l.all.Go(func() { keys.Run(ctx) })
		l.all.Go(func() { s.Run(ctx) })
		l.all.Go(func() { l.lookFor(ctx, run, client) })
	}
}
