package fleet_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet/fleettest"
	"github.com/spillway-dev/spillway/internal/model"
)

// drawRoute draws a command about Routes of OpenShift, over a domain as small as that of
// drawLine.
func drawRoute(t *rapid.T) string {
	one := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	name := one("namespace", "ns", "ns", "odd") + "/" + one("route", "o1", "o2", "o3")
	if one("what", "write", "write", "write", "delete") == "delete" {
		return "delete route " + name
	}
	to := func() string {
		return one("service", "a", "b", "c") + ":" + one("port", "http", "pods", "pods8080", "pods8081") + one("weight", "", "", "*0", "*3")
	}
	over := one("over", "http", "https", "both", "moved", "passed", "passedmoved")
	path := one("path", "", "/a", "/a/b")
	more := one("tls", "", "", "tls=t1", "tls=self", "tls=self ca=x", "reencrypt")
	if over == "passed" || over == "passedmoved" {
		path, more = "", ""
	}
	return join("route", name, one("host", "h1", "h2", "*.h", "x.h")+path, to()+one("second", "", "", "+"+to()), "age="+one("age", "1", "2", "3"),
		one("class", "", "class=c1", "class=c2", "class=other"), "over="+over, more, one("refused", "", "", "", "", "refused=ExtendedValidationFailed"))
}

// TestHostsOfRoutes: whoever has a part of a host, and whether connections for it are
// passed on, is as the rules are told, given roots of all kinds that name their hosts.
func TestHostsOfRoutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := fleettest.New(nil)
		do(t, w, "class c1 default", "class c2", "edge e1 region=r1", "member m1", "member m2")
		do(t, w, rapid.SliceOfN(rapid.OneOf(rapid.Custom(drawLine), rapid.Custom(drawRoute), rapid.Custom(drawRoute)), 5, 40).Draw(t, "lines")...)
		w.Commit()
		p := w.Program
		for _, class := range anyClass {
			for _, host := range anyHost {
				h, _ := p.Hosts.Get(nil, model.HostKey{Class: class, Host: host})
				var asking []asked // with rules for the host, the oldest first
				if served(p, class) {
					for _, root := range attached(p, class) {
						if root.Rules = slices.DeleteFunc(root.Rules, func(r hostRule) bool { return r.Host != host }); len(root.Rules) > 0 {
							asking = append(asking, root)
						}
					}
				}
				if len(asking) == 0 {
					if h.Passed != nil {
						t.Fatalf("%s %q: nobody asks for it, and it is passed to %v", class, host, h.Passed)
					}
					continue
				}
				first := asking[0]
				passes := first.Rules[0].Filters.Over().Passes()
				if (h.Passed != nil) != passes || passes && h.Passed.Root != first.Origin.Object {
					t.Fatalf("%s %q: passed to %v, and the oldest is %v", class, host, h.Passed, first.Origin)
				}
				taken := map[model.Match]bool{}
				for i, root := range asking {
					o, f := root.Origin.Object, first.Origin.Object
					stranger := (o.Kind == model.OpenShiftRoute || f.Kind == model.OpenShiftRoute) && o.Namespace != f.Namespace
					out := i > 0 && (stranger || passes || root.Rules[0].Filters.Over().Passes())
					won := false
					for _, rule := range root.Rules {
						for _, m := range rule.Matches {
							if !out && !taken[m] {
								taken[m], won = true, true
							}
						}
					}
					has := slices.Contains(h.Roots, o)
					if has != won && (won || root.Default == nil) {
						t.Fatalf("%s %q: %v has a part: %v, should: %v; its roots are %v", class, host, o, has, won, h.Roots)
					}
					found, _ := p.Findings.Get(nil, o)
					conflict := slices.ContainsFunc(found, func(f model.Finding) bool { return f.Reason == model.ReasonConflict && f.Severity == model.Error })
					if !won && !conflict {
						t.Fatalf("%s %q: %v has lost and is not told: %v", class, host, o, found)
					}
				}
			}
		}
	})
}
