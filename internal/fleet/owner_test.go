package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

var tlsHosts = []model.Host{"a.w", "b.w", "*.w", "c.a.w", "*.a.w", "x", ""}

// drawNames is some roots of three namespaces that want the same few names.
func drawNames(t *rapid.T) []string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	lines := []string{"edge e region=r", "class c default", "class d", "front g names=e deep"}
	for _, ns := range []string{"n1", "n2", "n3"} {
		lines = append(lines, "secret "+ns+"/t a.w b.w *.w *.a.w c.a.w x")
	}
	for i := range rapid.IntRange(1, 7).Draw(t, "roots") {
		line := join("ingress", one("namespace", "n1", "n2", "n3")+fmt.Sprint("/r", i), "age="+one("age", "1", "2", "3"), one("class", "", "", "class=d", "class=g", "class=g"))
		wild := "*"
		if strings.HasSuffix(line, "=g") {
			wild = "**"
		}
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			line = join(line, one("host", "a.w", "b.w", wild+".w", "c.a.w", wild+".a.w", "x", "")+one("path", "/", "/p")+"->web:80")
		}
		if one("default", "no", "no", "yes") == "yes" {
			line = join(line, "default=web:80")
		}
		lines = append(lines, join(line, one("tls", "", "tls=t", "tls=t@a.w", "tls=t@*.w,b.w", "tls=t@x,a.w,*.w", "tls=t@c.a.w,*.a.w")))
	}
	return lines
}

// owned says whose a name is, the dumb way, over all roots of a class by age.
func owned(roots []asked, name model.Host) (model.Object, bool) {
	first := func(of func(asked) bool) (asked, bool) {
		i := slices.IndexFunc(roots, of)
		if i < 0 {
			return asked{}, false
		}
		return roots[i], true
	}
	ruled := func(h model.Host) func(asked) bool { // a wildcard is one TLS name, whatever its kind
		return func(root asked) bool {
			return slices.ContainsFunc(root.Rules, func(rule hostRule) bool {
				return strings.TrimPrefix(string(rule.Host), "*") == strings.TrimPrefix(string(h), "*") && h != "" || rule.Host == h
			})
		}
	}
	lists := func(h model.Host) func(asked) bool {
		return func(root asked) bool {
			return slices.ContainsFunc(root.TLS, func(e model.TLS) bool {
				switch {
				case !e.All && len(e.Hosts) > 0:
					return slices.Contains(e.Hosts, h)
				case len(root.Rules) == 0:
					return h == ""
				}
				return ruled(h)(root)
			})
		}
	}
	parent := func(h model.Host) model.Host { // the wildcard for one label
		if _, up, below := strings.Cut(string(h), "."); below && !strings.HasPrefix(string(h), "*") {
			return model.Host("*." + up)
		}
		return "none"
	}
	up := parent(name)
	wild := func(root asked) bool {
		return slices.ContainsFunc(root.Rules, func(rule hostRule) bool {
			base, deep := strings.CutPrefix(string(rule.Host), "**")
			return rule.Host == up || deep && strings.HasSuffix(string(name), base)
		})
	}
	either := func(root asked) bool { return ruled(name)(root) || wild(root) }
	if _, ok := first(ruled(name)); ok && name != "" || slices.ContainsFunc(roots, wild) {
		root, _ := first(either)
		return root.Origin.Object, true
	}
	rest := func(root asked) bool { return root.Default != nil || ruled("")(root) }
	listed := up
	if strings.HasPrefix(string(name), "*.") {
		listed = name
	}
	seated := func(root asked) bool {
		return lists(listed)(root) && slices.ContainsFunc(root.Rules, func(rule hostRule) bool {
			best, _ := first(ruled(rule.Host))
			return parent(rule.Host) == listed && best.Origin.Object.Namespace == root.Origin.Object.Namespace
		})
	}
	listsWild := func(root asked) bool { return lists(up)(root) }
	for _, of := range []func(asked) bool{seated, rest, listsWild, lists(name)} {
		if root, ok := first(of); ok {
			return root.Origin.Object, true
		}
	}
	return model.Object{}, false
}

