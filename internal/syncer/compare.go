package syncer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// differences are the fields of a wish that an object does not have as wished,
// by path, with what is there instead.
type differences map[string]string

// What there is instead, where it is no value.
const (
	absent  = "absent"   // nothing
	notOurs = "not ours" // the value wished, which somebody else has set
)

// lacks compares an object with a wish. Fields that are not wished are others'.
// In a list of which we are the only owner, others' fields can't be told from
// defaults; who changed such a list owns it now, and so it is found.
func lacks(body, have *unstructured.Unstructured) differences {
	d := differences{}
	own := ownership(have)
	for name, want := range body.Object {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			h, _ := have.Object[name].(map[string]any)
			for _, part := range []string{"labels", "annotations"} {
				d.field(".metadata", part, want.(map[string]any)[part], h, below(own, name))
			}
		default:
			d.field("", name, want, have.Object, own)
		}
	}
	return d
}

// field compares a field of a map. own is what we own of the map; nil: all of it.
func (d differences) field(path, name string, want any, in map[string]any, own map[string]any) {
	path += "." + name
	have, there := in[name]
	switch mine := own == nil || own["f:"+name] != nil; {
	case want == nil:
	case !there:
		d[path] = absent
	case !mine:
		d[path] = notOurs
	default:
		d.value(path, want, have, below(own, name))
	}
}

func (d differences) value(path string, want, have any, own map[string]any) {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			d[path] = digest(have)
			return
		}
		for name, v := range w {
			d.field(path, name, v, h, own)
		}
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			d[path] = digest(have)
			return
		}
		for i := range w {
			d.value(fmt.Sprintf("%s[%d]", path, i), w[i], h[i], nil)
		}
	default:
		if !sameScalar(want, have) {
			d[path] = digest(have)
		}
	}
}

// sameScalar compares numbers as numbers.
func sameScalar(a, b any) bool {
	_, whole1 := a.(int64)
	_, whole2 := b.(int64)
	if a == b || whole1 && whole2 { // floats are no measure for large ones
		return a == b
	}
	x, ok1 := number(a)
	y, ok2 := number(b)
	return ok1 && ok2 && x == y
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// digest stands for a value: it may be a secret.
func digest(v any) string {
	h, err := hashOf(v)
	if err != nil {
		return "unreadable"
	}
	return h
}

// ownership is which fields are ours by server-side apply, as the API server
// writes it. It is never nil: an object without has nothing of ours.
func ownership(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for _, e := range o.GetManagedFields() {
		if !applied(e) || e.FieldsV1 == nil {
			continue
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &out) == nil {
			return out
		}
	}
	return out
}

// applied reports whether an entry is what we own.
func applied(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == v1alpha1.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// below is what we own below a field; nil: all of it.
func below(own map[string]any, name string) map[string]any {
	field, some := own["f:"+name].(map[string]any)
	switch {
	case own == nil, some && len(field) == 0:
		return nil
	case !some:
		return map[string]any{}
	}
	return field
}

func (d differences) equal(o differences) bool { return maps.Equal(d, o) }

// split says which fields are missing, and which are otherwise.
func (d differences) split() (dropped, altered []string) {
	for _, path := range slices.Sorted(maps.Keys(d)) {
		switch {
		case d[path] == absent && len(dropped) < maxPaths:
			dropped = append(dropped, path)
		case d[path] != absent && len(altered) < maxPaths:
			altered = append(altered, path)
		}
	}
	return dropped, altered
}

// changed are the fields in which two versions of an object differ, but for what
// the server keeps about it.
func changed(from, to *unstructured.Unstructured) []string {
	d := differences{}
	d.between("", content(from), content(to))
	paths := slices.Sorted(maps.Keys(d))
	return paths[:min(len(paths), maxPaths)]
}

func content(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	delete(out, "status")
	out["metadata"] = map[string]any{"labels": textsOf(o.GetLabels()), "annotations": textsOf(o.GetAnnotations())}
	return out
}

// textsOf leaves our marks out.
func textsOf(m map[string]string) map[string]any {
	out := map[string]any{}
	for name, v := range m {
		switch name {
		case v1alpha1.LabelHub, v1alpha1.LabelRootUID, v1alpha1.AnnotationRoot, v1alpha1.AnnotationApplied:
		default:
			out[name] = v
		}
	}
	return out
}

func (d differences) between(path string, from, to any) {
	a, ok1 := from.(map[string]any)
	b, ok2 := to.(map[string]any)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(from, to) {
			d[path] = ""
		}
		return
	}
	for name := range a {
		d.between(path+"."+name, a[name], b[name])
	}
	for name := range b {
		if _, both := a[name]; !both {
			d[path+"."+name] = ""
		}
	}
}

// kept is a wish without the fields that are not there.
func kept(want, have any) any {
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		out := make(map[string]any, len(w))
		for name, v := range w {
			if there, ok := h[name]; ok {
				out[name] = kept(v, there)
			}
		}
		return out
	case []any:
		h, _ := have.([]any)
		if len(h) != len(w) {
			return want
		}
		out := make([]any, len(w))
		for i := range w {
			out[i] = kept(w[i], h[i])
		}
		return out
	}
	return want
}

// convert copies JSON; numbers become int64 where they can.
func convert(from any, to *map[string]any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(data, to)
}
