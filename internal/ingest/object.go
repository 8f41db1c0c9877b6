package ingest

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// annotationWorkspace is where kcp says which logical cluster an object is in.
const annotationWorkspace = "kcp.io/cluster"

// object names an object of the hub.
func object(kind string, o metav1.Object) model.Object {
	return model.Object{Workspace: o.GetAnnotations()[annotationWorkspace], Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// origin is the age and name of an object of the hub.
func origin(kind string, o metav1.Object) model.Origin {
	return model.Origin{Created: created(o), Object: object(kind, o)}
}

func created(o metav1.Object) int64 {
	if t := o.GetCreationTimestamp(); !t.IsZero() {
		return t.Unix()
	}
	return 0
}

// report collects the findings of one object.
type report struct {
	object model.Object
	list   model.Findings
}

func (r *report) add(reason, field, format string, args ...any) {
	r.list = append(r.list, model.Finding{Object: r.object, Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (r *report) invalid(field, format string, args ...any) {
	r.add(model.ReasonInvalid, field, format, args...)
}

func (r *report) unsupported(field, format string, args ...any) {
	r.add(model.ReasonUnsupported, field, format, args...)
}

// findings returns what was collected, sorted, nil if nothing.
func (r *report) findings() model.Findings {
	if len(r.list) == 0 {
		return nil
	}
	return r.list.Sorted()
}

// because makes one sentence of what a validation of the API machinery says.
func because(problems []string) string {
	out := make([]string, len(problems))
	for i, p := range problems {
		out[i], _, _ = strings.Cut(p, " (e.g.") // the regular expression helps nobody
	}
	return strings.Join(out, "; ")
}