// TestCertificatesAreOfTheOwner: every certificate that is presented for a name
// is of its owner's namespace, all of that namespace are, and whoever lists a
// name of another's is told, and the owner with them.
func TestCertificatesAreOfTheOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fleettest.New(nil)
		do(t, w, drawNames(t)...)
		w.Commit()
		p := w.Program
		if rapid.Bool().Draw(t, "later") { // what an edit leaves is what is there from the start
			do(t, w, "delete ingress n1/r0", "ingress n2/r1 age=2 a.w/->web:80 tls=t", "delete class d")
			w.Commit()
		}
		for _, class := range []model.Class{"c", "d", "g"} {
			roots := attached(p, class)
			for _, name := range tlsHosts {
				checkOwner(t, p, roots, model.HostKey{Class: class, Host: name})
			}
		}
	})
}

func checkOwner(t *rapid.T, p *fleet.Program, roots []asked, key model.HostKey) {
	chain, _ := p.Chains.Get(nil, key)
	owner, _ := owned(roots, key.Host)
	for _, s := range chain.Secrets {
		if s.Namespace != owner.Namespace {
			t.Fatalf("%s is presented with %s and belongs to %s", key, s, owner)
		}
	}
	for _, o := range p.RootsOfName.Keys(nil, key) {
		presented := slices.Contains(chain.Secrets, model.SecretID{Namespace: o.Namespace, Name: "t"})
		if own := o.Namespace == owner.Namespace; presented != own {
			t.Fatalf("%s: %s, of %s, is presented: %t", key, o, owner, presented)
		}
		if o.Namespace == owner.Namespace {
			continue
		}
		if !conflicts(p, o, model.Error, owner.String()) || !conflicts(p, owner, model.Warning, "spec.tls") {
			t.Fatalf("%s: %s and its owner %s are not told", key, o, owner)
		}
	}
}

func conflicts(p *fleet.Program, o model.Object, s model.Severity, about string) bool {
	all, _ := p.Findings.Get(nil, o)
	return slices.ContainsFunc(all, func(f model.Finding) bool {
		return f.Reason == model.ReasonConflict && f.Severity == s && strings.Contains(f.Message, about)
	})
}

// TestNamesBelowAWildcardAreCheap: what happens to a wildcard, or to the hosts
// that nobody names, costs the names below nothing while it stays whose it is,
// and a renewed certificate costs none of them either.
func TestNamesBelowAWildcardAreCheap(t *testing.T) {
	cost := func(names int) (out []int) {
		w := fleettest.New(nil)
		lines := []string{"edge e region=r", "class c default", "secret shop/cert *.w", "secret shop/wild *.w",
			"ingress shop/wild age=1 tls=wild@*.w *.w/->web:80", "ingress rest/all age=1 default=web:80"}
		for i := range names {
			lines = append(lines, fmt.Sprintf("ingress shop/r%d age=2 tls=cert@n%d.w,only%d.w n%d.w/->web:80", i, i, i, i))
		}
		for _, line := range []string{
			"secret shop/cert *.w",
			"ingress shop/wild age=1 tls=wild@*.w *.w/->other:80 *.w/x->web:80",
			"ingress rest/all age=1 default=other:80",
			"ingress shop/new age=3 tls=cert@new.w new.w/->web:80",
			"ingress odd/new age=3 tls=cert@n1.w n1.w/odd->web:80",
		} {
			if _, err := w.Do(append(lines, "commit", line, "commit")...); err != nil {
				t.Fatal(err)
			}
			out, lines = append(out, w.Stats.Evaluated), nil
		}
		return out
	}
	few, many := cost(5), cost(200)
	if !slices.Equal(few, many) || slices.Max(many) > 22 {
		t.Errorf("rows evaluated: with 5 names %v, with 200 %v", few, many)
	}
}

// TestWhoRefusesIsToldOfOthers, and not of a second certificate in its own
// namespace.
func TestWhoRefusesIsToldOfOthers(t *testing.T) {
	w := fleettest.New(nil)
	if _, err := w.Do("edge fra region=eu", "config k ondemand", "class blue default config=k", "class green config=k",
		"secret shop/one a.example", "secret shop/two a.example", "secret zed/cert a.example", "ingress shop/web a.example/->web:80",
		"ingress shop/first tls=one@a.example b.example/->web:80", "ingress shop/second tls=two@a.example c.example/->web:80",
		"ingress zed/web class=green tls=cert a.example/->web:80", "commit"); err != nil {
		t.Fatal(err)
	}
	owner := model.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}
	if !conflicts(w.Program, owner, model.Warning, "share an edge: Ingress zed/web") {
		found, _ := w.Program.Findings.Get(nil, owner)
		t.Errorf("told %v", found)
	}
}
