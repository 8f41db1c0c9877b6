package app

import (
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/hub"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/syncer"
)

// A MemberCluster that may have leaves has a finalizer of ours, from before the first is
// written until none is there. So whoever comes next knows that a member has leaves,
// though no class asks for them and no checkpoint tells; and a MemberCluster that is
// deleted waits for them. It never waits for a member that is away: then what is left is
// written down in a MemberTombstone (graves.go).

// guards hold MemberClusters back, and remember: hub.Writer.
type guards interface {
	GuardLeaves(model.Member)
	ReleaseLeaves(model.Member)
	Bury(model.Member, hub.Grave)
	ForgetLeaves(model.Member)
	Unbury(model.TombstoneID)
}

// unguarded guards nothing.
type unguarded struct{}

func (unguarded) GuardLeaves(model.Member)     {}
func (unguarded) ReleaseLeaves(model.Member)   {}
func (unguarded) Bury(model.Member, hub.Grave) {}
func (unguarded) ForgetLeaves(model.Member)    {}
func (unguarded) Unbury(model.TombstoneID)     {}

// ask is what is wanted of the finalizer of a MemberCluster.
type ask uint8

const (
	askNothing ask = iota
	askGuard
	askRelease
	askBury
)

// consents reports whether somebody consents that many leaves of a member go: who deletes
// the MemberCluster does.
func consents(s model.MemberSpec) bool { return s.Prunes || s.Leaving && !s.Orphans }

// guarded reports whether the finalizer is on a MemberCluster.
func (l *leaves) guarded(m model.Member) bool { return l.held[m] }

// needed reports whether a member may have leaves.
func (l *leaves) needed(m model.Member) bool {
	return l.served() || len(l.told[m])+len(l.keys.has[m]) > 0 || l.mourned(m) || l.guarded(m) && !l.cleared[m]
}

// heed has a run do what a MemberCluster says of all leaves.
func (r *leafRun) heed(spec model.MemberSpec) {
	r.mu.Lock()
	r.makes = spec.Makes
	r.mu.Unlock()
	if spec.Leaving && spec.Orphans {
		r.syncer.ReleaseAll()
		return
	}
	r.consent(consents(spec))
}

// mayMake reports whether namespaces that are not there may be made. The syncer calls it.
func (r *leafRun) mayMake() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.makes
}

// counted takes how many leaves there are. The syncer calls it.
func (r *leafRun) counted(c syncer.Count) {
	r.mu.Lock()
	r.count = c
	over := r.over
	r.mu.Unlock()
	if !over {
		r.connected(func() {})
	}
}

func (r *leafRun) counts() syncer.Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// clear reports whether nothing of ours is in a member, and nothing is on its way.
func (l *leaves) clear(m model.Member) bool {
	run := l.runs[m]
	return run != nil && run.complete && len(l.told[m])+len(l.keys.has[m]) == 0 && run.counts().Clear
}

// leave forgets a member that is none any more.
func (l *leaves) leave(m model.Member) {
	delete(l.cleared, m)
	delete(l.asked, m)
	l.guards.ForgetLeaves(m)
	l.put(holdingKey{m}, func(tx *inc.Tx) { l.p.In.Holdings.Delete(tx, m) })
}

// part has MemberClusters be held back, or let go. It is called when all that is wanted
// is known.
func (l *leaves) part() {
	if !l.parting {
		return
	}
	l.parting = false
	if l.served() {
		clear(l.cleared)
	}
	for _, m := range l.p.In.Members.Keys() {
		spec, _ := l.p.In.Members.Get(nil, m)
		switch {
		case spec.Leaving && spec.Guarded:
			l.depart(m, spec)
			continue
		case spec.Guarded && !spec.Leaving && !l.served() && !l.mourned(m) && l.clear(m):
			l.cleared[m] = true
			l.changed = true // its run ends
			l.ask(m, askRelease)
		}
		l.hold(m, nil, false)
	}
}

