package lab

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spillway-dev/spillway/internal/lab/forward"
)

// cut makes a fault: of a member's parts, or of the hub's API.
func (s *supervisor) cut(name string, part Part, mode Mode) error {
	if !slices.Contains([]Part{PartAPI, PartData, PartBoth}, part) {
		return fmt.Errorf("can't cut %q: cut api, data or both", part)
	}
	front := map[Mode]forward.Mode{ModeDrop: forward.Drop, ModeRefuse: forward.Refuse}[mode]
	if front == forward.Open {
		return fmt.Errorf("mode %q: use drop or refuse", mode)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "hub" && s.hub != nil {
		if part != PartAPI {
			return fmt.Errorf("the hub has no data path: cut its api")
		}
		return s.hub.setCut(front)
	}
	m := s.member(name)
	if m == nil {
		return fmt.Errorf("no member %q: there are %s", name, s.names())
	}
	if part != PartData {
		if err := m.api.setCut(front); err != nil {
			return err
		}
	}
	if part != PartAPI {
		m.dataCut = mode
		return errors.Join(s.applyCuts(), m.gate.setCut(front))
	}
	return nil
}

// heal undoes all faults of a member, an edge, the hub, or of all.
func (s *supervisor) heal(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for _, e := range s.edges {
		if e != nil && (name == "all" || name == e.spec.Name) {
			found = true
			e.process.Resume()
		}
	}
	for _, m := range s.members {
		if m != nil && (name == "all" || name == m.spec.Name) {
			found = true
			m.dataCut = ""
			m.api.process.Resume()
			if err := errors.Join(m.api.setCut(forward.Open), m.gate.setCut(forward.Open)); err != nil {
				return err
			}
		}
	}
	if s.hub != nil && (name == "all" || name == "hub") {
		found = true
		s.hub.process.Resume()
		if err := s.hub.setCut(forward.Open); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("nothing is named %q: there are %s", name, s.names())
	}
	return s.applyCuts()
}

func (s *supervisor) killEdge(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.edges {
		if e.spec.Name == name {
			e.process.Kill()
			return nil
		}
	}
	return fmt.Errorf("no edge %q: there are %s", name, s.names())
}

// pause has the API server of a member or of the hub stand still.
func (s *supervisor) pause(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "hub" && s.hub != nil {
		return s.hub.process.Pause()
	}
	m := s.member(name)
	if m == nil {
		return fmt.Errorf("no member %q: there are %s", name, s.names())
	}
	return m.api.process.Pause()
}

// killMember kills a member's API server; its pods and its kubelet go on.
func (s *supervisor) killMember(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.member(name)
	if m == nil {
		return fmt.Errorf("no member %q: there are %s", name, s.names())
	}
	m.api.process.Kill()
	return nil
}

func (s *supervisor) killHub() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		return fmt.Errorf("this lab has no hub")
	}
	s.hub.process.Kill()
	return nil
}

// member finds a member; the caller holds mu.
func (s *supervisor) member(name string) *member {
	for _, m := range s.members {
		if m != nil && m.spec.Name == name {
			return m
		}
	}
	return nil
}

// names lists what faults apply to, for people; the caller holds mu.
func (s *supervisor) names() string {
	list := func(what string, names []string) string { return fmt.Sprintf("%s %v", what, names) }
	var members, edges []string
	for _, m := range s.members {
		members = append(members, m.spec.Name)
	}
	for _, e := range s.edges {
		edges = append(edges, e.spec.Name)
	}
	return list("members", members) + ", " + list("edges", edges) + " and hub"
}

// cutMode is how the way to the API server is cut, empty when it is not.
func (a *api) cutMode() Mode {
	a.mu.Lock()
	defer a.mu.Unlock()
	return map[forward.Mode]Mode{forward.Drop: ModeDrop, forward.Refuse: ModeRefuse}[a.cut]
}
