package envoy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// TestHostsOfAllKinds: whichever of two classes that share a table has a host, of
// whichever kind, and whether it goes on, each request is answered by the first
// host of the table that is for it and has a match, unless one before ends it.
func TestHostsOfAllKinds(t *testing.T) {
	names := []string{"example", "a.example", "b.a.example", "c.b.a.example", "d.example", "other.test", "A.example"}
	kinds := []model.Host{"", "a.example", "b.a.example", "*.example", "*.a.example", "**.example", "**.a.example"}
	paths := []string{"/p", "/q", "/r"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorldOf(rapid.SampledFrom([]sizes{usual, asTrees}).Draw(rt, "sizes"))
		hosts := map[model.Host]fleet.Host{} // of the table
		w.g.Commit(func(tx *inc.Tx) {
			w.plain(tx)
			w.together(tx, "younger")
			status := uint16(200)
			for age, class := range []model.Class{testClass, "younger"} { // the older first
				deep := rapid.Bool().Draw(rt, "deep")
				w.classWith(tx, class, int64(age), httpPort, httpsPort, static, deep)
				for _, h := range rapid.SliceOfNDistinct(rapid.SampledFrom(kinds), 0, 5, rapid.ID[model.Host]).Draw(rt, "hosts") {
					if h.Deep() && !deep {
						continue
					}
					row := fleet.Host{Roots: []model.Object{rootObject("web")}, Continues: rapid.Bool().Draw(rt, "continues")}
					for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 0, 2, rapid.ID[string]).Draw(rt, "paths") {
						status++
						to := target("web")
						to.Reply = &model.Reply{Status: status}
						row.Routes = append(row.Routes, fleet.Route{Match: prefix(path), Target: to})
					}
					slices.SortFunc(row.Routes, func(a, b fleet.Route) int { return a.Match.Precedence(b.Match) })
					w.p.Hosts.Set(tx, model.HostKey{Class: class, Host: h}, row)
					if _, taken := hosts[h]; !taken {
						hosts[h] = row
					}
				}
			}
		})
		validateAll(rt, w)
		s := newSim(rt, w)
		for _, name := range names {
			for _, path := range paths {
				q := request{method: http.MethodGet, host: name, path: path, header: http.Header{}}
				want := "404"
				for _, h := range matching(hosts, strings.ToLower(name)) {
					to, _ := promisedTo(hosts[h], q)
					if to != nil {
						want = fmt.Sprint(to.Reply.Status)
					}
					if to != nil || !hosts[h].Continues {
						break
					}
				}
				if got := fmt.Sprint(s.route(httpPort, q).Status); got != want {
					rt.Fatalf("%s%s is answered %s, want %s, with %+v", name, path, got, want, hosts)
				}
			}
		}
	})
}

