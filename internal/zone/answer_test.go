package zone

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
	"pgregory.net/rapid"
)

// world is a small random domain in which names, places and prefixes collide.
type world struct {
	zones  []Spec
	edges  []*Edge
	hosts  map[string][]*Edge // as text; nil: held
	places []PlaceEntry
}

var (
	someHosts = []string{"example", "a.example", "b.example", "b.a.example", "*.example", "*.a.example", "c.b.a.example", "ns.example", "ns.b.example", "x.test"}
	someNames = append([]string{"z.example", "deep.example", "x.deep.example", "y.x.deep.example", "z.a.example", "z.b.a.example", "z.c.b.a.example", "test", "other"}, someHosts...)
	deepHosts = []string{"**.example", "**.a.example", "**.b.a.example", "**.test"}
	someAddrs = addrs([]string{"10.0.0.1", "10.0.0.130", "10.0.1.7", "10.128.0.1", "192.0.2.9", "2001:db8::1", "2001:db8:0:80::1", "2001:db9::5"})
	somePlace = []model.Place{
		{}, {Region: "eu", Zone: "a"}, {Region: "eu", Zone: "b"}, {Region: "us"},
		{Region: "eu", Zone: "a", Latitude: 50, Longitude: 8, Located: true}, {Latitude: -20, Longitude: 8, Located: true},
		{Region: "us", Latitude: 40, Longitude: -74, Located: true}, {Latitude: 50, Longitude: 8, Located: true},
	}
)

func drawWorld(t *rapid.T) world {
	w := world{hosts: map[string][]*Edge{}}
	for i, name := range []string{"d", "b", "c", "a"} {
		v4 := fmt.Sprintf("203.0.113.%d", i)
		v6 := fmt.Sprintf("2001:db8:ff::%d", i)
		all := addrs([]string{v4, v6, "203.0.113.9"})
		w.edges = append(w.edges, NewEdge(model.Edge(name), rapid.SampledFrom(somePlace).Draw(t, "edge"), all[rapid.IntRange(0, 2).Draw(t, "from"):rapid.IntRange(2, 3).Draw(t, "to")]))
	}
	for _, apex := range []string{"example", "a.example", "x.deep.example"} {
		if apex == "example" || rapid.Bool().Draw(t, "inner zone") {
			spec := Spec{Apex: wire(apex), TTL: 60, ServerTTL: 600, Answers: rapid.IntRange(0, 4).Draw(t, "answers"), Held: rapid.IntRange(0, 3).Draw(t, "held") == 0}
			spec.SOA.Minimum = 30
			if rapid.Bool().Draw(t, "ns") {
				spec.NameServers = []NameServer{{Host: wire("ns.b." + apex), Addresses: someAddrs[:1]}, {Host: wire("ns.test")}}
			}
			w.zones = append(w.zones, spec)
		}
	}
	for range rapid.IntRange(0, 6).Draw(t, "hosts") {
		w.hosts[rapid.SampledFrom(slices.Concat(deepHosts, someHosts)).Draw(t, "host")] = drawEdges(t, w.edges)
	}
	seen := map[netip.Prefix]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "places") {
		a := rapid.SampledFrom(someAddrs).Draw(t, "around")
		p, _ := a.Prefix(rapid.SampledFrom([]int{0, 8, 9, 22, 23, 24, 25, 32}).Draw(t, "bits") * a.BitLen() / 32)
		if !seen[p] {
			w.places = append(w.places, PlaceEntry{p, rapid.SampledFrom(somePlace).Draw(t, "place")})
		}
		seen[p] = true
	}
	return w
}

func drawEdges(t *rapid.T, from []*Edge) []*Edge {
	if rapid.IntRange(0, 8).Draw(t, "held host") == 0 {
		return nil
	}
	out := []*Edge{}
	for _, e := range from {
		if rapid.Bool().Draw(t, "serves") {
			out = append(out, e)
		}
	}
	return out
}

