package envoy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
	"github.com/spillway-dev/spillway/internal/steer"
)

// op writes one row of a world's inputs.
type op struct {
	name string // what row it writes: a later one of the name takes its place
	do   func(*world, *inc.Tx)
}

// drawOp draws from a domain so small that edits collide: two classes that may
// share ports and have wildcards of any depth, and one of streams, some hosts, three
// backends of requests and two of streams, three views, two secrets.
func drawOp(t *rapid.T) op {
	classes := []model.Class{"blue", "green"}
	hosts := []model.Host{"", "a.example", "*.example", "*.a.example", "**.example", "**.a.example"}
	backends := []string{"ns/x/http", "ns/y/http", "ns/z/http"}
	views := []model.View{
		model.ViewKey{Classes: "blue,green,red", VantageKey: model.VantageKey{Place: fra}}.View(),
		model.ViewKey{Classes: "green", VantageKey: model.VantageKey{Place: fra}, IPv6: true}.View(),
		model.ViewKey{Classes: "blue", VantageKey: model.VantageKey{Place: model.Place{Region: "us"}}, TrustedHops: 1}.View(),
	}
	class, host := rapid.SampledFrom(classes).Draw(t, "class"), rapid.SampledFrom(hosts).Draw(t, "host")
	b, view := rapid.SampledFrom(append(slices.Clone(backends), streamed...)).Draw(t, "backend"), rapid.SampledFrom(views).Draw(t, "view")
	n, gone := rapid.IntRange(0, 4).Draw(t, "n"), rapid.IntRange(0, 3).Draw(t, "gone") == 0
	key := model.HostKey{Class: class, Host: host}
	tlsName := model.HostKey{Class: class, Host: host.TLSName()}
	secret := model.SecretID{Namespace: "ns", Name: fmt.Sprint("cert", n%2)}
	kind := rapid.IntRange(0, 14).Draw(t, "kind")
	shows := rapid.SampledFrom([]model.Dial{{}, model.DialKey{Client: secret}.Dial()}).Draw(t, "shows")
	switch kind {
	case 0:
		clients := rapid.SampledFrom(someClients).Draw(t, "clients")
		certificates, deep := delivery(rapid.Bool().Draw(t, "on demand")), rapid.Bool().Draw(t, "deep")
		return op{"class " + string(class), func(w *world, tx *inc.Tx) {
			row := classInfo(class, int64(n), []uint16{80, 8080, 443}[n%3], []uint16{443, 8443, 80}[n/2%3], certificates, deep)
			row.Clients, row.Lines = clients, true // any of its hosts may be of streams
			w.specs.Set(tx, class, row)
		}}
	case 1, 2:
		continues := rapid.Bool().Draw(t, "continues")
		filters := rapid.SampledFrom(someFilters).Draw(t, "filters")
		ofBackend := rapid.SampledFrom(someFilters).Draw(t, "filters of a backend")
		return op{"host " + key.String(), func(w *world, tx *inc.Tx) {
			if gone {
				w.p.Hosts.Delete(tx, key)
				return
			}
			def := target("r", backends[n%3])
			row := fleet.Host{Dial: shows, Routes: []fleet.Route{{Match: prefix(fmt.Sprint("/p", n)), Target: target("r", backends[:n%4]...)}}, Default: &def, Roots: []model.Object{rootObject("web")}, Lookups: true}
			of := &row.Routes[0].Target
			of.Filters = filters
			if len(of.Backends) > 0 {
				of.Backends[0].Filters = ofBackend
			}
			if continues {
				row.Default, row.Continues = nil, true
			}
			w.p.Hosts.Set(tx, key, row)
		}}
	case 3:
		return op{"use " + b, func(w *world, tx *inc.Tx) {
			for _, view := range views { // fleet's promise: a backend of a host is used in every view of its class
				id := w.use(tx, view, b, []string{"", "h2c", "kubernetes.io/ws"}[n%3])
				for i := range 2 {
					id.dial = model.DialKey{Client: model.SecretID{Namespace: "ns", Name: fmt.Sprint("cert", i)}}.Dial()
					w.needs.Set(tx, id, model.There{})
				}
			}
			if gone {
				w.p.Backends.Set(tx, backend(b), fleet.Backend{TLS: model.UpstreamTLSKey{Host: "pods.internal", CA: "ca"}.UpstreamTLS()})
			}
		}}
	case 4, 5:
		return op{"group " + b, func(w *world, tx *inc.Tx) {
			w.group(tx, b, "eu-1", endpointAt("10.0.0.1", 80), model.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 1, byte(n)}), Port: 80})
		}}
	case 6:
		return op{"plan " + b + view.Vantage().String(), func(w *world, tx *inc.Tx) {
			s := share("us-1", 1)
			s.State = steer.State(n % 3)
			w.plan(tx, view, b, share("eu-1", 0), s)
		}}
	case 7:
		return op{"chain " + tlsName.String(), func(w *world, tx *inc.Tx) {
			if gone {
				w.p.Chains.Delete(tx, tlsName)
				return
			}
			w.p.Chains.Set(tx, tlsName, fleet.Chain{Secrets: []model.SecretID{secret}})
		}}
	case 8:
		return op{"last parts of " + b, func(w *world, tx *inc.Tx) {
			w.t.LastParts.Set(tx, backend(b), Parts(1<<(n%3)))
		}}
	case 9:
		return op{"plan " + b + view.Vantage().String(), func(w *world, tx *inc.Tx) {
			w.p.Plans.Set(tx, need{view: view, backend: backend(b)}.use(), steer.Plan{Shares: []steer.Share{share("eu-1", 0)}, Unsure: !gone})
		}}
	}
	switch kind {
	case 12, 13:
		pass := rapid.Bool().Draw(t, "pass")
		if host.Wildcard() && !host.Deep() {
			key.Host = "*" + host // those of listeners are of any depth
		}
		return op{"host " + key.String(), func(w *world, tx *inc.Tx) {
			if gone {
				w.p.Hosts.Delete(tx, key)
				return
			}
			w.p.Hosts.Set(tx, key, handedOn(model.Connections, pass, shows, streamed[:1+n%2]...))
		}}
	case 14:
		what := rapid.SampledFrom([]model.Traffic{model.Connections, model.Datagrams}).Draw(t, "traffic")
		return op{"class red", func(w *world, tx *inc.Tx) {
			if gone {
				w.specs.Delete(tx, "red")
				w.p.Hosts.Delete(tx, model.HostKey{Class: "red"})
				return
			}
			w.specs.Set(tx, "red", fleet.ClassInfo{
				Spec: model.ClassSpec{Origin: model.Origin{Created: int64(n), Object: model.Object{Kind: "Gateway", Name: "red"}}}, Lines: true,
				Relay: model.Socket{Number: []uint16{80, 443, 53}[n%3], Traffic: what}, Config: model.ConfigSpec{Timing: timingForTests},
			})
			w.p.Hosts.Set(tx, model.HostKey{Class: "red"}, handedOn(what, false, shows, streamed[:n%3]...))
		}}
	}
	edge := []model.Edge{"fra", "nyc", "par"}[n%3]
	if kind == 10 {
		return op{"clients " + string(edge), func(w *world, tx *inc.Tx) {
			if gone {
				w.t.Clients.Demand.Delete(tx, edge)
				return
			}
			w.t.Clients.Demand.Set(tx, edge, model.There{})
		}}
	}
	return op{"rejection", func(w *world, tx *inc.Tx) {
		id := model.RejectionID{Edge: edge, Type: ClusterType, Name: b}
		res, _ := w.lookIn(w.t.Clusters, view, b)
		w.p.In.Rejections.Set(tx, id, model.Rejection{Version: res.Version, Error: "no", By: []model.Refuser{{Node: "1"}}})
	}}
}

