package cluster

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The types into which objects are decoded are of one version of each kind. What leaves
// are made of keeps the fields that came later: so an object comes with the JSON that it
// was decoded from, for as long as it takes to read it. Nobody else looks at that.

// accessor has another name than the interface of the library, beside which it is embedded.
type accessor = metav1.Object

// written is an object with its JSON.
type written struct {
	runtime.Object
	accessor
	text []byte
}

// asWritten is an object, and its JSON; nil: that is not known.
func asWritten(o metav1.Object) (metav1.Object, []byte) {
	if w, ok := o.(*written); ok {
		return w.accessor, w.text
	}
	return o, nil
}

// fromText reads objects with their JSON. It lies in the data of the event, which is each
// event's own.
type fromText struct{ runtime.Serializer }

func (s fromText) Decode(data []byte, gvk *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	o, kind, err := s.Serializer.Decode(data, gvk, into)
	if m, ok := o.(metav1.Object); ok && err == nil && into == nil {
		return &written{o, m, data}, kind, nil
	}
	return o, kind, err
}

// writtenList is a list of objects with their JSON, from a server that can't stream it.
type writtenList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*written
	fresh func() metav1.Object
}

// UnmarshalJSON reads the list.
func (l *writtenList) UnmarshalJSON(data []byte) error {
	var all struct {
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := utiljson.Unmarshal(data, &all); err != nil {
		return err
	}
	l.ListMeta, l.Items = all.ListMeta, make([]*written, len(all.Items))
	for i, text := range all.Items {
		o := l.fresh()
		if err := utiljson.Unmarshal(text, o); err != nil {
			return err
		}
		l.Items[i] = &written{o.(runtime.Object), o, text}
	}
	return nil
}

// DeepCopyObject is not one: nobody writes to a list that was read.
func (l *writtenList) DeepCopyObject() runtime.Object { return l }

// listing makes lists of a kind whose objects come with their JSON while that is asked for.
func listing(asked func() bool, fresh func() metav1.Object, plain func() runtime.Object) func() runtime.Object {
	return func() runtime.Object {
		if asked() {
			return &writtenList{fresh: fresh}
		}
		return plain()
	}
}
