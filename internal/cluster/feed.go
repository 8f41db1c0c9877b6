package cluster

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/spillway-dev/spillway/internal/model"
)

// Feed is a hub and its members without API servers: whoever holds it says what
// those would. Objects become rows through the stores that watches write into,
// and what is said of connections is said as a connection says it. It is for
// tests of the whole program in one goroutine.
type Feed struct {
	Hub     *Hub
	Members *Members
}

// NewFeed returns a feed of which nothing is known. Config and Members of the
// options are not used.
func NewFeed(o HubOptions, now func() time.Time) *Feed {
	o.Members = NewMembers(context.Background(), o.Inputs, o.Tables, o.Mailbox, o.Log)
	o.Members.now = now
	h := newHub(o)
	// Secrets with kubeconfigs are left out: nobody is connected to.
	h.sources = append(h.watched(nil, nil, nil), h.optional(nil, nil, nil, nil)...)
	h.sources = slices.DeleteFunc(append(h.sources, h.definition(nil), h.openShiftRoutes(nil)), func(s *source) bool { return s.kubeconfigs })
	for _, s := range h.sources {
		s.store.after = func() { h.listed(s) }
	}
	return &Feed{h, o.Members}
}

// Kinds are the resources of the hub, in plural.
func (f *Feed) Kinds() []string {
	var out []string
	for _, s := range f.Hub.sources {
		out = append(out, s.plural)
	}
	return out
}

// List takes a list of a resource of the hub.
func (f *Feed) List(plural string, objects []metav1.Object) error {
	return list(f.Hub.source(plural).store, objects)
}

// Put takes an object of the hub that is new or changed.
func (f *Feed) Put(plural string, o metav1.Object) error { return f.Hub.source(plural).share().Add(o) }

// Delete takes an object of the hub that is gone.
func (f *Feed) Delete(plural string, o metav1.Object) error {
	return f.Hub.source(plural).share().Delete(o)
}

// ListServices takes a list of a member's Services.
func (f *Feed) ListServices(m model.Member, objects []metav1.Object) error {
	return list(f.Members.at(m).services, objects)
}

// ListSlices takes a list of a member's EndpointSlices.
func (f *Feed) ListSlices(m model.Member, objects []metav1.Object) error {
	return list(f.Members.at(m).slices, objects)
}

// ListExports takes a list of a member's ServiceExports.
func (f *Feed) ListExports(m model.Member, objects []metav1.Object) error {
	return list(f.Members.at(m).exports, objects)
}

// PutIn takes a Service, EndpointSlice or ServiceExport of a member that is new or changed.
func (f *Feed) PutIn(m model.Member, o metav1.Object) error { return f.storeOf(m, o).all().Add(o) }

// DeleteIn takes a Service, EndpointSlice or ServiceExport of a member that is gone.
func (f *Feed) DeleteIn(m model.Member, o metav1.Object) error {
	return f.storeOf(m, o).all().Delete(o)
}

// Tell says how a member's API answers. Connected means that both lists were
// taken and the watches run.
func (f *Feed) Tell(m model.Member, c model.Contact) { f.Members.at(m).tell(c) }

func (f *Feed) storeOf(m model.Member, o metav1.Object) *store {
	switch o.(type) {
	case *corev1.Service:
		return f.Members.at(m).services
	case *mcsv1beta1.ServiceExport:
		return f.Members.at(m).exports
	}
	return f.Members.at(m).slices
}

func (f *Members) at(id model.Member) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.member(id)
}

func list(s *store, objects []metav1.Object) error {
	items := make([]any, len(objects))
	for i, o := range objects {
		items[i] = o
	}
	return s.all().Replace(items, "")
}
