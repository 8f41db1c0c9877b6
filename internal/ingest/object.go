package ingest

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/internal/model"
)

// annotationWorkspace is where kcp says which logical cluster an object is in.
const annotationWorkspace = "kcp.io/cluster"

// Workspace is that of an object of the hub.
func Workspace(o metav1.Object) model.Workspace {
	return model.Workspace(o.GetAnnotations()[annotationWorkspace])
}

// object names an object of the hub.
func object(kind string, o metav1.Object) model.Object {
	return model.Object{Workspace: string(Workspace(o)), Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
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

// report collects the findings of one object: what is left out of its rows, or
// stands there with a default.
type report struct{ model.Collector }

func reportOf(o model.Object) report { return report{model.Collector{Object: o}} }

func (r *report) invalid(field model.Field, format string, args ...any) {
	r.Error(field, model.ReasonInvalid, format, args...)
}

func (r *report) unsupported(field model.Field, format string, args ...any) {
	r.Error(field, model.ReasonUnsupported, format, args...)
}

// because makes one sentence of what a validation of the API machinery says.
func because(problems []string) string {
	out := make([]string, len(problems))
	for i, p := range problems {
		out[i], _, _ = strings.Cut(p, " (e.g.") // the regular expression helps nobody
	}
	return strings.Join(out, "; ")
}
