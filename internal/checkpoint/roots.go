package checkpoint

import (
	"iter"
	"maps"
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// writtenRoot is how a route object is written: in one row with its rules,
// however the program keeps them, as the versions before this one had it.
type writtenRoot struct {
	Origin    model.Origin
	Class     model.Classes // versions before had one
	Rules     []writtenRule
	Default   *model.Backend
	TLS       []writtenTLS
	Published model.Texts
	Ours      bool
	Bare      []model.Host     `cbor:",omitempty"` // that have no rules; versions before had no such
	Route     *model.RouteSpec `cbor:",omitempty"` // of the Gateway API; versions before had no such
	Admit     *model.AdmitSpec `cbor:",omitempty"` // of a Route of OpenShift; versions before had no such
}

// writtenRule is a rule with one of its matches, as the versions had it in which
// a rule had only one. Those of one rule follow each other.
type writtenRule struct {
	Host     model.Host
	Match    model.Match
	Backends []model.WeightedBackend
	Field    model.Field
	Name     string        `cbor:",omitempty"`
	Reply    *model.Reply  `cbor:",omitempty"`
	Same     bool          `cbor:",omitempty"` // as the one before
	Filters  model.Filters `cbor:",omitzero"`  // without its Over
	Over     model.Over    `cbor:",omitempty"` // of the filters; versions before had no such
}

type writtenTLS struct {
	Hosts  []model.Host // empty: all hosts of the root
	Secret model.SecretID
	Field  model.Field
}

// RegisterRoots keeps route objects and their rules, as Register would. of
// finds the rules of an object.
func RegisterRoots(s *Store, name string, roots *inc.Table[model.Object, model.Root], rules *inc.Table[model.RulesID, model.Rules],
	of *inc.Index[model.Object, model.RulesID, model.Rules]) {
	put := registerRows(s, name, func(tx *inc.Tx, k model.Object, v writtenRoot) {
		for host, r := range v.rules() {
			rules.Set(tx, model.RulesID{Root: k, Host: host}, r)
		}
		roots.Set(tx, k, v.root())
	})
	write := func(k model.Object) {
		root, ok := roots.Get(nil, k)
		if !ok {
			put(k, nil)
			return
		}
		v := writtenOf(k, root, of.Keys(nil, k), of.Get(nil, k))
		put(k, &v)
	}
	watch(s, roots, func(changes []inc.Change[model.Object, model.Root]) {
		for _, c := range changes {
			write(c.Key)
		}
	})
	watch(s, rules, func(changes []inc.Change[model.RulesID, model.Rules]) {
		for i, c := range changes {
			if i == 0 || c.Key.Root != changes[i-1].Key.Root { // each root once
				write(c.Key.Root)
			}
		}
	})
}

func writtenOf(id model.Object, root model.Root, hosts []model.RulesID, rules []model.Rules) writtenRoot {
	out := writtenRoot{Origin: model.Origin{Created: root.Created, Object: id}, Class: root.Classes, Default: root.Default, Published: root.Published, Ours: root.Ours, Route: root.Route, Admit: root.Admit}
	for i, id := range hosts {
		if len(rules[i]) == 0 {
			out.Bare = append(out.Bare, id.Host)
		}
		for _, r := range rules[i] {
			for j, m := range r.Matches {
				out.Rules = append(out.Rules, writtenRule{id.Host, m, r.Backends, r.Field, r.Name, r.Reply, j > 0, r.Filters.By(model.Both), r.Filters.Over()})
			}
		}
	}
	for _, t := range root.TLS {
		w := writtenTLS{t.Hosts, t.Secret, t.Field}
		if t.All {
			w.Hosts = nil
		}
		out.TLS = append(out.TLS, w)
	}
	return out
}

func (w writtenRoot) root() model.Root {
	out := model.Root{Created: w.Origin.Created, Classes: w.Class, Default: w.Default, Published: w.Published, Ours: w.Ours, Route: w.Route, Admit: w.Admit}
	for _, t := range w.TLS {
		of := model.TLS{Hosts: t.Hosts, Secret: t.Secret, Field: t.Field}
		if len(t.Hosts) == 0 {
			of.Hosts, of.All = w.hosts(), true
		}
		out.TLS = append(out.TLS, of)
	}
	return out
}

// rules are those by host, for each match the first.
func (w writtenRoot) rules() map[model.Host]model.Rules {
	out := make(map[model.Host]model.Rules, 1)
	for _, h := range w.Bare {
		out[h] = nil
	}
	for _, r := range w.Rules {
		of := out[r.Host]
		switch {
		case slices.ContainsFunc(of, func(o model.Rule) bool { return slices.Contains(o.Matches, r.Match) }):
		case r.Same && len(of) > 0:
			last := &of[len(of)-1]
			last.Matches = append(last.Matches, r.Match)
		default:
			out[r.Host] = append(of, model.Rule{Name: r.Name, Matches: []model.Match{r.Match}, Action: model.Action{Backends: r.Backends, Reply: r.Reply, Filters: r.Filters.By(r.Over)}, Field: r.Field})
		}
	}
	return out
}

// hosts are those that have rules, sorted; without any, those that nobody names.
func (w writtenRoot) hosts() []model.Host {
	if len(w.Rules)+len(w.Bare) == 0 {
		return []model.Host{""}
	}
	out := slices.Clone(w.Bare)
	for _, r := range w.Rules {
		out = append(out, r.Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Roots are the route objects that Load read, as Rows.
func Roots(s *Store, name string) iter.Seq2[model.Object, model.Root] {
	return func(yield func(model.Object, model.Root) bool) {
		for k, w := range Rows[model.Object, writtenRoot](s, name) {
			if !yield(k, w.root()) {
				return
			}
		}
	}
}

// Rules are those of the route objects that Load read, those of an object in the
// order of hosts.
func Rules(s *Store, name string) iter.Seq2[model.RulesID, model.Rules] {
	return func(yield func(model.RulesID, model.Rules) bool) {
		for k, w := range Rows[model.Object, writtenRoot](s, name) {
			rules := w.rules()
			for _, h := range slices.Sorted(maps.Keys(rules)) {
				if !yield(model.RulesID{Root: k, Host: h}, rules[h]) {
					return
				}
			}
		}
	}
}
