package syncer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const contested = "somebody else keeps changing or deleting it: find out who, by metadata.managedFields"

// do works on one leaf, and again later if that fails.
func (s *Syncer) do(ctx context.Context, key Key) {
	err := s.sync(ctx, key)
	if made, why := s.Namespaces.make(ctx, key.Namespace, s.spaceOf(key), err); made {
		err = s.sync(ctx, key)
	} else {
		err = why
	}
	if ctx.Err() != nil || errors.Is(err, errUnlisted) {
		return
	}
	s.gate.Came(err)
	switch {
	case err == nil:
		s.queue.Forget(key)
		return
	case apierrors.IsConflict(err): // it changed meanwhile: read it again
	default:
		s.failed(key, err)
	}
	s.queue.AddRateLimited(key)
}

// spaceOf is whose the namespace of a leaf is.
func (s *Syncer) spaceOf(key Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.leaves[key]; e != nil && e.want != nil {
		return e.want.space
	}
	return ""
}

// failed tells why a leaf is not as wanted. The log has no words of the member's:
// they may quote a secret.
func (s *Syncer) failed(key Key, err error) {
	reason := Failing
	if refusal(err) {
		reason = Refused
	}
	if s.queue.NumRequeues(key) == 0 {
		s.Log.Warn("syncer: not written, trying again", "leaf", key.String(), "reason", string(apierrors.ReasonForError(err)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.leaves[key]; e != nil {
		s.say(key, e, State{Reason: reason, Message: clip(err.Error())})
	}
}

// refusal reports whether an error is a no to this object.
func refusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusUnauthorized && code != http.StatusRequestTimeout
}

// task is a piece of work: a leaf as it is wanted when work on it begins.
type task struct {
	*Syncer
	key     Key
	in      dynamic.ResourceInterface
	want    *wish
	release bool
	settled bool // the member was seen to have the wish, but for these
	differs differences
	offered bool
	met     string
}

// begin takes what is to be done; nil: nothing.
func (s *Syncer) begin(key Key) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, k := s.leaves[key], s.kinds[key.Resource]
	switch {
	case e == nil, e.invalid != nil, k == nil:
		return nil, nil
	case !k.listed && apierrors.IsNotFound(k.err):
		s.notServed(key, e)
		return nil, nil
	case !k.listed && k.err != nil:
		s.say(key, e, unlisted(k.err))
		return nil, errUnlisted
	case !k.listed:
		return nil, errUnlisted
	}
	return &task{
		Syncer: s, key: key, in: s.Client.Resource(key.Resource).Namespace(key.Namespace),
		want: e.want, release: e.release, offered: e.offered, met: e.met,
		settled: e.want != nil && e.settled == e.want.hash, differs: e.differs,
	}, nil
}

func (s *Syncer) notServed(key Key, e *leaf) {
	if e.want == nil {
		s.ended(key, e)
		return
	}
	s.say(key, e, State{Reason: NotServed, Message: "the member does not have " + key.Resource.GroupResource().String() + " in " + key.Resource.Version})
}

// unlisted is what is told where nobody knows what there is.
func unlisted(err error) State {
	if refusal(err) {
		return State{Reason: Refused, Message: clip(err.Error())}
	}
	return State{Reason: Failing, Message: clip(err.Error())}
}

// sync brings one leaf a step nearer to what is wanted.
func (s *Syncer) sync(ctx context.Context, key Key) error {
	t, err := s.begin(key)
	if t == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	have, err := t.in.Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = nil, nil
	}
	if err != nil {
		return err
	}
	switch of := ownerOf(have, s.Hub); {
	case t.want == nil && of != ours:
		t.done()
	case t.release:
		return t.letGo(ctx, have)
	case t.want == nil:
		return t.prune(ctx, have)
	case of == another:
		t.say(State{Reason: OfAnotherHub, Message: "it has the mark of hub " + have.GetLabels()[v1alpha1.LabelHub]})
		t.queue.AddAfter(key, s.pace.look)
	case of == foreign:
		return t.meet(ctx, have)
	case of == nobody:
		return t.write(ctx, nil)
	case have.GetDeletionTimestamp() != nil:
		t.say(State{Reason: Leaving, Message: "it is being deleted, and comes back when that is done"})
	default:
		return t.keep(ctx, have)
	}
	return nil
}

// say tells what has become of the leaf, if that is still wanted.
func (t *task) say(now State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.leaves[t.key]; e != nil && e.want == t.want {
		t.Syncer.say(t.key, e, now)
	}
}

// done tells that there is none of ours, as is wanted.
func (t *task) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.leaves[t.key]; e != nil && e.want == nil && e.invalid == nil {
		t.ended(t.key, e)
	}
}

// ended tells that a leaf is none, and forgets it once the watch has told so,
// too. The caller has the lock.
func (s *Syncer) ended(key Key, e *leaf) {
	reason := Gone
	if e.release {
		reason = Released
	}
	s.say(key, e, State{Reason: reason})
	if e.seen == nil {
		delete(s.leaves, key)
		s.poke()
	}
}

