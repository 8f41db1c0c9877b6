// Package fanout plays many proxies at once: each has a connection of its own,
// follows all of its view as an Envoy does, or as a node some assignments,
// acknowledges everything and keeps nothing. It counts what comes. It is for "make bench" and decides nothing.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spillway-dev/spillway/internal/xds"
)

// Options say which proxies there are.
type Options struct {
	Socket  string   // unix socket of the control plane
	Edge    string   // of all of them
	Count   int      // how many
	First   int      // number of the first; no two of an edge have the same
	Secrets []string // followed by name: an Envoy would learn these from its listeners
	// Pools are the assignments that a node follows, and all that it does. Nil:
	// each proxy follows all of its view.
	Pools func(node int) []string
	// Seen is called for each ClusterLoadAssignment of this name that comes, if
	// it is not nil. It must be fast. Upserts leaves them out.
	Name string
	Seen func()
	// Resource is told of each resource that comes, with its bytes in the response, and
	// with 0 of each that goes, if it is not nil. Several proxies call it at a time.
	Resource func(t xds.TypeURL, name string, bytes int)
}

// Proxies are connected. Their counts are of all of them together.
type Proxies struct {
	proxies   []*proxy
	upserts   map[xds.TypeURL]*count
	removed   map[xds.TypeURL]*count
	bytes     atomic.Int64
	responses atomic.Int64
}

// Dial connects all, one after the other.
func Dial(ctx context.Context, o Options) (*Proxies, error) {
	p := &Proxies{upserts: map[xds.TypeURL]*count{}, removed: map[xds.TypeURL]*count{}}
	for _, t := range xds.Types {
		p.upserts[t], p.removed[t] = newCount(), newCount()
	}
	for i := range o.Count {
		one, err := dial(ctx, o, o.First+i, p.add)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.proxies = append(p.proxies, one)
	}
	return p, nil
}

// Close ends all connections. It returns why the first of those ended that
// did so before, if any did.
func (p *Proxies) Close() error {
	var first error
	for _, one := range p.proxies {
		if err := one.close(); first == nil {
			first = err
		}
	}
	return first
}

// Health has each proxy open a stream of health discovery on its connection, as
// Envoys do, and waits until all are told what to probe. They end with ctx.
func (p *Proxies) Health(ctx context.Context) error {
	for _, one := range p.proxies {
		if err := one.health(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Upserts is how many resources of a type came.
func (p *Proxies) Upserts(t xds.TypeURL) int64 { return p.upserts[t].n.Load() }

// Removed is how many removals of a type came.
func (p *Proxies) Removed(t xds.TypeURL) int64 { return p.removed[t].n.Load() }

// Bytes is how many bytes of responses came.
func (p *Proxies) Bytes() int64 { return p.bytes.Load() }

// Responses is how many responses came.
func (p *Proxies) Responses() int64 { return p.responses.Load() }

// AwaitUpserts waits until at least n resources of a type have come.
func (p *Proxies) AwaitUpserts(ctx context.Context, t xds.TypeURL, n int64) error {
	return p.upserts[t].await(ctx, t, n)
}

// AwaitRemoved waits until at least n removals of a type have come.
func (p *Proxies) AwaitRemoved(ctx context.Context, t xds.TypeURL, n int64) error {
	return p.removed[t].await(ctx, t, n)
}

func (p *Proxies) add(s *seen) {
	p.bytes.Add(int64(s.bytes))
	p.responses.Add(1)
	t := xds.TypeURL(s.typ)
	if c := p.upserts[t]; c != nil && s.resources > s.hits {
		c.add(s.resources - s.hits)
	}
	if c := p.removed[t]; c != nil && s.removed > 0 {
		c.add(s.removed)
	}
}

// count is a number that one goroutine may wait for.
type count struct {
	n, want atomic.Int64
	reached chan struct{}
}

func newCount() *count { return &count{reached: make(chan struct{}, 1)} }

func (c *count) add(n int) {
	if c.n.Add(int64(n)) < c.want.Load() {
		return
	}
	select {
	case c.reached <- struct{}{}:
	default:
	}
}

func (c *count) await(ctx context.Context, t xds.TypeURL, n int64) error {
	c.want.Store(n)
	for c.n.Load() < n {
		select {
		case <-c.reached:
		case <-ctx.Done():
			return fmt.Errorf("fanout: %d of %d resources of %s came: %w", c.n.Load(), n, t, ctx.Err())
		}
	}
	return nil
}
