package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/leaf"
)

var placements = v1alpha1.GroupVersion.WithResource("placements")

// edit is one that not all members have.
type edit struct {
	v1alpha1.PlacementEdit `json:",inline"`
	Placement              string   `json:"placement"` // NAMESPACE/NAME
	Choices                []string `json:"choices"`   // of its owner
}

func (e *edit) object() string { return fmt.Sprintf("%s %s/%s", e.Kind, e.Namespace, e.Name) }

// object is the one that the command is about.
func (r *rolls) object() string {
	return fmt.Sprintf("%s %s/%s", r.of.kind, r.namespace, r.of.name)
}

// edits are those of all objects that the command is about, the stopped ones first, as
// statuses of Placements have them. full names the Placements that list no more. A route
// may go by the Placement of a Gateway of another namespace; who may not read that is
// told so.
func (r *rolls) edits(ctx context.Context) (out []edit, full []string, err error) {
	list, err := r.listed(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, errors.New("the hub has no Placements: install our CRDs there")
	case err != nil:
		return nil, nil, fmt.Errorf("hub: %w", err)
	}
	out = []edit{}
	for i := range list.Items {
		var p v1alpha1.Placement
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &p); err != nil {
			return nil, nil, fmt.Errorf("status of Placement %s/%s: %w", list.Items[i].GetNamespace(), list.Items[i].GetName(), err)
		}
		at := p.Namespace + "/" + p.Name
		if len(p.Status.Edits) >= v1alpha1.MaxPlacementEdits {
			full = append(full, at)
		}
		for _, e := range p.Status.Edits {
			if (r.namespace == "" || e.Namespace == r.namespace) && (r.of == nil || e.Kind == r.of.kind && e.Name == r.of.name) {
				one := edit{PlacementEdit: e, Placement: at}
				one.Choices = one.choices()
				out = append(out, one)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b edit) int {
		return cmp.Or(slices.Index(leaf.Standings, a.Reason)-slices.Index(leaf.Standings, b.Reason), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out, full, nil
}

// listed are the Placements of all namespaces, or of the one where no others may be read.
func (r *rolls) listed(ctx context.Context) (*unstructured.UnstructuredList, error) {
	if !r.narrow {
		list, err := r.hub.Resource(placements).List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) || r.namespace == "" {
			return list, err
		}
		r.narrow = true
		fmt.Fprintf(r.errs, "only Placements of namespace %s are looked at: you may not list others, by which routes of their Gateways may go\n", printable(r.namespace))
	}
	return r.hub.Resource(placements).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
}

// choices are what the owner may do.
func (e *edit) choices() []string {
	command := func(verb string) string {
		return fmt.Sprintf("spillway rollout %s %s %s -n %s", verb, e.Kind, e.Name, e.Namespace)
	}
	switch out := []string{}; e.Reason {
	case v1alpha1.ReasonStopped:
		out = append(out, "edit it anew", command("resume"))
		if e.Returnable {
			out = append(out, command("back"))
		}
		return out
	case v1alpha1.ReasonBack:
		return append(out, "edit it anew", command("resume"))
	default:
		return out
	}
}

var edits = kindOf("edits", "what not all members have",
	text("OBJECT", func(e edit) string { return e.object() }),
	text("EDIT", func(e edit) string { return e.Token }),
	text("STATE", func(e edit) string { return e.Reason }),
	text("WAVE", func(e edit) string { return fmt.Sprintf("%d of %d", e.Wave, e.Waves) }),
	text("MEMBERS", func(e edit) string { return fmt.Sprintf("%d of %d", e.Having, e.Members) }),
	text("PLACEMENT", func(e edit) string { return e.Placement }),
	text("MESSAGE", func(e edit) string { return dash(e.Message) }),
)

// status shows how edits stand.
func (r *rolls) status(ctx context.Context) error {
	if r.of != nil {
		if _, err := r.root(ctx); err != nil {
			return err
		}
	}
	list, full, err := r.edits(ctx)
	if err != nil {
		return err
	}
	if len(full) > 0 {
		fmt.Fprintf(r.errs, "there may be more: Placements list the first %d edits, and %s so many\n", v1alpha1.MaxPlacementEdits, printable(has(full)))
	}
	if r.format != "table" {
		return r.encode(list)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	cells, err := edits.cells(body, time.Time{})
	if err != nil {
		return err
	}
	if err := table(r.out, edits.heads, cells, false); err != nil {
		return err
	}
	for i := range list {
		if len(list[i].Choices) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(r.out, "\nof %s:\n  %s\n", printable(list[i].object()), strings.Join(each(list[i].Choices, printable), "\n  ")); err != nil {
			return err
		}
	}
	return nil
}

func has(names []string) string {
	if len(names) == 1 {
		return names[0] + " has"
	}
	return joined(names) + " have"
}

func (r *rolls) encode(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return encode(r.out, r.format, body)
}

// root reads the object.
func (r *rolls) root(ctx context.Context) (*unstructured.Unstructured, error) {
	o, err := r.hub.Resource(r.of.resource).Namespace(r.namespace).Get(ctx, r.of.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s on the hub", r.object())
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return o, nil
}

// find is the edit of the object; nil: none is on its way.
func (r *rolls) find(ctx context.Context) (e *edit, full []string, err error) {
	list, full, err := r.edits(ctx)
	if err != nil || len(list) == 0 {
		return nil, full, err
	}
	return &list[0], full, nil
}

// answer is what came of a word about an edit.
type answer struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Word      string `json:"word"`           // of the annotation
	Taken     bool   `json:"taken"`          // serve has done it
	Edit      *edit  `json:"edit,omitempty"` // how it stands since; left out: all members have what the object says
}

// say tells how the edit of the object goes on. The object is read first: what is edited
// since is not what the owner looked at.
func (r *rolls) say(ctx context.Context, verb string) error {
	o, err := r.root(ctx)
	if err != nil {
		return err
	}
	e, full, err := r.find(ctx)
	if err != nil {
		return err
	}
	if err := r.refuse(verb, e, full); err != nil {
		return err
	}
	a := answer{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, Word: verb + "=" + e.Token, Edit: e}
	if err := r.annotate(ctx, o, a.Word); err != nil {
		return err
	}
	if r.limit > 0 {
		if err := r.taken(ctx, verb, &a, e.Token); err != nil {
			return err
		}
	}
	if r.format != "table" {
		return r.encode(a)
	}
	_, err = fmt.Fprintln(r.out, printable(a.text(r.object(), verb, e.Token)))
	return err
}

// refuse says why an edit does not go on so; nil: it does. What is not stopped needs its
// token.
func (r *rolls) refuse(verb string, e *edit, full []string) error {
	switch object := r.object(); {
	case e == nil && len(full) > 0:
		return fmt.Errorf("no edit of %s is known, but there may be one: Placements list the first %d edits, and %s so many. Write the annotation %s by hand, with the token of its events", object, v1alpha1.MaxPlacementEdits, has(full), v1alpha1.AnnotationRollout)
	case e == nil:
		return fmt.Errorf("no edit of %s is on its way: there is nothing to %s", object, deeds[verb].nothing)
	case r.token != "" && r.token != e.Token:
		return fmt.Errorf("the edit of %s is %s now, not %s: look what it is with `spillway rollout status %s %s -n %s`", object, e.Token, r.token, e.Kind, e.Name, e.Namespace)
	case verb == "back" && e.Reason == v1alpha1.ReasonBack:
		return fmt.Errorf("the edit %s of %s is taken back already: edit it anew, or `spillway rollout resume %s %s -n %s`", e.Token, object, e.Kind, e.Name, e.Namespace)
	case verb == "back" && !e.Returnable:
		return fmt.Errorf("nobody knows what members had before the edit %s of %s: edit it anew", e.Token, object)
	case e.Reason == v1alpha1.ReasonInWave && r.token == "":
		return fmt.Errorf("the edit %[1]s of %[2]s is not stopped: it is in wave %[3]d of %[4]d (%[5]s). To %[6]s nonetheless, say --edit %[1]s", e.Token, object, e.Wave, e.Waves, dash(e.Message), deeds[verb].nonetheless)
	}
	return nil
}

// deeds are what the words of an owner ask for, where there is nothing to do it with, and
// where it is not needed.
var deeds = map[string]struct{ nothing, nonetheless string }{
	"resume": {"resume", "have it go on without that"},
	"back":   {"take back", "take it back"},
}

// annotate writes the word of the owner, unless the object is another one than was read.
func (r *rolls) annotate(ctx context.Context, o *unstructured.Unstructured, word string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "annotations": map[string]string{v1alpha1.AnnotationRollout: word},
	}})
	if err != nil {
		return err
	}
	_, err = r.hub.Resource(r.of.resource).Namespace(r.namespace).Patch(ctx, r.of.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "spillway-rollout"})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%s was changed just now, and nothing was done: look at it, and try again: %w", r.object(), err)
	case err != nil:
		return fmt.Errorf("annotation %s of %s: %w", v1alpha1.AnnotationRollout, r.object(), err)
	}
	return nil
}