// snapshot builds the world in a random order, with detours that must leave no trace.
func (w world) snapshot(t *rapid.T) *Snapshot {
	var steps []func(*Snapshot) *Snapshot
	for _, spec := range w.zones {
		steps = append(steps, func(s *Snapshot) *Snapshot { return s.WithZone(NewZone(spec)) })
	}
	for _, host := range slices.Sorted(maps.Keys(w.hosts)) {
		edges, set := w.hosts[host], HeldRecordSet()
		if edges != nil {
			set = NewRecordSet(edges)
		}
		steps = append(steps, func(s *Snapshot) *Snapshot { return s.WithHost(wire(host), set) })
	}
	s := &Snapshot{}
	for _, step := range rapid.Permutation(steps).Draw(t, "order") {
		detour := wire(rapid.SampledFrom(slices.Concat(deepHosts, someHosts)).Draw(t, "detour"))
		if _, in := w.hosts[text(detour)]; !in {
			s = s.WithHost(detour, NewRecordSet(w.edges)).WithZone(NewZone(Spec{Apex: wire("deep.er.test")}))
			s = s.WithHost(detour, nil).WithoutZone(wire("deep.er.test"))
		}
		s = step(s)
	}
	table, err := NewPlaces(w.places)
	if err != nil {
		t.Fatal(err)
	}
	return s.WithPlaces(table)
}

func wire(s string) Name {
	n, err := ParseName(s)
	if err != nil {
		panic(err)
	}
	return n
}

func text(n Name) string { return strings.TrimSuffix(n.String(), ".") }

// ask is the dumb twin of Answer: it looks at everything it has, as text, and
// knows neither tries, nor counts of children, nor unit vectors.
func (w world) ask(qname string, t Type, c Client) string {
	var z *Spec
	for i, spec := range w.zones {
		if apex := text(spec.Apex); (qname == apex || strings.HasSuffix(qname, "."+apex)) && (z == nil || len(spec.Apex) > len(z.Apex)) {
			z = &w.zones[i]
		}
	}
	if z == nil {
		return show(Response{RCode: Refused})
	}
	soa := Record{Owner: z.Apex, Type: TypeSOA, TTL: 30, SOA: &z.SOA}
	no := func(code RCode) string {
		return show(Response{RCode: code, Authoritative: true, Authority: []Record{soa}})
	}
	apex := text(z.Apex)
	address := t == TypeA || t == TypeAAAA
	if len(z.NameServers) > 0 && qname == "ns.b."+apex {
		if t == TypeA {
			return show(Response{Authoritative: true, Answer: []Record{{Type: TypeA, TTL: 600, Addr: someAddrs[0]}}})
		}
		return no(NoError)
	}
	_, up, _ := strings.Cut(qname, ".")
	edges, live := w.hosts[qname]
	if wild, ok := w.hosts["*."+up]; ok && !live && qname != apex {
		edges, live = wild, true
	}
	for ; !live && (up == apex || strings.HasSuffix(up, "."+apex)); _, up, _ = strings.Cut(up, ".") {
		edges, live = w.hosts["**."+up]
	}
	_, exact := w.hosts[qname]
	if z.Held && (!exact || strings.HasPrefix(qname, "*.")) {
		live = false
	}
	exists := live || qname == apex || len(z.NameServers) > 0 && qname == "b."+apex
	for _, other := range w.zones {
		exists = exists || strings.HasSuffix(text(other.Apex), "."+qname)
	}
	for host := range w.hosts {
		exists = exists || strings.HasSuffix(host, "."+qname)
	}
	switch {
	case !live && z.Held && (address || !exists):
		return show(Response{RCode: ServFail})
	case !exists:
		return no(NXDomain)
	case !live:
		return no(NoError)
	}
	if !address {
		return no(NoError)
	}
	if edges == nil {
		return show(Response{RCode: ServFail})
	}
	return w.pick(*z, edges, t, c, no)
}

