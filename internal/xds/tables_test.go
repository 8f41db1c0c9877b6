package xds

import (
	"fmt"
	"slices"
	"time"
)

// The tables of a strict client: which listeners look for which scopes. Only these
// tests say so, by references of listeners to scopes.

// drainTime is how long connections to a replaced listener live.
const drainTime = 4 * time.Second

// drained is a listener that was replaced, and until when its connections live.
type drained struct {
	listener *Resource
	until    time.Time
}

// lookUps are the scopes that a listener may look up.
func lookUps(l *Resource) (names []string) {
	for _, ref := range l.Refs() {
		if ref.Type == ScopedRoute {
			names = append(names, ref.Name)
		}
	}
	return names
}

// replace takes a listener in place of another one. Requests that the old one
// served are served: each scope that the new one looks up is there, and so is what
// it leads to.
func (m *envoyModel) replace(l *Resource) error {
	old := m.have[listener][l.Name]
	if old == nil || old.Version == l.Version {
		return nil
	}
	m.drains = append(m.drains, drained{old, m.now().Add(drainTime)})
	for _, name := range lookUps(l) {
		at := m.have[scope][name]
		if at == nil && !m.refused[scope][name] {
			return fmt.Errorf("listener %s@%s looks up scope %s, which is not there", l.Name, l.Version, name)
		}
		if at == nil || m.edited[name] || at != m.current(Ref{Type: ScopedRoute, Name: name}) {
			continue // what a scope that changes leads to is not waited for: ours never do
		}
		for _, ref := range at.Refs() {
			if m.have[routes][ref.Name] == nil && !m.refused[routes][ref.Name] {
				return fmt.Errorf("listener %s@%s looks up scope %s, whose routes are not there", l.Name, l.Version, name)
			}
		}
	}
	return nil
}

// unserved tells why a scope must not leave yet. One that went alone does not wait
// for a listener that the client refuses to replace, or that it keeps since it may
// be there, nor for connections.
func (m *envoyModel) unserved(name string) error {
	for _, l := range m.have[listener] {
		kept := m.refused[listener][l.Name] || m.isHeld(Listener)
		for _, used := range lookUps(l) {
			if used == name && (!kept || m.moved[name]) {
				return fmt.Errorf("scope %s was removed while listener %s@%s looks it up", name, l.Name, l.Version)
			}
		}
	}
	for _, d := range m.drains {
		for _, used := range lookUps(d.listener) {
			if used == name && m.moved[name] && m.now().Before(d.until) {
				return fmt.Errorf("scope %s was removed while listener %s@%s drains", name, d.listener.Name, d.listener.Version)
			}
		}
	}
	return nil
}

// content is what a view is made of at some time, by collection.
type content map[string]map[Ref]*Resource

func (w *world) content(view int) content {
	out := content{}
	for _, name := range w.lists[view] {
		out[name] = w.parts[slices.IndexFunc([]string{partName(0), partName(1), partName(2)}, func(s string) bool { return s == name })]
	}
	return out
}

func (c content) has(ref Ref) bool {
	for _, part := range c {
		if part[ref] != nil {
			return true
		}
	}
	return false
}

// goes notes how scopes go between two contents of what the session follows: with
// all collections that had them, or alone.
func (w *world) goes(from, to content) {
	for n := range domain {
		ref := Ref{Type: ScopedRoute, Name: fmt.Sprintf("n%d", n)}
		if to.has(ref) || from.has(ref) {
			w.moved[ref.Name] = !to.has(ref)
		}
		for name, part := range from {
			if _, stays := to[name]; stays && part[ref] != nil {
				w.moved[ref.Name] = false
			}
		}
	}
}

// forgets: a new session knows nothing of what happened before.
func (w *world) forgets() {
	now := w.content(w.current)
	for n := range domain {
		ref := Ref{Type: ScopedRoute, Name: fmt.Sprintf("n%d", n)}
		w.moved[ref.Name] = !now.has(ref)
	}
}
