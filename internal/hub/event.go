package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// Events are a courtesy: they must never be what brings a hub down.
const (
	eventQPS   = 10
	eventBurst = 100
	perEvent   = 3    // requests at most: the object, the event, its count
	perObject  = 10   // events at once about one object; the rest is counted in one
	maxNote    = 1000 // bytes; the API allows 1 KiB
)

// ReasonMoreFindings is of the event that counts the findings without one.
const ReasonMoreFindings model.Reason = "MoreFindings"

// news is what was and should be told about an object. It belongs to the
// object's one piece of work, except now.
type news struct {
	now  model.Findings
	told map[model.Finding]int // times it appeared; negative: it is gone now
}

// tell makes an event of each finding that was not there before.
func (w *Writer) tell(ctx context.Context, t target) error {
	have, err := t.get(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	n := w.news[t.object]
	if n == nil {
		w.mu.Unlock()
		return nil
	}
	fresh := n.fresh()
	w.mu.Unlock()
	for i, f := range fresh {
		if i == perObject {
			w.metrics.summed.Add(float64(len(fresh) - i))
			f = model.WarningOf(t.object, "", ReasonMoreFindings, "%d more findings: see them with `spillway get findings`", len(fresh)-i)
		}
		if err := w.limit.Wait(ctx); err != nil {
			return err
		}
		if err := w.event(ctx, t.object, have, f, n.times(w, f)); err != nil {
			return err
		}
		if i == perObject {
			w.mark(n, fresh[i:])
			break
		}
		w.mark(n, fresh[i:i+1])
	}
	return nil
}

// maxTold bounds what is remembered about one object.
const maxTold = 256

// fresh are the findings that appeared; those that went are noted.
func (n *news) fresh() model.Findings {
	for f, times := range n.told {
		if times > 0 && !slices.Contains(n.now, f) {
			n.told[f] = -times
		}
	}
	if len(n.told) > maxTold {
		maps.DeleteFunc(n.told, func(_ model.Finding, times int) bool { return times < 0 })
	}
	var out model.Findings
	for _, f := range n.now {
		if n.told[f] <= 0 {
			out = append(out, f)
		}
	}
	return out
}

// times is how often a finding appeared before, in the life of this process.
func (n *news) times(w *Writer, f model.Finding) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return -n.told[f]
}

func (w *Writer) mark(n *news, told model.Findings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range told {
		n.told[f] = 1 - n.told[f]
	}
}

// event writes one event, of type Warning whatever the severity: the types of
// events are Normal, which says that all is well, and Warning. Its name follows
// from what it says, so that a restart of ours does not say it again; one that
// came back is counted.
func (w *Writer) event(ctx context.Context, o model.Object, have *unstructured.Unstructured, f model.Finding, before int) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e := w.newEvent(o, have, f)
	data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	if err != nil {
		return fmt.Errorf("event about %v: %w", o, err)
	}
	r := w.talk.client.Resource(events).Namespace(e.Namespace)
	_, err = r.Create(ctx, &unstructured.Unstructured{Object: data}, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return lost(err)
	}
	if before == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"series": map[string]any{
		"count": before + 1, "lastObservedTime": metav1.NewMicroTime(time.Now()),
	}})
	if err != nil {
		return err
	}
	_, err = r.Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
	return lost(err)
}

// lost forgives what trying again would not mend: the namespace goes away, or
// we may not write events there.
func lost(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (w *Writer) newEvent(o model.Object, have *unstructured.Unstructured, f model.Finding) *eventsv1.Event {
	namespace := o.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	note := f.Text()
	sum := sha256.Sum256([]byte(string(have.GetUID()) + "\x00" + string(f.Reason) + "\x00" + note))
	return &eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clip63(o.Name) + "." + hex.EncodeToString(sum[:8])},
		EventTime:  metav1.NewMicroTime(time.Now()),
		Regarding: corev1.ObjectReference{
			APIVersion: have.GetAPIVersion(), Kind: have.GetKind(), Namespace: o.Namespace, Name: o.Name,
			UID: have.GetUID(), ResourceVersion: have.GetResourceVersion(),
		},
		Reason:              string(f.Reason),
		Note:                clip(note, maxNote),
		Type:                corev1.EventTypeWarning,
		Action:              "Translate",
		ReportingController: "spillway.dev/serve",
		ReportingInstance:   clip63(w.who),
	}
}

// clip63 shortens a name so that it still is one.
func clip63(s string) string {
	for len(s) > 63 || s != "" && (s[len(s)-1] == '-' || s[len(s)-1] == '.') {
		s = s[:min(len(s)-1, 63)]
	}
	return s
}
