package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestStrangersAreTold: who has a part of a host that another namespace has a part
// of, or a host below a wildcard of another namespace, is told so, and so is the
// other side; nobody else is.
func TestStrangersAreTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawWorld(t).Program
		type told struct {
			root  model.Object
			about string
		}
		want := map[told]bool{}
		for key, host := range rowsOf(p.Hosts) {
			for _, root := range host.Roots {
				if slices.ContainsFunc(host.Roots, func(o model.Object) bool { return o.Namespace != root.Namespace }) {
					want[told{root, "rules for " + key.Host.Described()}] = true
				}
				if !slices.Contains(askedBy(p, root).Hosts, key.Host) {
					continue // its default backend has what nobody names
				}
				for _, above := range wildcardsAbove(p, key) {
					if above.owner.Namespace != root.Namespace {
						want[told{root, fmt.Sprintf("below %s, which %s", above.host.Written(), above.owner)}] = true
						want[told{above.owner, "below wildcards"}] = true
					}
				}
			}
		}
		for root := range rowsOf(p.Attachments) {
			all, _ := p.Findings.Get(nil, root)
			for _, f := range all {
				if f.Reason != model.ReasonHostShared {
					continue
				}
				if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(w told) bool { return w.root == root && strings.Contains(f.Message, w.about) }) {
					t.Fatalf("%s is told for nothing: %s", root, f.Message)
				}
				if n := strings.Count(f.Message, "Ingress odd/") + strings.Count(f.Message, "Ingress ns/"); n > model.MostNamed {
					t.Fatalf("%d are named: %s", n, f.Message)
				}
			}
		}
		for w := range want {
			all, _ := p.Findings.Get(nil, w.root)
			if !slices.ContainsFunc(all, func(f model.Finding) bool {
				return f.Reason == model.ReasonHostShared && strings.Contains(f.Message, w.about)
			}) {
				t.Fatalf("%s is not told %q: %v", w.root, w.about, all)
			}
		}
	})
}

type wildcardOf struct {
	host  model.Host
	owner model.Object
}

// wildcardsAbove are those that stand for a host, in classes that a request for it
// may be for, with the oldest root that has something for them.
func wildcardsAbove(p *fleet.Program, key model.HostKey) []wildcardOf {
	var out []wildcardOf
	deep := false
	for _, info := range rowsOf(p.ClassInfo) {
		deep = deep || info.Deep
	}
	for _, class := range anyClass {
		if class != key.Class && !together(p, class, key.Class) {
			continue
		}
		for _, wild := range anyHost {
			if wild == key.Host || wild.Deep() && !deep || len(matchingHosts(string(key.Host), wild)) == 0 {
				continue
			}
			for _, root := range attached(p, class) {
				rules := slices.ContainsFunc(root.Rules, func(r hostRule) bool { return r.Host == wild })
				if rules || root.Default != nil && slices.Contains(root.Hosts, wild) {
					out = append(out, wildcardOf{wild, root.Origin.Object})
					break
				}
			}
		}
	}
	return out
}

// matchingHosts is a wildcard, if all names that a host stands for are of it.
func matchingHosts(host string, wild model.Host) []model.Host {
	base, deep := strings.CutPrefix(string(wild), "**")
	if deep && strings.HasSuffix(host, base) && strings.Trim(host, "*") != base {
		return []model.Host{wild}
	}
	if deep && strings.HasPrefix(host, "*.") && strings.Trim(host, "*") == base {
		return []model.Host{wild} // one label of any depth
	}
	if _, up, ok := strings.Cut(host, "."); !deep && ok && !strings.HasPrefix(host, "*") && string(wild) == "*."+up {
		return []model.Host{wild}
	}
	return nil
}

// together reports whether two classes share a port at some edge.
func together(p *fleet.Program, a, b model.Class) bool {
	for _, ports := range rowsOf(p.Ports) {
		for _, port := range ports.List {
			if port.Has(a) && port.Has(b) {
				return true
			}
		}
	}
	return false
}

// TestStrangersAreCheap: what one stranger more below a wildcard, or at a host, costs
// is the same whether there are few or many, and so is what is said of them.
func TestStrangersAreCheap(t *testing.T) {
	cost := func(strangers int) (evaluated []int, said int) {
		w := fleettest.New(nil)
		lines := []string{"edge e region=r", "class c default", "ingress shop/wild *.w/->web:80", "ingress shop/web shop/->web:80"}
		for i := range strangers {
			lines = append(lines, fmt.Sprintf("ingress n%03d/web n%d.w/->web:80 shop/n%d->web:80", i, i, i))
		}
		lines = append(lines, "commit")
		for _, line := range []string{"ingress z/web z.w/->web:80", "ingress n003/web n3.w/->other:80 shop/n3->web:80", "ingress shop/wild *.w/->other:80", "delete ingress z/web"} {
			if _, err := w.Do(append(lines, line, "commit")...); err != nil {
				t.Fatal(err)
			}
			evaluated, lines = append(evaluated, w.Stats.Evaluated), nil
		}
		for _, name := range []string{"wild", "web"} {
			all, _ := w.Program.Findings.Get(nil, model.Object{Kind: "Ingress", Namespace: "shop", Name: name})
			for _, f := range all {
				if f.Reason == model.ReasonHostShared {
					said += len(f.Message)
				}
			}
		}
		return evaluated, said
	}
	few, said := cost(10)
	many, saidOfMany := cost(400)
	if !slices.Equal(few, many) || said != saidOfMany {
		t.Errorf("rows evaluated: with 10 strangers %v, with 400 %v; said %d and %d bytes", few, many, said, saidOfMany)
	}
}

// TestThoseWithoutAPartAreCheap: what one more costs that asks for what an older one has of
// a host is the same whether there are few or many, of whatever kind they are.
func TestThoseWithoutAPartAreCheap(t *testing.T) {
	for _, kind := range []struct{ first, ask string }{
		{"ingress shop/first a/->web:80 age=1", "ingress %s a/->other:80 age=%d"},
		{"ingress shop/first a/->web:80 age=1", "route %s a/ other:http age=%d over=http"},
		{"httproute shop/first to=shop/gw hosts=a age=1 /->web:80", "grpcroute %s to=shop/gw hosts=a age=%d =/s/m->other:80"},
	} {
		cost := func(asking int) (evaluated []int) {
			w := fleettest.New(nil)
			lines := []string{"edge e region=r", "class c default", "gatewayclass spillway", "gateway shop/gw all:HTTP:80:a,from=All", "member m region=r", "pods m shop/web 10.1.0.1", kind.first}
			for i := range asking {
				lines = append(lines, fmt.Sprintf(kind.ask, fmt.Sprintf("other/asks-%03d", i), i+2))
			}
			lines = append(lines, "commit")
			for _, name := range []string{"other/more", "other/asks-005"} {
				if _, err := w.Do(append(lines, fmt.Sprintf(kind.ask, name, 500), "commit")...); err != nil {
					t.Fatal(err)
				}
				evaluated, lines = append(evaluated, w.Stats.Evaluated), nil
			}
			found, _ := w.Do("print findings")
			if told := strings.Count(found, string(model.ReasonConflict)); told != asking+1 {
				t.Fatalf("%d are told that another has the host, not %d:\n%s", told, asking+1, found)
			}
			return evaluated
		}
		if few, many := cost(10), cost(400); !slices.Equal(few, many) {
			t.Errorf("%s: rows evaluated where 10 ask: %v, where 400 do: %v", kind.ask, few, many)
		}
	}
}
