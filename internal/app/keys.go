package app

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/leaf"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// Leaves may name copies of Secrets. A leaf is written when its copies are there, and until
// then it stays as it is. A copy that is wanted no more goes when leaves are as they should
// be: one of a Secret that has a newer copy not before those that need it name that, and
// any other after a while at the latest.

// lingers is how long a key that no leaf should need waits for the leaves of its namespace.
const lingers = 7 * time.Second

// keyWriter writes copies.
type keyWriter interface {
	Want(name syncer.KeyName, c *syncer.Copy)
	Again(name syncer.KeyName)
	Sweep(namespace string)
}

// noKeys is where no copies are written.
type noKeys struct{}

func (noKeys) Want(syncer.KeyName, *syncer.Copy) {}
func (noKeys) Again(syncer.KeyName)              {}
func (noKeys) Sweep(string)                      {}

// memberKeys are what members should have, and may have. They belong to the loop.
type memberKeys struct {
	wants   map[model.Member]map[model.HeldKey]bool
	has     map[model.Member]map[model.HeldKey]bool
	changes []model.HeldKey // not passed on yet
}

// followKeys has the copies that are wanted, and those that are there, noted.
func (l *leaves) followKeys() {
	l.keys = memberKeys{wants: map[model.Member]map[model.HeldKey]bool{}, has: map[model.Member]map[model.HeldKey]bool{}}
	l.t.Keys.Watch(func(changes []inc.Change[model.HeldKey, model.There]) {
		for _, c := range changes {
			noted(l.keys.wants, c.Key.Member, c.Key, true, c.New != nil)
			if l.runs[c.Key.Member] != nil {
				l.keys.changes = append(l.keys.changes, c.Key)
			}
		}
	})
	l.p.In.HeldKeys.Watch(func(changes []inc.Change[model.HeldKey, model.KeyState]) {
		for _, c := range changes {
			noted(l.keys.has, c.Key.Member, c.Key, true, c.New != nil)
			l.changed = l.changed || c.Old == nil || c.New == nil
		}
	})
}

// passKeys passes on what changed, once all tables have.
func (l *leaves) passKeys() {
	for _, k := range l.keys.changes {
		if run := l.runs[k.Member]; run != nil {
			run.wantKey(k, l.keys.wants[k.Member][k])
		}
	}
	l.keys.changes = nil
}

// keysLeft are how many copies a member may have, and in which namespaces.
func (l *leaves) keysLeft(m model.Member) (int, model.Texts) {
	var spaces []string
	for k := range l.keys.has[m] {
		spaces = append(spaces, k.Namespace())
	}
	slices.Sort(spaces)
	return len(spaces), model.TextsOf(slices.Compact(spaces))
}

// mournKeys has what a member kept of copies when it left swept, where it is a member again.
func (l *leaves) mournKeys(run *leafRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, m := range l.graves {
		stone, _ := l.p.In.Tombstones.Get(nil, k)
		if m != run.member || stone.Keys == 0 {
			continue
		}
		for _, space := range stone.KeySpaces.List() {
			run.key.sweeps, run.key.unswept[space] = true, true
		}
	}
}

// distributes reports whether keys go to a member, or it may have some.
func (l *leaves) distributes(m model.Member) bool {
	return len(l.keys.has[m]) > 0 || slices.ContainsFunc(l.p.Leafy.Keys(), func(c model.Class) bool {
		row, _ := l.p.Leafy.Get(nil, c)
		return row.Spec.Member(m).TLS == model.LeafTLSDistribute
	})
}

// Kinds of leaves that name keys of other namespaces, and that let them.
var (
	gatewayLeaves = leafKinds[model.GatewayKind]
	setLeaves     = leafKinds[model.ListenerSetKind]
	grantLeaves   = leafKinds["ReferenceGrant"]
)

// namesFar reports whether a leaf may name keys of other namespaces.
func namesFar(key syncer.Key) bool { return key.Resource == gatewayLeaves || key.Resource == setLeaves }

// keyRun are the copies of a run, and what of its leaves they wait for. All is under the
// mutex of the run.
type keyRun struct {
	writer   keyWriter
	ids      map[syncer.KeyName]model.HeldKey
	wanted   map[syncer.KeyName]bool
	newer    map[model.SecretID]int                  // of a Secret, how many copies are wanted
	held     map[syncer.KeyName]bool                 // they are there
	had      map[syncer.KeyName]bool                 // they were when the run began
	dropping map[string]map[syncer.KeyName]time.Time // by namespace: since when it is not wanted

	rows    map[syncer.Key]wantedLeaf
	waiting map[syncer.Key]bool            // of these, for a copy
	told    map[syncer.Key]bool            // of these, the syncer was told one
	place   map[syncer.Key]string          // what leaves name that are as was told last
	uids    map[syncer.Key]types.UID       // of leaves that are there
	moving  map[string]map[syncer.Key]bool // by namespace of keys, or anywhere: leaves that may name one there, and are not as they should be
	older   map[syncer.Key]bool            // leaves that stay as they are: nobody knows what they name
	spaces  map[syncer.Key]map[string]bool // of such a leaf, these namespaces
	known   bool                           // all that is wanted is
	sweeps  bool                           // there may be copies that nobody remembers
	unswept map[string]bool                // namespaces
}

