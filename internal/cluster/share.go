package cluster

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// share is what a reflector writes into: a store, or the part of one that its source reads.
// Objects of other namespaces, whoever sent them there, are not taken.
type share struct {
	*store
	part string      // the namespace; empty: all
	over func(error) // told of a limit that was met; what met it was not taken. It may be nil.
}

// all is the share of a source that reads all namespaces.
func (s *store) all() share { return share{store: s} }

var (
	_ cache.ReflectorStore         = share{}
	_ cache.TransformingStore      = share{}
	_ cache.ResourceVersionUpdater = share{}
)

// met tells of a limit.
func (p share) met(err error) {
	if p.over != nil && limitOf(err) != nil {
		p.over(err)
	}
}

// Transformer makes the reflector keep a first list in compact form.
func (p share) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return p.digest(o) }
}

func (p share) digest(o any) (*seen, error) {
	switch o := o.(type) {
	case *seen:
		return o, nil
	case metav1.Object:
		d, err := p.take(o, p.part, true)
		p.met(err)
		return d, err
	}
	return nil, fmt.Errorf("the API server sent a %T", o)
}

// Add takes an object that is new or changed.
func (p share) Add(o any) error {
	d, err := p.digest(o)
	if err == nil && within(p.part, d.n.namespace) {
		p.met(p.add(d))
	}
	return err
}

// Update is Add.
func (p share) Update(o any) error { return p.Add(o) }

// Delete takes an object that is gone.
func (p share) Delete(o any) error {
	d, err := p.digest(o)
	if err == nil && within(p.part, d.n.namespace) {
		p.delete(d)
	}
	return err
}

// Replace takes a list: what is not in it is gone. One that is over a limit it
// leaves. It fails on nonsense only, and on what was not streamed: the reflector
// would forget to close its watch.
//
// It is put in the order in which the server sent it, which the reflector loses:
// API servers list in the order of names, so that tables are nearly sorted.
func (p share) Replace(list []any, version string) error {
	objects := make([]*seen, len(list))
	for i, o := range list {
		d, err := p.digest(o)
		if err != nil {
			return err
		}
		objects[i] = d
	}
	if p.spoiled(p.part) {
		return nil
	}
	slices.SortFunc(objects, func(a, b *seen) int { return cmp.Compare(a.number, b.number) })
	p.replaceAll(p.part, objects, version)
	return nil
}

// Resync has nothing to do.
func (p share) Resync() error { return nil }
