package syncer

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/work"
)

// Keys keeps copies of TLS Secrets in one member, and reads none there: it creates and
// deletes. So a copy never changes: another certificate has another name, and that there
// is one of the name already is as good as having made it. What is there is what we were
// told of and what we made; what a lost memory left is swept, by our mark.
type Keys struct {
	KeysOptions
	queue work.Queue[KeyName]
	gate  *work.Gate

	mu    sync.Mutex
	wants map[KeyName]*Copy     // nil: there should be none
	done  map[KeyName]*Copy     // as it was made
	due   map[KeyName]time.Time // of these, when it is made again: it may be gone
	tells sync.Mutex            // one report at a time
}

// KeyName names a copy in the member.
type KeyName struct{ Namespace, Name string }

// Copy is what one holds. It has no text form.
type Copy struct {
	RootUID    types.UID // of the Secret on the hub
	Workspace  string    // of that, like the next
	Namespace  string
	Label      string // the end of its name
	Chain, Key []byte // PEM
}

// String shows nothing of it.
func (c *Copy) String() string { return "a key" }

// GoString is String.
func (c *Copy) GoString() string { return c.String() }

// KeysOptions are what Keys needs; as in Options.
type KeysOptions struct {
	Hub    string
	Client dynamic.Interface
	Budget flowcontrol.RateLimiter
	Log    *slog.Logger
	// Namespaces makes those that are not there; nil: nobody does.
	Namespaces *Namespaces
	// Report is told what became of a copy, one at a time: Applied, Gone, Refused or
	// Failing. detail is a word of the API's and no text of the member's, which may
	// quote a key.
	Report func(name KeyName, became Reason, detail string)
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// NewKeys prepares it.
func NewKeys(o KeysOptions) *Keys {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Budget == nil {
		o.Budget = flowcontrol.NewTokenBucketRateLimiter(0.2, 1)
	}
	return &Keys{
		KeysOptions: o,
		queue:       work.NewQueue(func(k KeyName) string { return k.Namespace }, retryFirst, retryLast),
		gate:        work.NewGate(o.Budget),
		wants:       map[KeyName]*Copy{},
		done:        map[KeyName]*Copy{},
		due:         map[KeyName]time.Time{},
	}
}

// Want says what there should be of a name; nil: nothing.
func (k *Keys) Want(name KeyName, c *Copy) {
	k.mu.Lock()
	k.wants[name] = c
	k.mu.Unlock()
	k.queue.Forget(name)
	k.queue.Add(name)
}

// Again has a copy made again, if it is wanted: it may be gone.
func (k *Keys) Again(name KeyName) {
	k.mu.Lock()
	delete(k.done, name)
	wanted := k.wants[name] != nil
	k.mu.Unlock()
	if wanted {
		k.queue.Add(name)
	}
}

// Sweep deletes in a namespace what has our mark and is not wanted. All that is wanted
// there must have been told.
func (k *Keys) Sweep(namespace string) { k.queue.Add(KeyName{Namespace: namespace}) }

// Run works until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for k.gate.Pass(ctx) {
				name, end := k.queue.Get()
				if end {
					return
				}
				k.do(ctx, name)
				k.queue.Done(name)
			}
		})
	}
	<-ctx.Done()
	k.queue.ShutDown()
	all.Wait()
}

func (k *Keys) do(ctx context.Context, name KeyName) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	again := k.again(name)
	became, err := k.sync(call, name)
	if made, why := k.Namespaces.make(ctx, name.Namespace, k.spaceOf(name), err); made {
		became, err = k.sync(call, name)
	} else {
		err = why
	}
	if ctx.Err() != nil {
		return
	}
	k.gate.Came(err)
	if again {
		k.remade(name, err)
		return
	}
	if err == nil {
		k.queue.Forget(name)
		if became != "" {
			k.say(name, became, "")
		}
		return
	}
	if became = Failing; refusal(err) {
		became = Refused
	}
	if k.queue.NumRequeues(name) == 0 {
		k.Log.Warn("syncer: a key is not written, trying again", "namespace", name.Namespace, "name", name.Name, "reason", string(apierrors.ReasonForError(err)))
	}
	if name.Name != "" {
		k.say(name, became, word(err))
	}
	k.queue.AddRateLimited(name)
}

// spaceOf is whose the namespace of a copy is.
func (k *Keys) spaceOf(name KeyName) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.wants[name]; c != nil {
		return spaceOf(c.Workspace, c.Namespace)
	}
	return ""
}

func (k *Keys) say(name KeyName, became Reason, detail string) {
	k.tells.Lock()
	defer k.tells.Unlock()
	k.Report(name, became, detail)
}

