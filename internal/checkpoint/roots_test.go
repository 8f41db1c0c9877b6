package checkpoint

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// RootBefore is a route object as the version before had it: one row with all
// its rules, and lists of TLS hosts that are empty for all.
type RootBefore struct {
	Origin     model.Origin
	Generation int64
	Class      model.Class
	Rules      []RuleBefore
	Default    *model.Backend
	TLS        []TLSBefore
	Published  model.Texts
	Ours       bool
}

type RuleBefore struct {
	Host     model.Host
	Match    model.Match
	Backends []model.WeightedBackend
	Field    model.Field
}

type TLSBefore struct {
	Hosts  []model.Host
	Secret model.SecretID
	Field  model.Field
}

func (a RuleBefore) equal(b RuleBefore) bool {
	return a.Host == b.Host && a.Match == b.Match && slices.Equal(a.Backends, b.Backends) && a.Field == b.Field
}

func (a TLSBefore) equal(b TLSBefore) bool {
	return slices.Equal(a.Hosts, b.Hosts) && a.Secret == b.Secret && a.Field == b.Field
}

func (a RootBefore) Equal(b RootBefore) bool {
	return a.Origin == b.Origin && a.Class == b.Class && slices.EqualFunc(a.Rules, b.Rules, RuleBefore.equal) &&
		(a.Default == nil) == (b.Default == nil) && (a.Default == nil || *a.Default == *b.Default) &&
		slices.EqualFunc(a.TLS, b.TLS, TLSBefore.equal) && a.Published == b.Published && a.Ours == b.Ours
}

// drawRoots draws what a hub has, each object's rules by host.
func drawRoots(t *rapid.T) map[model.Object]RootBefore {
	out := map[model.Object]RootBefore{}
	some := func(name string) bool { return rapid.Bool().Draw(t, name) }
	backend := func() model.Backend {
		return model.BackendKey{Service: model.ServiceOf("shop", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service")), Port: model.PortRef{Number: 80}}.Backend()
	}
	for _, name := range []string{"r1", "r2", "r3"} {
		if !some("there") {
			continue
		}
		id := model.Object{Kind: "Ingress", Namespace: "shop", Name: name, Workspace: rapid.SampledFrom([]string{"", "w"}).Draw(t, "workspace")}
		root := RootBefore{Origin: model.Origin{Created: 7, Object: id}, Class: "c", Ours: some("ours")}
		for _, h := range []model.Host{"", "*.h", "h"} {
			for i, n := 0, rapid.IntRange(0, 2).Draw(t, "rules"); i < n; i++ {
				root.Rules = append(root.Rules, RuleBefore{h, model.Match{Kind: model.PathPrefix, Path: "/" + string(rune('a'+i))}, []model.WeightedBackend{{Backend: backend(), Weight: 1}}, "f"})
			}
		}
		if some("default") {
			b := backend()
			root.Default = &b
		}
		for range rapid.IntRange(0, 2).Draw(t, "tls") {
			root.TLS = append(root.TLS, TLSBefore{rapid.SampledFrom([][]model.Host{nil, {"h"}, {"h", "x"}}).Draw(t, "hosts"), model.SecretID{Name: "s"}, "g"})
		}
		out[id] = root
	}
	return out
}

// TestRootsOfOtherVersions: what a version with one row for all of an object
// wrote is read, and it reads what this one wrote, whatever came and went in
// whichever of them.
func TestRootsOfOtherVersions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		want := map[model.Object]RootBefore{}
		for range rapid.IntRange(1, 5).Draw(rt, "processes") {
			if rapid.Bool().Draw(rt, "before") {
				want = runRootsBefore(rt, dir, want)
			} else {
				want = runRootsNow(rt, t, dir, want)
			}
		}
	})
}

func sameRoots(t *rapid.T, got, want map[model.Object]RootBefore) {
	if !maps.EqualFunc(got, want, RootBefore.Equal) {
		t.Fatalf("found %+v, want %+v", got, want)
	}
}

func runRootsBefore(t *rapid.T, dir string, want map[model.Object]RootBefore) map[model.Object]RootBefore {
	g := inc.New()
	roots := inc.Input[model.Object, RootBefore](g, "roots")
	s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	Register(s, "roots", roots)
	s.Restore(g)
	got := map[model.Object]RootBefore{}
	for _, k := range roots.Keys() {
		got[k], _ = roots.Get(nil, k)
	}
	sameRoots(t, got, want)
	next := drawRoots(t)
	s.Complete()
	g.Commit(func(tx *inc.Tx) {
		for k := range want {
			roots.Delete(tx, k)
		}
		for k, v := range next {
			roots.Set(tx, k, v)
		}
	})
	s.Committed()
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	return next
}

