package envoy

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/model"
)

// TestRivals: fleet says that an edge serves a host by a class exactly where a
// route configuration of it is that class's.
func TestRivals(t *testing.T) {
	classes, hosts := []model.Class{"c1", "c2", "c3"}, []model.Host{"a.example", "b.example", ""}
	rapid.Check(t, func(t *rapid.T) {
		w, made := newProgram()
		lines := []string{"edge fra region=eu"}
		for i, class := range classes {
			ports := rapid.SampledFrom([]string{"http=80 https=443", "http=80 https=8443", "http=8080 https=443", "http=443 https=80", "http=443 https=443"}).Draw(t, "ports")
			lines = append(lines, fmt.Sprintf("config k%d %s", i, ports), fmt.Sprintf("class %s config=k%d age=%d", class, i, rapid.IntRange(1, 2).Draw(t, "age")))
			for _, host := range hosts {
				if rapid.Bool().Draw(t, "has") {
					lines = append(lines, fmt.Sprintf("ingress ns/%s-%s class=%s %s/->web:80", class, host, class, host))
				}
			}
		}
		if _, err := w.Do(lines...); err != nil {
			t.Fatal(err)
		}
		w.Commit()
		routed := map[model.HostKey]bool{}
		for _, k := range made.t.Routes.Keys() {
			if view, _ := w.Program.Views.Get(nil, "fra"); !made.has(view.Key, k.Collection) {
				continue
			}
			res, _ := made.t.Routes.Get(nil, k)
			for _, key := range res.Hosts() {
				routed[key] = true
			}
		}
		for _, key := range w.Program.Hosts.Keys() {
			_, bound := w.Program.Binding(nil, key.Class, "fra")
			if says := bound && w.Program.Owns(nil, "fra", key); says != routed[key] {
				t.Fatalf("%s: fleet says %t, Envoy has it: %t; %q", key, says, routed[key], lines)
			}
		}
	})
}