// word is the API's own word for an error.
func word(err error) string {
	switch r := apierrors.ReasonForError(err); r {
	case metav1.StatusReasonUnknown:
		return "no answer"
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonNotFound, metav1.StatusReasonUnauthorized, metav1.StatusReasonTimeout,
		metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonBadRequest:
		return string(r)
	}
	return "another error"
}

func (k *Keys) sync(ctx context.Context, name KeyName) (Reason, error) {
	in := k.Client.Resource(secrets).Namespace(name.Namespace)
	if name.Name == "" {
		return "", k.sweep(ctx, name.Namespace)
	}
	k.mu.Lock()
	c, told := k.wants[name]
	made := c != nil && k.done[name] == c && time.Now().Before(k.due[name])
	k.mu.Unlock()
	switch {
	case !told || made:
		return "", nil
	case c == nil:
		err := in.Delete(ctx, name.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.wants[name] != nil {
			return "", nil // it is in the queue again
		}
		delete(k.wants, name)
		delete(k.done, name)
		delete(k.due, name)
		return Gone, nil
	}
	_, err := in.Create(ctx, k.object(name, c), metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wants[name] != c {
		return "", nil
	}
	k.done[name] = c
	k.rest(name)
	return Applied, nil
}

// rest has a copy that is there made again after a while, each at another time: a member
// that was restored may have lost it, and nobody can see that who may not read it. If it is
// there the API says so, and nothing is changed. The caller has the lock.
func (k *Keys) rest(name KeyName) {
	after := relist + rand.N(relist/4)
	k.due[name] = time.Now().Add(after)
	k.queue.AddAfter(name, after)
}

// again reports whether a copy that was there is made again.
func (k *Keys) again(name KeyName) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.wants[name]
	return c != nil && k.done[name] == c
}

// remade goes on after a copy was made again. An error says nothing of whether it is there:
// a quota that is full refuses what is there, too. So it is tried again later.
func (k *Keys) remade(name KeyName, err error) {
	k.queue.Forget(name)
	if err == nil {
		return
	}
	k.Log.Debug("syncer: a key is not made again, trying later", "namespace", name.Namespace, "name", name.Name, "reason", string(apierrors.ReasonForError(err)))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wants[name] != nil {
		k.rest(name)
	}
}

// object is the Secret of a copy.
func (k *Keys) object(name KeyName, c *Copy) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": string(corev1.SecretTypeTLS), "immutable": true,
		"data": map[string]any{
			corev1.TLSCertKey:       base64.StdEncoding.EncodeToString(c.Chain),
			corev1.TLSPrivateKeyKey: base64.StdEncoding.EncodeToString(c.Key),
		},
	}}
	o.SetNamespace(name.Namespace)
	o.SetName(name.Name)
	labels := map[string]string{v1alpha1.LabelHub: k.Hub, v1alpha1.LabelKey: c.Label}
	if c.RootUID != "" {
		labels[v1alpha1.LabelRootUID] = string(c.RootUID)
	}
	o.SetLabels(labels)
	return o
}

// mostSwept is how many copies a namespace may have that is swept: they are in the
// request, and servers bound its length.
const mostSwept = 256

// sweep asks for all that has our mark and is not wanted to be deleted. The label, and not
// our memory, tells what it is.
func (k *Keys) sweep(ctx context.Context, namespace string) error {
	var kept []string
	k.mu.Lock()
	for name, c := range k.wants {
		if name.Namespace == namespace && c != nil {
			kept = append(kept, c.Label)
		}
	}
	k.mu.Unlock()
	if len(kept) > mostSwept {
		return nil
	}
	slices.Sort(kept)
	selector := ofHub(k.Hub)
	if len(kept) > 0 {
		selector += fmt.Sprintf(",%s notin (%s)", v1alpha1.LabelKey, strings.Join(kept, ","))
	}
	err := k.Client.Resource(secrets).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector})
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, c := range k.wants {
		if _, spared := slices.BinarySearch(kept, labelOf(c)); name.Namespace == namespace && c != nil && !spared {
			delete(k.done, name) // it may have been made in between, and be gone
			k.queue.Add(name)
		}
	}
	return err
}

// ofHub selects all copies of a hub's Secrets.
func ofHub(hub string) string { return v1alpha1.LabelHub + "=" + hub + "," + v1alpha1.LabelKey }

// SweepKeys deletes all copies of a hub's Secrets in some namespaces of a member, and
// returns in how many it could not, and the API's word for the first reason.
func SweepKeys(ctx context.Context, client dynamic.Interface, hub string, namespaces []string) (left int, why string) {
	for _, in := range namespaces {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := client.Resource(secrets).Namespace(in).DeleteCollection(call, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ofHub(hub)})
		cancel()
		if err == nil {
			continue
		}
		if left++; why == "" {
			why = word(err)
		}
	}
	return left, why
}

func labelOf(c *Copy) string {
	if c == nil {
		return ""
	}
	return c.Label
}