// ask asks for something once.
func (l *leaves) ask(m model.Member, what ask) {
	if l.asked[m] == what {
		return
	}
	l.asked[m] = what
	switch what {
	case askGuard:
		l.guards.GuardLeaves(m)
	case askRelease:
		l.guards.ReleaseLeaves(m)
	case askBury:
		id, _ := l.p.In.Clusters.Get(nil, m)
		g := hub.Grave{Cluster: id.V, Hub: l.of, Leaves: -1}
		if h, known := l.p.In.Holdings.Get(nil, m); known {
			g.Leaves = h.Leaves
		} else if n := len(l.told[m]); n > 0 {
			g.Leaves = n
		}
		g.Keys, g.Spaces = l.keysLeft(m)
		l.log.Info("leaves: a member leaves while it is away; what is left there is written down", "member", string(m), "leaves", g.Leaves, "keys", g.Keys)
		l.guards.Bury(m, g)
	}
}

// depart has a MemberCluster that is deleted wait, or go.
func (l *leaves) depart(m model.Member, spec model.MemberSpec) {
	contact, _ := l.p.In.Contacts.Get(nil, m)
	switch wants := l.wants[m]; {
	case len(wants) > 0 && !spec.Orphans && !spec.Forced:
		l.hold(m, rootsOf(wants), true)
		return
	case contact.Reason == v1alpha1.ReasonConnected && !l.clear(m), contact.Reason == "", contact.Reason == v1alpha1.ReasonPending:
		l.hold(m, nil, true)
		return
	case contact.Reason == v1alpha1.ReasonConnected, spec.Orphans:
		l.ask(m, askRelease)
	case l.of != "":
		l.ask(m, askBury)
	}
	l.hold(m, nil, false)
}

// rootsOf are the roots of leaves, sorted.
func rootsOf[V any](of map[model.LeafID]V) []string {
	var out []string
	for k := range maps.Keys(of) {
		out = append(out, k.Root.String())
	}
	slices.Sort(out)
	return out[:min(len(out), 2*model.MostNamed)]
}

// holdingKey names what is known of all leaves of a member in the mailbox.
type holdingKey struct{ model.Member }

// hold tells how many leaves a member has, and what it waits for.
func (l *leaves) hold(m model.Member, last []string, stays bool) {
	old, had := l.p.In.Holdings.Get(nil, m)
	now := old
	if !had {
		now.Leaves = -1
	}
	if run := l.runs[m]; run != nil {
		if c := run.counts(); c.Known {
			now.Leaves, now.Over, now.Unread = c.Leaves, c.Over > 0, c.Unread
		}
	}
	now.Last, now.Stays = model.TextsOf(last), stays
	if now == old && had || !had && now.Leaves < 0 && !stays {
		return
	}
	in := l.p.In
	l.put(holdingKey{m}, func(tx *inc.Tx) {
		if _, is := in.Members.Get(nil, m); is {
			in.Holdings.Set(tx, m, now)
		}
	})
}

// mourn finds tombstones of clusters that are members again: these have their leaves.
func (l *leaves) mourn() {
	graves := map[model.TombstoneID]model.Member{}
	for _, k := range l.p.In.Tombstones.Keys() {
		stone, _ := l.p.In.Tombstones.Get(nil, k)
		if m, again := l.again(stone); again && stone.Hub == l.of {
			graves[k] = m
			if run := l.runs[m]; run != nil && run.complete && run.counts().Known {
				l.guards.Unbury(k)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.graves = graves
}

// again is the member that is the cluster of a tombstone. One that never told which it
// was is known by its name.
func (l *leaves) again(stone model.Tombstone) (model.Member, bool) {
	for _, m := range l.p.In.Members.Keys() {
		spec, _ := l.p.In.Members.Get(nil, m)
		id, _ := l.p.In.Clusters.Get(nil, m)
		if !spec.Leaving && (stone.Cluster != "" && id.V == stone.Cluster || stone.Cluster == "" && m == stone.Member) {
			return m, true
		}
	}
	return "", false
}

// mourned reports whether a tombstone is about leaves of a member.
func (l *leaves) mourned(m model.Member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.graves {
		if of == m {
			return true
		}
	}
	return false
}

// grave tells which member has the leaves of a tombstone now, and whether that is known.
func (l *leaves) grave(k model.TombstoneID) (m model.Member, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.graves[k], l.graves != nil
}