// keep writes over a leaf of ours that is not as it is wanted.
func (t *task) keep(ctx context.Context, have *unstructured.Unstructured) error {
	there := have.GetAnnotations()[v1alpha1.AnnotationApplied]
	d := lacks(t.want.body(), have)
	switch {
	case len(d) == 0, t.settled && d.equal(t.differs):
		t.settle(d)
		return nil
	case t.want.keep && !t.settled && there != t.want.hash:
		t.say(State{Reason: Older})
		return nil
	case t.settled || there != t.want.hash:
		return t.write(ctx, have)
	}
	// It was written before our time, and is not as it is wanted: somebody changed
	// it, or the member does not take it as it is.
	after, err := t.apply(ctx, have, true)
	if err != nil {
		return err
	}
	if d.equal(lacks(t.want.body(), after)) {
		t.settle(d)
		return nil
	}
	return t.write(ctx, have)
}

// settle notes that the member has what is wanted, but for some differences.
func (t *task) settle(d differences) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.leaves[t.key]
	if e == nil || e.want != t.want {
		return
	}
	e.settled, e.differs = t.want.hash, d
	t.inPlace(t.key, e)
}

// write applies over the object that was read; nil: where there is none.
func (t *task) write(ctx context.Context, have *unstructured.Unstructured) error {
	if t.fought() {
		return nil
	}
	after, err := t.apply(ctx, have, false)
	if err != nil {
		return err
	}
	t.settle(lacks(t.want.body(), after))
	return nil
}

// fought counts that somebody undid what we did, and reports whether the leaf is
// better left alone for a while.
func (t *task) fought() bool {
	if !t.settled {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e, now := t.leaves[t.key], time.Now()
	if e == nil || e.want != t.want {
		return true // it is in the queue again
	}
	if rest := e.fight.rest(now); rest > 0 {
		t.queue.AddAfter(t.key, rest)
		if e.fight.over(now) > 0 {
			t.Syncer.say(t.key, e, State{Reason: Contested, Message: contested})
		}
		return true
	}
	if e.fight.again(now); e.fight.times == loud {
		t.Log.Warn("syncer: somebody else keeps changing a leaf", "leaf", t.key.String())
	}
	return false
}

// meet does what may be done about an object that is nobody's leaf: it says what
// taking it over would change. With consent, and once that was told, it is ours.
func (t *task) meet(ctx context.Context, have *unstructured.Unstructured) error {
	if t.want.adopt && t.offered {
		return t.write(ctx, have)
	}
	t.queue.AddAfter(t.key, t.pace.look)
	if t.met == have.GetResourceVersion() {
		return nil
	}
	now := State{Reason: Foreign, Message: "an object of the name is there that is not ours"}
	after, err := t.apply(ctx, have, true)
	switch {
	case err == nil:
		now.Diff = changed(have, after)
	case refusal(err):
		now.Message += "; taking it over would fail: " + err.Error()
	default:
		return err
	}
	now.Message = clip(now.Message)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.leaves[t.key]; e != nil && e.want == t.want {
		e.met = have.GetResourceVersion()
		t.Syncer.say(t.key, e, now)
	}
	return nil
}

// never is a version that no object has: the first write to a store is a later one.
const never = "1"

// apply writes over the object that was read, and over no other: where there was
// none, one that has come meanwhile is a conflict, since its version is another.
// A try changes nothing. Fields that the member's definition of the kind lacks
// make the server refuse it all, so they are left out.
func (t *task) apply(ctx context.Context, have *unstructured.Unstructured, try bool) (*unstructured.Unstructured, error) {
	after, err := t.send(ctx, t.want.body().Object, have, try)
	if err == nil || !strings.Contains(err.Error(), "field not declared in schema") {
		return after, err
	}
	has, err := t.takes(ctx, have)
	if err != nil {
		return nil, err
	}
	return t.send(ctx, kept(t.want.body().Object, has.Object).(map[string]any), have, try)
}

func (t *task) send(ctx context.Context, body map[string]any, have *unstructured.Unstructured, try bool) (*unstructured.Unstructured, error) {
	out, meta := maps.Clone(body), maps.Clone(body["metadata"].(map[string]any))
	out["metadata"] = meta
	meta["resourceVersion"] = never
	if have != nil {
		meta["resourceVersion"], meta["uid"] = have.GetResourceVersion(), string(have.GetUID())
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	force := true // over fields of what is ours, or is becoming so
	o := metav1.PatchOptions{FieldManager: v1alpha1.FieldManager, Force: &force, DryRun: dryRun(try)}
	return t.in.Patch(ctx, t.key.Name, types.ApplyPatchType, data, o)
}

// takes is what the member would make of a wish by a write that drops fields
// which it does not know. Nothing is written.
func (t *task) takes(ctx context.Context, have *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if have == nil {
		o := metav1.CreateOptions{FieldManager: v1alpha1.FieldManager, DryRun: dryRun(true), FieldValidation: metav1.FieldValidationIgnore}
		return t.in.Create(ctx, t.want.body(), o)
	}
	o := metav1.PatchOptions{FieldManager: v1alpha1.FieldManager, DryRun: dryRun(true), FieldValidation: metav1.FieldValidationIgnore}
	return t.in.Patch(ctx, t.key.Name, types.MergePatchType, t.want.text, o)
}

func dryRun(try bool) []string {
	if try {
		return []string{metav1.DryRunAll}
	}
	return nil
}