// taken waits until serve has done what was said: then the edit has another token, or is
// back, or is no more.
func (r *rolls) taken(ctx context.Context, verb string, a *answer, token string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("the annotation %s: %s is written, but serve has not taken it up after %s: is one running?", v1alpha1.AnnotationRollout, a.Word, r.limit))
	defer cancel()
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		e, _, err := r.find(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("the annotation %s: %s is written, but whether serve has taken it up can't be read: %w", v1alpha1.AnnotationRollout, a.Word, err)
		case e == nil || e.Token != token || verb == "back" && e.Reason == v1alpha1.ReasonBack:
			a.Edit, a.Taken = e, true
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// text says what came of it.
func (a *answer) text(object, verb, token string) string {
	switch {
	case !a.Taken:
		return fmt.Sprintf("%s has the annotation %s: %s", object, v1alpha1.AnnotationRollout, a.Word)
	case a.Edit == nil:
		return fmt.Sprintf("no edit of %s is on its way any more", object)
	case verb == "back" && a.Edit.Reason == v1alpha1.ReasonBack:
		return fmt.Sprintf("the edit %s of %s is taken back: members get what was before it", token, object)
	}
	return strings.TrimSuffix(fmt.Sprintf("the edit of %s is %s, %s in wave %d of %d: %s", object, a.Edit.Token, a.Edit.Reason, a.Edit.Wave, a.Edit.Waves, a.Edit.Message), ": ")
}
