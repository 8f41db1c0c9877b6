package cluster

import (
	"maps"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/work"
)

// leafy are the classes that controllers of members serve. Of Ingresses that may be of
// one of these all is kept, since leaves are made of them; and of no others.
type leafy struct{ classes atomic.Pointer[LeafyClasses] }

// LeafyClasses are such classes, and whether each says that it is the default.
type LeafyClasses map[model.Class]bool

// some reports whether there are any.
func (l *leafy) some() bool {
	all := l.classes.Load()
	return all != nil && len(*all) > 0
}

// has reports whether an Ingress, given what it gives, may be of one.
func (l *leafy) has(facts []fact) bool {
	if !l.some() {
		return false
	}
	all := l.classes.Load()
	r, ok := facts[0].(row[model.Object, model.Root])
	if !ok {
		return false
	}
	if r.v.Classes == "" {
		for _, byDefault := range *all {
			if byDefault {
				return true
			}
		}
	}
	_, is := (*all)[model.Class(r.v.Classes)] // an Ingress names one
	return is
}

// set reports whether they are others than before.
func (l *leafy) set(now LeafyClasses) bool {
	was := l.classes.Swap(&now)
	return was == nil && len(now) > 0 || was != nil && !maps.Equal(*was, now)
}

// leafyOf are those of a checkpoint.
func leafyOf(past Past, in *fleet.Inputs) LeafyClasses {
	out, configs := LeafyClasses{}, values(past, in.Configs)
	for _, r := range rows(past, in.Classes) {
		if configs[r.v.Config].Leaf != nil {
			out[r.k] = r.v.Default
		}
	}
	return out
}

// Leafy says which classes controllers of members serve. If they are others than before,
// all Ingresses are read again, and all Routes of OpenShift.
func (h *Hub) Leafy(classes LeafyClasses) {
	if h.leafy.set(classes) {
		h.source("ingresses").again()
		h.source(routesPlural).again()
	}
}

// UID is which cluster the hub is that the rows are from: the UID of its kube-system;
// empty: it is not known.
func (h *Hub) UID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.uid
}

// Attendant is told of connections to members. It must not call back.
type Attendant interface {
	// Engaged: a connection begins; one before it ends.
	Engaged(m model.Member, way *Way)
	// Ended: it is used no more.
	Ended(m model.Member)
	// Left: the member is none any more.
	Left(m model.Member)
}

// nobody attends.
type nobody struct{}

func (nobody) Engaged(model.Member, *Way) {}
func (nobody) Ended(model.Member)         {}
func (nobody) Left(model.Member)          {}

// Attend has somebody be told of connections. Call it before any begins.
func (f *Members) Attend(a Attendant) { f.attendant = a }

// Way is how the API of a member is reached: over the connection by which it is read.
type Way struct{ api *api }

// Dial is a way over a connection of its own, until HangUp.
func Dial(config *rest.Config) (*Way, error) {
	a, err := dial(config, newSpeed(func() {}))
	return &Way{a}, err
}

// HangUp ends connections that are not in use.
func (w *Way) HangUp() { w.api.close() }

// Writer is a client that writes to the member. What is read of the answers is bounded.
func (w *Way) Writer() (dynamic.Interface, error) {
	c := rest.CopyConfig(w.api.config)
	c.QPS = -1 // who writes has a few workers
	return work.NewClientOver(c, &http.Client{Transport: unframed{w.api.client.Transport.(bounded)}})
}
