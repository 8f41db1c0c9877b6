package hub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/internal/model"
)

// wish is a status that is wanted, and the work that writes it.
type wish struct {
	job
	want
}

// Seen is told of each object that has a status of ours, as the hub has it. A status that
// is ours alone is put right when somebody else changed it. Where others write, too, it is
// written to an object that was made again: the tables, in which both may be one row, need
// not say so.
func (w *Writer) Seen(o model.Object, have metav1.Object) {
	wishes := w.doubtful(o, have.GetUID())
	if len(wishes) == 0 {
		return
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	for _, x := range wishes {
		if err != nil || !x.says(&unstructured.Unstructured{Object: object}) {
			w.add(x.job) // an old version looks alike: what the hub has is read before it is written
		}
	}
}

// doubtful lists what is wanted of an object and need not be what it says.
func (w *Writer) doubtful(o model.Object, uid types.UID) (out []wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.statuses[o]; ok {
		out = append(out, wish{job{conditions, o}, s})
	}
	shared := func(about what, s want) {
		j := job{about, o}
		if r := w.records[j]; r == nil || r.of != uid {
			out = append(out, wish{j, s})
		}
	}
	if s, ok := w.addresses[o]; ok {
		shared(addresses, s)
	}
	if s, ok := w.parents[o]; ok {
		shared(parents, s)
	}
	if s, ok := w.admissions[o]; ok {
		shared(admitted, s)
	}
	return out
}