type wantedLeaf struct {
	leaf.Leaf
	id model.LeafID
}

func newKeyRun(sweeps bool) keyRun {
	return keyRun{
		writer: noKeys{}, ids: map[syncer.KeyName]model.HeldKey{}, wanted: map[syncer.KeyName]bool{}, newer: map[model.SecretID]int{}, held: map[syncer.KeyName]bool{},
		had: map[syncer.KeyName]bool{}, dropping: map[string]map[syncer.KeyName]time.Time{}, rows: map[syncer.Key]wantedLeaf{}, waiting: map[syncer.Key]bool{},
		told: map[syncer.Key]bool{}, place: map[syncer.Key]string{}, uids: map[syncer.Key]types.UID{}, moving: map[string]map[syncer.Key]bool{}, spaces: map[syncer.Key]map[string]bool{}, older: map[syncer.Key]bool{},
		sweeps: sweeps, unswept: map[string]bool{},
	}
}

func keyName(k model.HeldKey) syncer.KeyName {
	return syncer.KeyName{Namespace: k.Namespace(), Name: k.Name}
}

// anywhere stands for the namespaces in which a leaf may name keys of which it is not known
// what it says.
const anywhere = ""

// tagOf is what a leaf names, and which edition it is.
func tagOf(row leaf.Leaf) string {
	var names []string
	for _, k := range slices.Concat(row.Keys, row.Lets) {
		names = append(names, k.Name)
	}
	if row.Edition != "" {
		return strings.Join(names, ",") + editionMark + row.Edition
	}
	return strings.Join(names, ",")
}

// editionMark is before the edition of a leaf, in its tag. No name has it.
const editionMark = "/"

// editionIn is the edition that a tag is of.
func editionIn(tag string) string {
	_, edition, _ := strings.Cut(tag, editionMark)
	return edition
}

// heldKey names the state of a copy in the mailbox.
type heldKey struct{ id model.HeldKey }