// TestIndexIsOfWhatIsThere: an index names the wildcards that its classes have in
// its table, changes with these alone, and goes with the last one. It is blamed on
// those who have them.
func TestIndexIsOfWhatIsThere(t *testing.T) {
	w := newWorld()
	to := target("web")
	set := func(tx *inc.Tx, class model.Class, host model.Host) {
		w.p.Hosts.Set(tx, model.HostKey{Class: class, Host: host}, fleet.Host{Default: &to, Roots: []model.Object{rootObject(string(class))}})
	}
	index := func() (names []string, version string) {
		res, ok := w.lookIn(w.t.Routes, testView, "**")
		if _, scoped := w.lookIn(w.t.Scopes, testView, "**"); scoped != ok {
			t.Fatalf("there is a scope: %v, and routes: %v", scoped, ok)
		}
		if !ok {
			return nil, ""
		}
		for _, vh := range decode(t, res).(*routev3.RouteConfiguration).VirtualHosts {
			names = append(names, vh.Routes[0].Name)
		}
		return names, res.Version
	}
	w.g.Commit(func(tx *inc.Tx) {
		w.plain(tx)
		w.together(tx, "younger")
		w.classWith(tx, testClass, 1, httpPort, httpsPort, static, true)
		w.classWith(tx, "younger", 2, httpPort, httpsPort, static, true)
		set(tx, testClass, "a.example")
		set(tx, testClass, "*.example")
	})
	listeners := func() (out []string) {
		for _, k := range w.t.Listeners.Keys() {
			res, _ := w.t.Listeners.Get(nil, k)
			out = append(out, k.String()+res.Version)
		}
		return out
	}
	before := listeners()
	if names, _ := index(); names != nil {
		t.Errorf("without any wildcard of any depth there is %q", names)
	}
	w.g.Commit(func(tx *inc.Tx) {
		for _, h := range []model.Host{"**.example", "**.b.a.example", "**.c.b.a.example"} {
			set(tx, testClass, h)
		}
		set(tx, "younger", "**.a.example")
		set(tx, "younger", "**.example")
		set(tx, "younger", "**.other")
	})
	names, version := index()
	if want := []string{
		"**.a.example:**.example", "**.b.a.example:**.a.example:**.example", "**.c.b.a.example:**.b.a.example:**.a.example", "**.example", "**.other",
	}; !slices.Equal(names, want) {
		t.Errorf("the index has %q, want %q", names, want)
	}
	told := func() bool {
		_, ok := w.t.Findings.Get(nil, rootObject(string(testClass)))
		return ok
	}
	if told() {
		t.Error("who has a wildcard that does not go on is told how far it would")
	}
	w.g.Commit(func(tx *inc.Tx) {
		key := model.HostKey{Class: testClass, Host: "**.c.b.a.example"}
		row, _ := w.p.Hosts.Get(nil, key)
		row.Default, row.Continues = nil, true
		w.p.Hosts.Set(tx, key, row)
	})
	if !told() {
		t.Error("who has a wildcard that goes on further than proxies follow is not told")
	}
	view, _ := w.p.Views.Get(nil, "fra")
	if owners := w.t.Owners(view.Key, RouteType, "**", ""); !slices.Equal(owners, []model.Object{rootObject(string(testClass)), rootObject("younger")}) {
		t.Errorf("it is blamed on %v", owners)
	}
	w.g.Commit(func(tx *inc.Tx) {
		other := target("web", "shop/other/http")
		w.p.Hosts.Set(tx, model.HostKey{Class: testClass, Host: "**.example"}, fleet.Host{Default: &other, Roots: []model.Object{rootObject("other")}})
	})
	if _, now := index(); now != version {
		t.Error("the index changes with a wildcard's routes")
	}
	w.g.Commit(func(tx *inc.Tx) {
		for _, k := range w.p.Hosts.Keys() {
			if k.Host.Deep() {
				w.p.Hosts.Delete(tx, k)
			}
		}
	})
	if names, _ := index(); names != nil {
		t.Errorf("without any wildcard of any depth there is %q", names)
	}
	if now := listeners(); !slices.Equal(now, before) {
		t.Errorf("listeners were %q and are %q", before, now)
	}
}

// TestIndexIsSmall: a wildcard costs an index its name three times, and little else.
func TestIndexIsSmall(t *testing.T) {
	var hosts []model.Host
	for i := range 100 {
		hosts = append(hosts, model.Host(fmt.Sprintf("**.host%03d.example", i)))
	}
	body := indexOf(hosts)
	if each := len(body.config) / len(hosts); each > 100 {
		t.Errorf("%d bytes each", each)
	}
	if err := proto.Unmarshal(body.config, new(routev3.RouteConfiguration)); err != nil {
		t.Error(err)
	}
}

// TestIndexAsMessages: an index is what it says as messages, which are valid. Of more
// wildcards than are tried from one, the nearest are.
func TestIndexAsMessages(t *testing.T) {
	hosts := []model.Host{"**.a.b.c.example", "**.b.c.example", "**.c.example", "**.example", "**.other.test"}
	slices.Sort(hosts)
	tried := map[model.Host]string{
		"**.a.b.c.example": "**.a.b.c.example:**.b.c.example:**.c.example",
		"**.b.c.example":   "**.b.c.example:**.c.example:**.example",
		"**.c.example":     "**.c.example:**.example",
		"**.example":       "**.example", "**.other.test": "**.other.test",
	}
	want := &routev3.RouteConfiguration{IgnorePortInHostMatching: true, ValidateClusters: wrapperspb.Bool(false)}
	for _, h := range hosts {
		want.VirtualHosts = append(want.VirtualHosts, &routev3.VirtualHost{
			Name: h.Written(), Domains: []string{h.Written()}, Routes: []*routev3.Route{{Name: tried[h], Match: match(model.Everything), Action: nothing.Action}},
		})
	}
	mustBeValid(want)
	got := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(indexOf(hosts).config, got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, h := range hosts {
		if _, cut := triedFrom(hosts, h); cut != (h == "**.a.b.c.example") {
			t.Errorf("%s is cut: %v", h, cut)
		}
	}
}

// BenchmarkIndex is an index of the wildcards of as many Gateways.
func BenchmarkIndex(b *testing.B) {
	var hosts []model.Host
	for i := range 500 {
		hosts = append(hosts, model.Host(fmt.Sprintf("**.gw-%04d.example", i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		indexOf(hosts)
	}
}
