package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/model"
)

func init() {
	maps.Copy(promises, map[string]func(*blind) error{
		"new proxies serve what is known":     (*blind).newServes,
		"old proxies serve what is known":     (*blind).oldServes,
		"what can't be dialled holds nothing": (*blind).oldFollows,
		"what DNS remembers is not less":      (*blind).lastTells,
	})
}

// begins tells whether the control plane still waits for its members before it
// says anything. It may not wait long for one that does not answer.
func (b *blind) begins() (wait bool, err error) {
	if b.plane.Published() {
		return false, nil
	}
	if waited := b.now.Sub(b.since); waited > firstListGrace {
		return true, fmt.Errorf("nothing was published %s after the start", waited)
	}
	return true, nil
}

// firstListGrace is how long a start may wait for members.
const firstListGrace = 10 * time.Second

// newServes: a new proxy serves every host that a known healthy member serves,
// by pods that there are.
func (b *blind) newServes() error {
	if wait, err := b.begins(); wait || err != nil {
		return err
	}
	for _, edge := range b.edges() {
		p := newProxy(edge, "new")
		b.proxies[edge+"/new"] = p
		if err := b.settle(); err != nil {
			return err
		}
		for _, host := range b.hosts() {
			got, err := b.served(p, host)
			if err != nil {
				return err
			}
			known := b.known(edge, b.serviceOf(host))
			if len(known) > 0 && len(got.ips) == 0 {
				return fmt.Errorf("a new proxy of %s answers %d for %s, which %v serve", edge, got.status, host, known)
			}
		}
		p.disconnect()
		delete(b.proxies, edge+"/new")
		if err := b.settle(); err != nil {
			return err
		}
	}
	return nil
}

// oldServes: an old proxy serves what a known healthy member serves, hosts that
// are new among them.
func (b *blind) oldServes() error {
	if wait, err := b.begins(); wait || err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.proxies)) {
		p := b.proxies[name]
		if p.away {
			continue
		}
		for _, host := range b.hosts() {
			got, err := b.served(p, host)
			if err != nil {
				return err
			}
			if known := b.known(p.id.Edge, b.serviceOf(host)); len(known) > 0 && len(got.ips) == 0 {
				return fmt.Errorf("old proxy %s answers %d for %s, which %v serve", name, got.status, host, known)
			}
		}
	}
	return nil
}

// oldFollows: what a proxy could not dial anyhow keeps no news from it.
func (b *blind) oldFollows() error {
	if wait, err := b.begins(); wait || err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.proxies)) {
		p := b.proxies[name]
		if p.away || b.dialsUnread(p.id.Edge) {
			continue
		}
		for _, host := range b.hosts() {
			got, err := b.served(p, host)
			if err != nil {
				return err
			}
			known := b.known(p.id.Edge, b.serviceOf(host))
			if stale := less(got.ips, known); len(known) > 0 && len(stale) > 0 {
				return fmt.Errorf("proxy %s, which does not dial %s, still sends %s to %v", name, b.unread, host, stale)
			}
		}
	}
	return nil
}

// lastTells: what is remembered of a host lacks no edge out of ignorance.
func (b *blind) lastTells() error {
	if b.saved {
		return nil
	}
	for _, host := range b.hosts() {
		last, ok := b.plane.Tables().Zones.Last.Get(nil, model.Host(host))
		if !ok {
			continue
		}
		for _, edge := range b.edges() {
			_, unsure := b.standing(host)
			if slices.Contains(unsure, b.addressOf(edge)) && !last.Has(model.Edge(edge)) {
				return fmt.Errorf("%s is remembered to have %v, though nobody knows about %s", host, last, edge)
			}
		}
	}
	return nil
}
