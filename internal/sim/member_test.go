package sim

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// memberAPI is the API of a member: what its cluster has, and how it answers.
type memberAPI struct {
	services, slices, exports apiObjects
	answers                   answering

	// What the control plane that runs was told: what it can know.
	read bool            // all of it was listed, by this process or in its checkpoint
	told apiObjects      // its EndpointSlices, as far as told
	seen map[string]bool // its Services
}

// forget is what a control plane begins with that has no checkpoint.
func (m *memberAPI) forget() { m.read, m.told, m.seen = false, apiObjects{}, map[string]bool{} }

// tell notes that the control plane was told of an object; nil: it is gone.
func (m *memberAPI) tell(o metav1.Object, there bool) {
	name := o.GetNamespace() + "/" + o.GetName()
	switch {
	case isExport(o):
	case isService(o) && there:
		m.seen[name] = true
	case isService(o):
		delete(m.seen, name)
	case there:
		m.told[name] = o
	default:
		delete(m.told, name)
	}
}

// answering is how an API answers.
type answering string

const (
	well     answering = "well"
	notAtAll answering = "not at all"
	inPart   answering = "in part"   // Services are listed; EndpointSlices do not come
	withLies answering = "with lies" // every list is empty
)

func (w *world) member(id model.Member) *memberAPI {
	m := w.members[id]
	if m == nil {
		m = &memberAPI{services: apiObjects{}, slices: apiObjects{}, exports: apiObjects{}, answers: well}
		m.forget()
		w.members[id] = m
	}
	return m
}

// contact has the control plane talk to a member anew: it lists all that it
// can.
func (w *world) contact(id model.Member) error {
	if _, joined := w.hub["memberclusters"]["/"+string(id)]; !joined {
		return nil
	}
	m, feed := w.member(id), w.plane.Feed
	services, slices, exports := m.services.list(), m.slices.list(), m.exports.list()
	switch m.answers {
	case notAtAll:
		feed.Tell(id, model.Contact{Reason: v1alpha1.ReasonUnreachable, Message: "its API does not answer"})
		return nil
	case withLies:
		services, slices, exports = nil, nil, nil
	}
	m.seen = map[string]bool{}
	for _, o := range services {
		m.tell(o, true)
	}
	if err := feed.ListServices(id, services); err != nil || m.answers == inPart {
		return err
	}
	m.read, m.told = true, apiObjects{}
	for _, o := range slices {
		m.tell(o, true)
	}
	if err := errors.Join(feed.ListSlices(id, slices), feed.ListExports(id, exports)); err != nil {
		return err
	}
	feed.Tell(id, model.Contact{Reason: v1alpha1.ReasonConnected})
	return nil
}

// answer changes how the API of a member answers.
func (w *world) answer(id model.Member, how answering) error {
	w.member(id).answers = how
	return w.contact(id)
}

// putIn makes or changes an object of a member. Who watches it sees that.
func (w *world) putIn(id model.Member, o metav1.Object) error {
	m := w.member(id)
	m.of(o)[o.GetNamespace()+"/"+o.GetName()] = o
	if slice, is := o.(*discoveryv1.EndpointSlice); is {
		for _, e := range slice.Endpoints {
			w.owners[e.Addresses[0]] = o.GetNamespace() + "/" + o.GetName() + "@" + string(id)
		}
	}
	if m.watched(o) {
		m.tell(o, true)
		return w.plane.Feed.PutIn(id, o)
	}
	return nil
}

func (w *world) removeIn(id model.Member, o metav1.Object) error {
	m := w.member(id)
	delete(m.of(o), o.GetNamespace()+"/"+o.GetName())
	if m.watched(o) {
		m.tell(o, false)
		return w.plane.Feed.DeleteIn(id, o)
	}
	return nil
}

func (m *memberAPI) of(o metav1.Object) apiObjects {
	switch {
	case isService(o):
		return m.services
	case isExport(o):
		return m.exports
	}
	return m.slices
}

// podsIn are the addresses of the pods of a Service.
func (w *world) podsIn(m *memberAPI, service string) (out []string) {
	slice, ok := m.slices[service].(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	for _, e := range slice.Endpoints {
		out = append(out, e.Addresses...)
	}
	return out
}

func (m *memberAPI) watched(o metav1.Object) bool {
	return m.answers == well || m.answers == inPart && isService(o)
}

func isService(o metav1.Object) bool { _, is := o.(*corev1.Service); return is }

func isExport(o metav1.Object) bool { _, is := o.(*mcsv1beta1.ServiceExport); return is }