// wantKey says whether a copy is wanted. The loop calls it.
func (r *leafRun) wantKey(k model.HeldKey, is bool) {
	var c *syncer.Copy
	in := r.p.In.HeldKeys
	state, _ := in.Get(nil, k)
	if is {
		cert, _ := r.p.In.Certificates.Get(nil, k.Secret)
		if model.HeldName(k.Secret, cert) != k.Name {
			return // another one is about to be wanted
		}
		c = &syncer.Copy{RootUID: types.UID(cert.UID), Workspace: k.Secret.Workspace, Namespace: k.Secret.Namespace, Label: model.HeldHash(k.Name), Chain: cert.Chain, Key: cert.Key}
		r.put(heldKey{k}, func(tx *inc.Tx) {
			in.Edit(tx, k, func(old model.KeyState, had bool) (model.KeyState, bool) {
				if !had {
					old.Reason = model.KeyPending
				}
				return old, true
			})
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := keyName(k)
	r.key.ids[name], r.key.had[name] = k, state.There
	r.key.count(name, k.Secret, is)
	if is {
		delete(r.key.dropping[name.Namespace], name)
		r.key.writer.Want(name, c)
		return
	}
	delete(r.key.held, name)
	if r.key.dropping[name.Namespace] == nil {
		r.key.dropping[name.Namespace] = map[syncer.KeyName]time.Time{}
	}
	r.key.dropping[name.Namespace][name] = time.Now()
	time.AfterFunc(lingers, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.review(name.Namespace)
	})
	r.review(name.Namespace)
}

// count notes whether a copy is wanted.
func (k *keyRun) count(name syncer.KeyName, of model.SecretID, is bool) {
	switch {
	case k.wanted[name] == is:
	case is:
		k.wanted[name] = true
		k.newer[of]++
	default:
		delete(k.wanted, name)
		if k.newer[of]--; k.newer[of] == 0 {
			delete(k.newer, of)
		}
	}
}

// lacks reports whether a leaf waits: for a copy that is not there, or for ReferenceGrants
// that let it name one of another namespace.
func (k *keyRun) lacks(key syncer.Key) bool {
	for _, of := range k.rows[key].Keys {
		if !k.held[keyName(of)] {
			return true
		}
		if of.Namespace() == key.Namespace {
			continue
		}
		for other := range k.moving[of.Namespace()] {
			if _, wanted := k.rows[other]; wanted && other.Resource == grantLeaves && other.Namespace == of.Namespace() {
				return true
			}
		}
	}
	return false
}

// wantLeaf passes a leaf on, if what it names is there. The caller has the lock.
func (r *leafRun) wantLeaf(key syncer.Key) {
	row := r.key.rows[key]
	r.key.settle(key)
	if r.key.lacks(key) {
		r.key.waiting[key] = true
		if !r.key.told[key] {
			r.syncer.Want(key, &syncer.Leaf{Hold: true, Root: rootOf(row)})
		}
		return
	}
	delete(r.key.waiting, key)
	r.key.told[key] = true
	r.syncer.Want(key, &syncer.Leaf{Object: objectOf(row.id.Root.Kind, key, row.Body), Tag: tagOf(row.Leaf), Adopt: row.Adopt, Keep: row.Keep, Root: rootOf(row)})
}

func rootOf(row wantedLeaf) syncer.Root {
	root := row.id.Root
	return syncer.Root{Kind: root.Kind, Workspace: root.Workspace, Namespace: root.Namespace, Name: root.Name, UID: types.UID(row.UID)}
}

// unwantLeaf notes that there should be none. The caller has the lock.
func (r *leafRun) unwantLeaf(key syncer.Key) {
	r.key.move(key, true)
	delete(r.key.rows, key)
	delete(r.key.told, key)
	delete(r.key.waiting, key)
	r.syncer.Want(key, nil)
}

// settle notes whether a leaf that is wanted is as it should be.
func (k *keyRun) settle(key syncer.Key) {
	tag, there := k.place[key]
	k.move(key, !there || tag != tagOf(k.rows[key].Leaf))
}

// move notes whether a leaf is as it should be: if not, it may name keys that it named since
// it last was.
func (k *keyRun) move(key syncer.Key, moves bool) {
	if !moves {
		for space := range k.spaces[key] {
			if delete(k.moving[space], key); len(k.moving[space]) == 0 {
				delete(k.moving, space)
			}
		}
		delete(k.spaces, key)
		return
	}
	row, known := k.rows[key]
	spaces := []string{key.Namespace}
	for _, of := range row.Keys {
		spaces = append(spaces, of.Namespace())
	}
	if !known && k.spaces[key] == nil && namesFar(key) {
		spaces = append(spaces, anywhere)
	}
	if k.spaces[key] == nil {
		k.spaces[key] = map[string]bool{}
	}
	for _, space := range spaces {
		if k.moving[space] == nil {
			k.moving[space] = map[syncer.Key]bool{}
		}
		k.moving[space][key], k.spaces[key][space] = true, true
	}
}

// reach are the namespaces in which a leaf may name keys, its own first, or anywhere.
func (k *keyRun) reach(key syncer.Key) []string {
	spaces := maps.Clone(k.spaces[key])
	if spaces == nil {
		spaces = map[string]bool{}
	}
	for _, of := range k.rows[key].Keys {
		spaces[of.Namespace()] = true
	}
	delete(spaces, key.Namespace)
	return append([]string{key.Namespace}, slices.Sorted(maps.Keys(spaces))...)
}

// sawLeaf notes what became of a leaf. The caller has the lock.
func (r *leafRun) sawLeaf(key syncer.Key, s syncer.State) {
	k := &r.key
	row, wanted := k.rows[key]
	spaces := k.reach(key)
	if was := k.uids[key]; was != "" && !s.Unknown && was != s.UID {
		for _, of := range row.Keys { // who took the leaf away may have taken its keys
			k.writer.Again(keyName(of))
		}
	}
	switch {
	case s.Unknown:
	case s.UID == "":
		delete(k.uids, key)
	default:
		k.uids[key] = s.UID
	}
	switch s.Reason {
	case syncer.Pending:
	case syncer.Older:
		k.older[key] = true
	default:
		delete(k.older, key)
	}
	switch s.Reason {
	case syncer.Gone, syncer.Released:
		delete(k.place, key)
		if !wanted {
			k.move(key, false)
		}
	case syncer.Applied, syncer.Contested:
		k.place[key] = s.Tag
	case syncer.Foreign, syncer.OfAnotherHub:
		k.place[key] = tagOf(row.Leaf) // none of ours is there
	}
	switch {
	case wanted:
		k.settle(key)
	case s.UID != "":
		k.move(key, true) // it is about to go, or waits for consent
	}
	for _, space := range spaces {
		if _, noted := k.unswept[space]; k.sweeps && !noted && space != anywhere {
			k.unswept[space] = true
		}
	}
	if wanted && key.Resource == grantLeaves && len(k.spaces[key]) == 0 {
		r.granted(key.Namespace)
	}
	if slices.Contains(spaces, anywhere) {
		spaces = append(slices.Collect(maps.Keys(k.dropping)), key.Namespace)
	}
	for _, space := range spaces {
		r.review(space)
	}
}

// granted passes leaves on that waited for a ReferenceGrant. The caller has the lock.
func (r *leafRun) granted(namespace string) {
	for _, key := range slices.Collect(maps.Keys(r.key.waiting)) {
		if key.Namespace != namespace && slices.Contains(r.key.reach(key), namespace) {
			r.wantLeaf(key)
		}
	}
}

// moved reports whether a leaf that names a copy of a Secret is not as it should be yet, or
// one is there that is not wanted, and may name it.
func (k *keyRun) moved(namespace string, of model.SecretID) bool {
	for key := range k.moving[namespace] {
		if row, wanted := k.rows[key]; !wanted || row.names(of) {
			return true
		}
	}
	return false
}

// names reports whether a leaf names a copy of a Secret.
func (a wantedLeaf) names(s model.SecretID) bool {
	return slices.ContainsFunc(a.Keys, func(k model.HeldKey) bool { return k.Secret == s })
}

// review has copies of a namespace deleted that may go. The caller has the lock.
func (r *leafRun) review(namespace string) {
	k := &r.key
	dropping, moving := k.dropping[namespace], len(k.moving[namespace])+len(k.moving[anywhere]) > 0
	if !k.known || r.over || k.olderIn(namespace) {
		return
	}
	for name, since := range dropping {
		id := k.ids[name]
		if k.newer[id.Secret] > 0 {
			if k.moved(namespace, id.Secret) {
				continue
			}
		} else if r.waitsIn(namespace) || moving && time.Since(since) < lingers {
			continue
		}
		delete(dropping, name)
		k.writer.Want(name, nil)
	}
	if len(dropping) == 0 {
		delete(k.dropping, namespace)
		if k.unswept[namespace] && !moving && !r.waitsIn(namespace) {
			k.unswept[namespace] = false
			k.writer.Sweep(namespace)
		}
	}
}

// olderIn reports whether a leaf stays as it was that may need any key of a namespace: one
// there, or a Gateway, or a ListenerSet.
func (k *keyRun) olderIn(namespace string) bool {
	for key := range k.older {
		if key.Namespace == namespace || namesFar(key) {
			return true
		}
	}
	return false
}

// waitsIn reports whether leaves of a namespace wait for consent to go: until then they
// are served, and need their keys. The caller has the lock.
func (r *leafRun) waitsIn(namespace string) bool {
	for key := range r.waiting {
		if spaces := r.key.spaces[key]; key.Namespace == namespace || spaces[namespace] || spaces[anywhere] {
			return true
		}
	}
	return false
}

// allWanted notes that all that is wanted is known.
func (r *leafRun) allWanted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key.known = true
	spaces := map[string]bool{}
	for namespace := range r.key.dropping {
		spaces[namespace] = true
	}
	for namespace := range r.key.unswept {
		spaces[namespace] = true
	}
	for namespace := range spaces {
		r.review(namespace)
	}
}

// reportKey takes what became of a copy.
func (r *leafRun) reportKey(name syncer.KeyName, became syncer.Reason, detail string) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	k := r.key.ids[name]
	switch {
	case became == syncer.Gone:
		if !r.key.wanted[name] {
			delete(r.key.ids, name)
			delete(r.key.had, name)
		}
	case r.key.wanted[name] && !r.key.held[name] && (became == syncer.Applied || r.key.had[name]): // what can't be made again was there
		r.key.held[name] = true
		for _, key := range slices.Collect(maps.Keys(r.key.waiting)) {
			if r.key.rows[key].names(k.Secret) {
				r.wantLeaf(key)
			}
		}
	}
	r.review(name.Namespace)
	r.mu.Unlock()
	in := r.p.In
	r.put(heldKey{k}, func(tx *inc.Tx) {
		if _, member := in.Members.Get(nil, k.Member); !member {
			in.HeldKeys.Delete(tx, k) // it has left since
			return
		}
		in.HeldKeys.Edit(tx, k, func(old model.KeyState, _ bool) (model.KeyState, bool) { return keyBecame(old, became, detail) })
	})
}

// keyBecame is the state of a copy after what was told of it.
func keyBecame(old model.KeyState, became syncer.Reason, detail string) (model.KeyState, bool) {
	switch became {
	case syncer.Applied:
		return model.KeyState{Reason: model.KeyHeld, There: true}, true
	case syncer.Gone:
		return model.KeyState{}, false
	case syncer.Refused:
		return model.KeyState{Reason: model.KeyRefused, Detail: detail, There: old.There}, true
	}
	return model.KeyState{Reason: model.KeyFailing, Detail: detail, There: old.There}, true
}
