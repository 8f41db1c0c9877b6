package sim

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/zone"
)

// TestQuiescence: whatever happened, once everybody answers and all is said, every
// proxy holds what a new one of a new control plane does, resolvers are told
// the same, and so are the owners of objects.
func TestQuiescence(t *testing.T) {
	hold(t, 40, func(t *rapid.T) script {
		s := append(fleetOf(t), "class alone config=own", "config own alone")
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			s = append(s, mishap(t))
		}
		return s
	}, func(s script) error {
		w, err := play(append(slices.Clone(s), comeBack...), nil)
		if err != nil {
			return err
		}
		return w.asFromScratch()
	})
}

// mishap is an edit, or something that goes wrong.
func mishap(t *rapid.T) string {
	member, proxy := some(t, memberNames...), some(t, "fra/old", "nyc/old", "fra/young")
	switch rapid.IntRange(0, 12).Draw(t, "mishap") {
	case 0:
		return "answers " + member + " " + some(t, "well", "not", "part", "lies")
	case 1:
		return "restart" + some(t, "", " last")
	case 2:
		return "path " + some(t, "fra", "nyc") + " " + member + " " + some(t, "up", "down", "unknown")
	case 3:
		return "proxy " + proxy
	case 4:
		return "config own" + some(t, "", " alone", " alone ondemand", " alone http=81")
	case 5:
		return "ingress shop/a class=" + some(t, "alone", "spillway") + " " + some(t, "a", "h0") + ".example/->web:http"
	case 6: // always the same pool: what a process remembers of another one, a new one can't know
		return "edge nyc region=us zone=us-a networks=default,far addresses=192.0.2.2" + some(t, "", " pool=192.0.2.20,192.0.2.21~10.0.0.21")
	}
	return edit(t)
}

// comeBack ends all that went wrong, and lets every wait end.
var comeBack = func() script {
	var s script
	for _, m := range memberNames {
		s = append(s, "answers "+m+" well", "path fra "+m+" up", "path nyc "+m+" up")
	}
	return append(s, "back fra/old", "back nyc/old", "tick 90s")
}()

// asFromScratch compares the world with one whose control plane and proxies
// are new.
func (w *world) asFromScratch() error {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fresh := &world{now: w.now, objects: w.objects, hub: w.hub, members: w.members, proxies: map[string]*proxy{}, paths: w.paths, dir: dir}
	for _, m := range fresh.members {
		m.forget()
	}
	for name, p := range w.proxies {
		fresh.proxies[name] = newProxy(p.id.Edge, p.id.Node)
	}
	if err := fresh.start(""); err != nil {
		return err
	}
	if err := fresh.tick(2 * stride); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.proxies)) {
		if diff := differ(w.proxies[name].content(), fresh.proxies[name].content()); diff != "" {
			return fmt.Errorf("proxy %s is not as from scratch:\n%s", name, diff)
		}
	}
	if a, b := w.findings(""), fresh.findings(""); a != b {
		return fmt.Errorf("owners are told\n%s\nand from scratch\n%s", a, b)
	}
	if a, b := w.gatewayStatuses(), fresh.gatewayStatuses(); a != b {
		return fmt.Errorf("statuses of the Gateway API are\n%s\nand from scratch\n%s", a, b)
	}
	return w.sameAnswers(fresh)
}

// sameAnswers compares what resolvers are told. Who nobody serves any more
// keeps what it had, which a new control plane can't know.
func (w *world) sameAnswers(fresh *world) error {
	for _, host := range w.hosts() {
		a, err := w.resolve(host, zone.TypeA)
		b, err2 := fresh.resolve(host, zone.TypeA)
		if err != nil || err2 != nil {
			return fmt.Errorf("%s: %w, %w", host, err, err2)
		}
		if len(b.addresses) > 0 && a.String() != b.String() {
			return fmt.Errorf("%s resolves to %s, from scratch to %s", host, a, b)
		}
	}
	return nil
}

// hosts are those that Ingresses of the hub name, sorted.
func (w *world) hosts() []string {
	var out []string
	for _, o := range w.hub["ingresses"] {
		for _, rule := range o.(*networkingv1.Ingress).Spec.Rules {
			out = append(out, rule.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// differ says what is in one and not in the other, or in another version.
func differ(a, b map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if v, ok := b[name]; !ok {
			fmt.Fprintf(&out, "  more: %s\n", name)
		} else if v != a[name] {
			fmt.Fprintf(&out, "  other: %s\n", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			fmt.Fprintf(&out, "  less: %s\n", name)
		}
	}
	return out.String()
}