func runRootsNow(rt *rapid.T, t *testing.T, dir string, want map[model.Object]RootBefore) map[model.Object]RootBefore {
	w := open(t, dir)
	defer w.s.close()
	got := map[model.Object]RootBefore{}
	for _, k := range w.in.Roots.Keys() {
		got[k] = asBefore(w, k)
	}
	sameRoots(rt, got, want)
	next := drawRoots(rt)
	w.s.Complete()
	portion := rapid.IntRange(1, 4).Draw(rt, "portion") // as bulk: what belongs to an object in several commits
	var writes []func(*inc.Tx)
	for k := range want {
		if _, stays := next[k]; !stays {
			writes = append(writes, func(tx *inc.Tx) { w.in.Roots.Delete(tx, k) })
		}
	}
	for _, id := range w.in.Rules.Keys() {
		writes = append(writes, func(tx *inc.Tx) { w.in.Rules.Delete(tx, id) })
	}
	for k, v := range next {
		root := model.Root{Created: v.Origin.Created, Classes: model.Classes(v.Class), Default: v.Default, Published: v.Published, Ours: v.Ours}
		rules := map[model.Host]model.Rules{}
		for _, r := range v.Rules {
			rules[r.Host] = append(rules[r.Host], model.Rule{Matches: []model.Match{r.Match}, Action: model.Action{Backends: r.Backends}, Field: r.Field})
		}
		hosts := slices.Sorted(maps.Keys(rules))
		for _, e := range v.TLS {
			all := model.TLS{Hosts: e.Hosts, Secret: e.Secret, Field: e.Field}
			if len(e.Hosts) == 0 {
				all.Hosts, all.All = hosts, true
			}
			root.TLS = append(root.TLS, all)
		}
		writes = append(writes, func(tx *inc.Tx) { w.in.Roots.Set(tx, k, root) })
		for _, h := range hosts {
			writes = append(writes, func(tx *inc.Tx) { w.in.Rules.Set(tx, model.RulesID{Root: k, Host: h}, rules[h]) })
		}
	}
	for some := range slices.Chunk(writes, portion) {
		w.commit(func(tx *inc.Tx) {
			for _, f := range some {
				f(tx)
			}
		})
	}
	if err := w.s.flush(); err != nil {
		rt.Fatal(err)
	}
	return next
}

// asBefore is a root as it would be written.
func asBefore(w *world, k model.Object) RootBefore {
	root, _ := w.in.Roots.Get(nil, k)
	out := RootBefore{Origin: model.Origin{Created: root.Created, Object: k}, Class: model.Class(root.Classes), Default: root.Default, Published: root.Published, Ours: root.Ours}
	var hosts []model.Host
	for _, id := range w.in.Rules.Keys() {
		if id.Root != k {
			continue
		}
		hosts = append(hosts, id.Host)
		rules, _ := w.in.Rules.Get(nil, id)
		for _, r := range rules {
			out.Rules = append(out.Rules, RuleBefore{id.Host, r.Matches[0], r.Backends, r.Field})
		}
	}
	if len(hosts) == 0 {
		hosts = []model.Host{""}
	}
	for _, e := range root.TLS {
		if e.All && slices.Equal(e.Hosts, hosts) {
			e.Hosts = nil
		}
		out.TLS = append(out.TLS, TLSBefore{e.Hosts, e.Secret, e.Field})
	}
	return out
}

// TestHostsWithoutRules: a host that an object names and has nothing valid for is
// there after a restart, beside others and alone.
func TestHostsWithoutRules(t *testing.T) {
	dir := t.TempDir()
	root := func(name string) model.Object { return model.Object{Kind: "Ingress", Namespace: "shop", Name: name} }
	want := map[model.RulesID]int{{Root: root("r1"), Host: "bare"}: 0, {Root: root("r2"), Host: "a"}: 0, {Root: root("r2"), Host: "b"}: 1}
	w := open(t, dir)
	w.s.Complete()
	w.commit(func(tx *inc.Tx) {
		for _, name := range []string{"r1", "r2"} {
			w.in.Roots.Set(tx, root(name), model.Root{Created: 7, TLS: []model.TLS{{Hosts: map[string][]model.Host{"r1": {"bare"}, "r2": {"a", "b"}}[name], All: true, Field: "f"}}})
		}
		for id, n := range want {
			w.in.Rules.Set(tx, id, slices.Repeat(model.Rules{{Matches: []model.Match{model.Everything}, Field: "f"}}, n))
		}
	})
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	w.s.close()
	w = open(t, dir)
	defer w.s.close()
	got := map[model.RulesID]int{}
	for _, id := range w.in.Rules.Keys() {
		rules, _ := w.in.Rules.Get(nil, id)
		got[id] = len(rules)
	}
	if !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	for name, hosts := range map[string][]model.Host{"r1": {"bare"}, "r2": {"a", "b"}} {
		if r, _ := w.in.Roots.Get(nil, root(name)); len(r.TLS) != 1 || !r.TLS[0].All || !slices.Equal(r.TLS[0].Hosts, hosts) {
			t.Errorf("%s has %+v", name, r.TLS)
		}
	}
}

// TestFiltersAfterARestart: what a rule and its backends do with requests is there
// after a restart, with each of its matches.
func TestFiltersAfterARestart(t *testing.T) {
	dir := t.TempDir()
	id := model.RulesID{Root: model.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "r"}, Host: "h"}
	b := model.BackendKey{Service: model.ServiceOf("shop", "web"), Port: model.PortRef{Number: 80}}.Backend()
	filters := model.FiltersKey{Mirrors: model.PackedOf(model.Mirror{Backend: b, Part: 1, Of: 2}), Retry: model.Retry{Own: true}}.Filters()
	of := model.FiltersKey{Rewrite: model.Rewrite{Path: "/x"}}.Filters()
	want := model.Rules{
		{Matches: []model.Match{{Path: "/a"}, {Path: "/b"}}, Field: "f", Action: model.Action{Filters: filters, Backends: []model.WeightedBackend{{Backend: b, Weight: 1, Filters: of}}}},
		{Matches: []model.Match{{Path: "/c"}}, Field: "f", Action: model.Action{Backends: []model.WeightedBackend{{Backend: b, Weight: 1}}}},
	}
	w := open(t, dir)
	w.s.Complete()
	w.commit(func(tx *inc.Tx) {
		w.in.Roots.Set(tx, id.Root, model.Root{Created: 7})
		w.in.Rules.Set(tx, id, want)
	})
	if err := w.s.flush(); err != nil {
		t.Fatal(err)
	}
	w.s.close()
	w = open(t, dir)
	defer w.s.close()
	if got, _ := w.in.Rules.Get(nil, id); !got.Equal(want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}