// pick sorts all edges by all that counts and takes the first ones.
func (w world) pick(z Spec, edges []*Edge, t Type, c Client, no func(RCode) string) string {
	at, bits := w.locate(c)
	sorted := slices.DeleteFunc(slices.Clone(edges), func(e *Edge) bool { return len(e.v4) == 0 && len(e.v6) == 0 })
	key := func(e *Edge) []float64 {
		sameRegion := at.Region != "" && at.Region == e.place.Region
		tier := 2.0
		if sameRegion {
			tier = 1
		}
		if sameRegion && at.Zone != "" && at.Zone == e.place.Zone {
			tier = 0
		}
		km, ok := model.Kilometres(at, e.place)
		if !ok {
			km = farthest
		}
		return []float64{tier, float64(int(km))}
	}
	slices.SortFunc(sorted, func(a, b *Edge) int {
		return cmp.Or(slices.Compare(key(a), key(b)), cmp.Compare(a.name, b.name))
	})
	n := min(max(z.Answers, 1), len(sorted))
	picked := slices.Clone(sorted[:n])
	has := func(e *Edge) bool { return len(e.Addresses(t)) > 0 }
	if i := slices.IndexFunc(sorted, has); i >= 0 && !slices.ContainsFunc(picked, has) {
		picked = append(picked, sorted[i])
	}
	if len(sorted) < 2 {
		bits = 0
	}
	r := Response{Authoritative: true, Scope: bits}
	for _, e := range picked {
		for _, a := range e.Addresses(t) {
			r.Answer = append(r.Answer, Record{Type: t, TTL: 60, Addr: a})
		}
	}
	if len(r.Answer) > 0 {
		return show(r)
	}
	return no(NoError)
}

// locate places the subnet, else the resolver. A private subnet is placed by no
// network larger than the private one.
func (w world) locate(c Client) (model.Place, int) {
	limit := 0
	if c.Subnet.IsValid() && c.Subnet.Bits() > 0 {
		limit, least := 56, 0
		if c.Subnet.Addr().Is4() {
			limit = 24
		}
		addr := netip.PrefixFrom(c.Subnet.Addr(), min(limit, c.Subnet.Bits())).Masked().Addr()
		if first := addr.AsSlice()[0]; first == 0 || addr.Is4() && first == 10 {
			least = 8
		}
		place, bits, ok := w.longest(addr, least)
		if ok {
			for mixesLocal(addr, bits) {
				bits++
			}
			return place, min(bits, limit)
		}
		place, _, _ = w.longest(c.Addr, 0)
		return place, min(bits, limit)
	}
	place, _, _ := w.longest(c.Addr, 0)
	return place, limit
}

// mixesLocal tells whether so many bits of an address are also those of others that
// are in a local network, or are not in its own.
func mixesLocal(addr netip.Addr, bits int) bool {
	around, _ := addr.Prefix(bits)
	return slices.ContainsFunc(slices.Concat(local4, local6), func(p network) bool { return p.Overlaps(around) && p.Bits() > bits })
}

// longest finds the longest prefix by looking at all, and the scope by its
// definition: the fewest bits whose other addresses all have the same answer in
// the table, as far as its prefixes tell.
func (w world) longest(addr netip.Addr, least int) (model.Place, int, bool) {
	var best netip.Prefix
	var place model.Place
	for _, e := range w.places {
		if e.Prefix.Contains(addr) && e.Prefix.Bits() >= least && (!best.IsValid() || e.Prefix.Bits() > best.Bits()) {
			best, place = e.Prefix, e.Place
		}
	}
	for bits := least; ; bits++ {
		around, _ := addr.Prefix(bits)
		mixed := slices.ContainsFunc(w.places, func(e PlaceEntry) bool {
			return e.Prefix.Overlaps(around) && e.Prefix.Bits() > bits
		})
		if !mixed {
			return place, bits, best.IsValid()
		}
	}
}

func drawClient(t *rapid.T) Client {
	c := Client{Addr: rapid.SampledFrom(someAddrs).Draw(t, "from")}
	if rapid.Bool().Draw(t, "subnet") {
		a := rapid.SampledFrom(someAddrs).Draw(t, "client")
		c.Subnet, _ = a.Prefix(rapid.IntRange(0, a.BitLen()).Draw(t, "source"))
	}
	return c
}

// TestAnswerHasADumbTwin compares answers on random small worlds.
func TestAnswerHasADumbTwin(t *testing.T) {
	types := []Type{TypeA, TypeA, TypeAAAA, 16}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		s := w.snapshot(t)
		for range 10 {
			qname, qtype, c := rapid.SampledFrom(someNames).Draw(t, "name"), rapid.SampledFrom(types).Draw(t, "type"), drawClient(t)
			got := show(Answer(s, Question{Name: []byte(wire(qname)), Type: qtype, Class: ClassIN}, c))
			if want := w.ask(qname, qtype, c); got != want {
				t.Fatalf("%s %s for %+v\ngot %swant %s", qtype, qname, c, got, want)
			}
		}
	})
}