// streamed are the backends that get streams.
var streamed = []string{"ns/x/tls:s", "ns/y/udp:s"}

// someClients are whom a port may let in.
var someClients = []model.ClientTrust{{}, model.ClientTrustKey{CA: "ca"}.ClientTrust(), model.ClientTrustKey{CA: "ca", Fallback: true}.ClientTrust()}

// handedOn is a host whose connections, or datagrams, go to backends; to nobody where
// there is none.
func handedOn(what model.Traffic, pass bool, dial model.Dial, to ...string) fleet.Host {
	of := target("r", to...)
	if len(to) == 0 {
		of.Backends = []model.WeightedBackend{{Weight: 1}}
	}
	return fleet.Host{Traffic: what, Pass: pass, Dial: dial, Roots: []model.Object{rootObject("web")}, Routes: []fleet.Route{{Match: model.Everything, Target: of}}}
}

// someFilters are some of each kind; only those of a rule have mirrors.
var someFilters = []model.Filters{
	{}, {},
	model.FiltersKey{Request: model.HeaderChanges{Set: model.PackedOf(model.Header{Name: "x-a", Value: "1"})}, Rewrite: model.Rewrite{Path: "/"}}.Filters(),
	model.FiltersKey{Mirrors: model.PackedOf(model.Mirror{Backend: backend("ns/x/http"), Part: 1, Of: 2}, model.Mirror{Backend: backend("ns/z/http"), Part: 1, Of: 1})}.Filters(),
	model.FiltersKey{Auth: model.Auth{Backend: backend("ns/x/http"), Path: "/check", Take: model.PackedOf("x-user"), Body: 5}}.Filters(),
	model.FiltersKey{Session: model.Session{Name: "s", Path: "/", Age: 60, First: backend("ns/x/http")}}.Filters(),
	model.FiltersKey{Session: model.Session{Name: "x-s", Header: true}, Retry: model.Retry{Own: true}}.Filters(),
	model.FiltersKey{
		CORS:     model.CORS{Origins: model.PackedOf("https://*.example"), Headers: model.PackedOf("*")},
		Timeouts: model.Timeouts{Request: 10, Backend: model.NoTimeout}, Retry: model.Retry{Own: true, Codes: model.PackedOf[uint16](500), Attempts: 1},
	}.Filters(),
}

