package syncer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// Key names a leaf in the member. All kinds of leaves are namespaced.
type Key struct {
	Resource  schema.GroupVersionResource
	Namespace string
	Name      string
}

// String is for people.
func (k Key) String() string {
	return k.Resource.GroupResource().String() + " " + k.Namespace + "/" + k.Name
}

// Root is the object on the hub that a leaf is of.
type Root struct {
	Kind, Workspace, Namespace, Name string
	UID                              types.UID
}

// Leaf is an object that a member should have.
type Leaf struct {
	// Object is what is wanted: apiVersion, kind, labels, annotations and all
	// but a status. It is copied.
	Object *unstructured.Unstructured
	Root   Root
	// Adopt: the root's owner consents that an object of the name that is
	// nobody's leaf becomes this one.
	Adopt bool
	// Hold: it can't be written yet. What is there stays as it is.
	Hold bool
	// Keep: what is there of ours stays as it is, unless it was this already. The leaf
	// is made where there is none.
	Keep bool
	// Tag is told back when the member has it.
	Tag string
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Resource.String(), o.Resource.String()), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// wish is a leaf as it is applied.
type wish struct {
	text  []byte // JSON of what is applied, with our mark: an object in memory takes several times that
	hash  string // of it
	adopt bool
	keep  bool
	tag   string
	space string // whose its namespace is
}

// wishOf is the wish that a leaf makes. An error is for the leaf's owner.
func wishOf(key Key, l *Leaf, hub string) (*wish, error) {
	if l.Object == nil {
		return nil, fmt.Errorf("leaf %v: there is no object", key)
	}
	if ns, name := l.Object.GetNamespace(), l.Object.GetName(); ns != key.Namespace || name != key.Name {
		return nil, fmt.Errorf("leaf %v: the object is %s/%s", key, ns, name)
	}
	if bad := validation.IsValidLabelValue(string(l.Root.UID)); len(bad) > 0 || l.Root.UID == "" {
		return nil, fmt.Errorf("leaf %v: the UID of its root, %q, can't be a label", key, l.Root.UID)
	}
	var own map[string]any
	if err := convert(l.Object.Object, &own); err != nil {
		return nil, fmt.Errorf("leaf %v: %w", key, err)
	}
	body := &unstructured.Unstructured{Object: own}
	labels, annotations := body.GetLabels(), body.GetAnnotations()
	delete(own, "status")
	own["metadata"] = map[string]any{"namespace": key.Namespace, "name": key.Name}
	body.SetLabels(with(labels, map[string]string{v1alpha1.LabelHub: hub, v1alpha1.LabelRootUID: string(l.Root.UID)}))
	r := l.Root
	marks := map[string]string{v1alpha1.AnnotationRoot: r.Kind + "/" + r.Workspace + "/" + r.Namespace + "/" + r.Name}
	delete(annotations, v1alpha1.AnnotationApplied)
	body.SetAnnotations(with(annotations, marks))
	hash, err := hashOf(own)
	if err != nil {
		return nil, fmt.Errorf("leaf %v: %w", key, err)
	}
	body.SetAnnotations(with(body.GetAnnotations(), map[string]string{v1alpha1.AnnotationApplied: hash}))
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("leaf %v: %w", key, err)
	}
	return &wish{text: text, hash: hash, adopt: l.Adopt, keep: l.Keep, tag: l.Tag, space: spaceOf(r.Workspace, r.Namespace)}, nil
}

// body is what is applied; the caller's.
func (w *wish) body() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(w.text, &out.Object); err != nil {
		panic(fmt.Sprintf("a wish can't be read: %v", err))
	}
	return out
}

func with(have, more map[string]string) map[string]string {
	out := make(map[string]string, len(have)+len(more))
	maps.Copy(out, have)
	maps.Copy(out, more)
	return out
}

// hashOf is the same for equal JSON.
func hashOf(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}

// Reason is what has become of a leaf.
type Reason string

// Reasons.
const (
	// Pending: not known yet.
	Pending Reason = "Pending"
	// Applied: the member has it.
	Applied Reason = "Applied"
	// Older: the member has another version, which is to stay.
	Older Reason = "Older"
	// Foreign: an object of the name is there that has no mark. It is left alone;
	// Diff says what taking it over would change.
	Foreign Reason = "Foreign"
	// OfAnotherHub: an object of the name has the mark of another hub.
	OfAnotherHub Reason = "OfAnotherHub"
	// Refused: the member says no, in Message: a quota, a webhook, a policy, a role.
	Refused Reason = "Refused"
	// Failing: the member's API does not do its work.
	Failing Reason = "Failing"
	// Contested: somebody else keeps changing it; it is put right less and less often.
	Contested Reason = "Contested"
	// Waiting: it should go, with many others, and somebody must consent.
	Waiting Reason = "Waiting"
	// NotServed: the member does not have the kind.
	NotServed Reason = "NotServed"
	// Leaving: it is being deleted, and a finalizer holds it.
	Leaving Reason = "Leaving"
	// Gone: there is none of ours, as is wanted.
	Gone Reason = "Gone"
	// Released: an object may be there, and is not ours any more.
	Released Reason = "Released"
)

// Bounds of what is told.
const (
	maxStatus  = 64 << 10 // bytes of a status
	maxMessage = 1024     // bytes of the member's words
	maxPaths   = 32       // fields that are named
)

// State is what is told of a leaf. What is there is told whatever the reason
// is: an older version may be there while the newest is refused.
type State struct {
	Reason  Reason
	Message string   // more about the reason; may quote the object
	Diff    []string // Foreign: fields that taking it over would change
	Dropped []string // fields that the member does not have; its definition of the kind lacks them
	Altered []string // fields that the member sets otherwise, by a webhook or because it writes them so

	Tag        string    // Applied, Contested: of the leaf that the member has
	Unknown    bool      // what is there is not known: the kind was not listed yet
	UID        types.UID // of what is there; empty: nothing of ours
	Generation int64
	Status     json.RawMessage   // as it is there; nil: none, or Oversized
	Oversized  bool              // the status is longer than is read
	Claimed    []model.LeafClaim // objects that are not ours and ask for its hosts, one for each, by host
	Unclear    bool              // whether there are such is not known
}

func (a State) equal(b State) bool { return reflect.DeepEqual(a, b) }

// clip shortens the member's words, whole characters only.
func clip(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage-len("…")], "") + "…"
}

// seen is what is kept of an object of ours in the member.
type seen struct {
	uid        types.UID
	generation int64
	status     json.RawMessage
	oversized  bool
	leaving    bool
	class      string   // that it has there
	at         []string // its addresses there, of an Ingress
}

// size is what a status costs.
func (s *seen) size() int {
	if s == nil {
		return 0
	}
	return len(s.status)
}

func seenOf(o *unstructured.Unstructured, room int) *seen {
	s := &seen{uid: o.GetUID(), generation: o.GetGeneration(), leaving: o.GetDeletionTimestamp() != nil}
	status, there := o.Object["status"]
	if !there {
		return s
	}
	data, err := json.Marshal(status)
	if err == nil && len(data) <= min(maxStatus, room) {
		s.status = data
	} else {
		s.oversized = true
	}
	return s
}

// owner says whose an object is.
type owner uint8

const (
	nobody  owner = iota // it is not there
	ours                 // it has our mark
	another              // it has the mark of another hub
	foreign              // it has no mark
)

func ownerOf(o *unstructured.Unstructured, hub string) owner {
	if o == nil {
		return nobody
	}
	switch o.GetLabels()[v1alpha1.LabelHub] {
	case hub:
		return ours
	case "":
		return foreign
	}
	return another
}