// someViews is what every run begins with: fra and par are at one vantage.
func someViews(w *world, tx *inc.Tx) {
	for age, name := range []model.Class{"blue", "green"} {
		row := classInfo(name, int64(1+age), 80, 443, age > 0, false)
		row.Lines = true
		w.specs.Set(tx, name, row)
	}
	w.edge(tx, "fra", model.ViewKey{Classes: "blue,green,red", VantageKey: model.VantageKey{Place: fra}}.View())
	w.edge(tx, "par", model.ViewKey{Classes: "green", VantageKey: model.VantageKey{Place: fra}, IPv6: true}.View())
	w.edge(tx, "nyc", model.ViewKey{Classes: "blue", VantageKey: model.VantageKey{Place: model.Place{Region: "us"}}}.View())
	for i := range 2 {
		w.p.In.Certificates.Set(tx, model.SecretID{Namespace: "ns", Name: fmt.Sprint("cert", i)}, model.Certificate{Chain: []byte("c"), Key: []byte("k")})
	}
}

// text is all that a world gives away, as one text.
func (w *world) text() string {
	var out strings.Builder
	for _, typ := range slices.Concat(w.t.Types(), w.t.Clients.Types()) {
		for _, key := range typ.Table.Keys() {
			r, _ := typ.Table.Get(nil, key)
			fmt.Fprintf(&out, "%s %s %s %v %x\n", key, r.Version, r.Refs(), r.Hosts(), r.Bytes())
			if r.Held() {
				fmt.Fprintln(&out, "  held")
			}
			if r.Unsure() {
				fmt.Fprintln(&out, "  unsure of", r.Family())
			}
		}
	}
	return out.String() + w.findings()
}

// TestResourcesDependOnInputsAlone: after any edits, in any batches, everything
// is as in a fresh world that is given the same rows at once in another order;
// a resource refers only to what is there, and is valid.
func TestResourcesDependOnInputsAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom([]sizes{usual, {treeFrom: 1, part: 1, dealtFrom: 1}}).Draw(rt, "sizes")
		w := newWorldOf(s)
		w.g.Commit(func(tx *inc.Tx) { someViews(w, tx) })
		var last []op
		for range rapid.IntRange(1, 12).Draw(rt, "commits") {
			w.g.Commit(func(tx *inc.Tx) {
				for range rapid.IntRange(1, 4).Draw(rt, "batch") {
					o := drawOp(rt)
					if o.name == "rejection" {
						continue // its version depends on the world: tested apart
					}
					last = append(slices.DeleteFunc(last, func(p op) bool { return p.name == o.name }), o)
					o.do(w, tx)
				}
			})
		}
		fresh := newWorldOf(s)
		fresh.g.Commit(func(tx *inc.Tx) {
			someViews(fresh, tx)
			if len(last) > 0 {
				last = rapid.Permutation(last).Draw(rt, "order")
			}
			for _, o := range last {
				o.do(fresh, tx)
			}
		})
		if a, b := w.text(), fresh.text(); a != b {
			rt.Fatalf("after the edits\n%s\nafresh\n%s", a, b)
		}
		validateAll(rt, w)
	})
}
